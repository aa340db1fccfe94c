"""`type = "writer"`: Writer's chat, nearly the wire of `chat`, with a tool choice of its own shape."""

from msgspec.structs import replace

from antiphon.config import HttpSettings
from antiphon.providers.base import Environment
from antiphon.providers.chat import ChatUpstream
from antiphon.providers.chat.profiles import Profile

BASE_URL = "https://api.writer.com/v1"

PROFILE = Profile(
    "writer",
    common=frozenset({"temperature", "top_p"}),
    takes=frozenset({"logprobs"}),
    extra=frozenset({"stop"}),
    text_parts=True,
    image_details=False,
    strict_tools=False,
    wraps_tool_choice=True,
    alternatives=False,
    refusals=True,
    reasoning=False,
    json_object=False,
)


class WriterSettings(HttpSettings, frozen=True, kw_only=True):
    """It has no keys of its own."""


class Writer(ChatUpstream):
    Settings = WriterSettings

    def __init__(self, settings: WriterSettings, environment: Environment) -> None:
        base_url = (settings.base_url or BASE_URL).rstrip("/").removesuffix("/chat")
        super().__init__(replace(settings, base_url=base_url), environment, PROFILE)
        self._url = f"{self._base}/chat"
