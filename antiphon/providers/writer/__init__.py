"""`type = "writer"`: Writer's chat, nearly the wire of `chat`, with a tool choice of its own shape."""

from collections.abc import Mapping

from antiphon.config import ProviderSettings as ProviderConfig
from antiphon.config import Secret, UpstreamTimeouts, WriterProvider
from antiphon.providers.base import Environment
from antiphon.providers.chat import Chat
from antiphon.providers.chat.profiles import Profile
from antiphon.providers.http import UpstreamClient

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


class Writer(Chat):
    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str = BASE_URL,
        *,
        api_key: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        timeouts: UpstreamTimeouts | None = None,
    ) -> None:
        super().__init__(
            name,
            http,
            base_url.rstrip("/").removesuffix("/chat"),
            api_key=api_key,
            headers=headers,
            profile=PROFILE,
            timeouts=timeouts,
        )
        self._url = f"{self._base}/chat"


def make(name: str, config: ProviderConfig, environment: Environment) -> Writer:
    assert isinstance(config, WriterProvider)
    return Writer(
        name,
        environment.http,
        config.base_url or BASE_URL,
        api_key=config.api_key,
        headers=config.headers,
        timeouts=config.timeouts,
    )
