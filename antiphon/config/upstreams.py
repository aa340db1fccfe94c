"""The tables `[providers.NAME]`: what every upstream has, and the keys of each type of ours."""

from collections.abc import Mapping
from functools import cached_property
from math import inf
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, field
from msgspec.structs import replace

from antiphon.config.kinds import ExtraOptions, Name, Profile, Seconds, Section, SectionType, Url, Variable
from antiphon.config.mistakes import Where
from antiphon.config.secret import Secret
from antiphon.spec.history_text import SystemPrompt, ToolHistory

Tokens = Annotated[int, Meta(ge=1, le=2**24, description="a number of tokens")]


class UpstreamTimeouts(Section, frozen=True, kw_only=True, dict=True):
    """How long an upstream may take, in seconds; 0 is no limit."""

    connect: Seconds = 10.0
    first_byte: Seconds = 300.0
    whole: Seconds = 900.0
    idle: Seconds = 120.0
    total: Seconds = 7200.0

    def patient(self, *, stream: bool) -> "UpstreamTimeouts":
        """The limits for one answer: one that is not streamed begins only when it is complete."""
        if stream:
            return self
        total = min(self.total, self.whole) if self.total and self.whole else self.total or self.whole
        return replace(self, first_byte=self.whole, total=total)

    @cached_property
    def soonest(self) -> float:
        """After how many seconds an answer may have taken too long, at the earliest."""
        return min(limit or inf for limit in (self.first_byte, self.idle, self.total, self.whole))


class ProviderSettings(Section, frozen=True, kw_only=True):
    """An upstream. Types that are not described here keep their own keys in `options`."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name", "origin", "options"})
    rest: ClassVar[str | None] = "options"

    type: Name
    base_url: Url | None = None
    api_key: Secret | None = None
    api_key_env: Variable | None = None
    timeouts: UpstreamTimeouts = field(default_factory=UpstreamTimeouts)
    name: str = ""
    origin: Where = Where("built in")
    """Where the type is set."""
    options: ExtraOptions = field(default_factory=ExtraOptions)

    @classmethod
    def variant(cls, raw: Mapping[str, Any]) -> "SectionType":
        kind = raw.get("type")
        return DESCRIBED.get(kind, cls) if isinstance(kind, str) else cls


class OurProvider(ProviderSettings, frozen=True, kw_only=True):
    """A type that is described here in full, so that an unknown key is a mistake."""

    rest: ClassVar[str | None] = None
    needs_base_url: ClassVar[bool] = False


class LlamaProvider(OurProvider, frozen=True, kw_only=True):
    """`type = "llama"`: the embedded model, described by `[local]`."""


class ScriptProvider(OurProvider, frozen=True, kw_only=True):
    """`type = "script"`: answers that were written down before."""

    file: Name | None = None
    from_requests: bool = True


class HttpProvider(OurProvider, frozen=True, kw_only=True):
    """An upstream over HTTP, with headers of the user's own."""

    headers: dict[str, Secret] = field(default_factory=dict)


class ChatProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "chat"`: an OpenAI-compatible `/chat/completions`."""

    needs_base_url: ClassVar[bool] = True

    profile: Profile | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    think_tags: bool | None = None


class AzureProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "azure"`: Azure OpenAI; the upstream model is the name of a deployment."""

    needs_base_url: ClassVar[bool] = True

    api_version: Name | None = None
    auth: Literal["api-key", "bearer"] = "api-key"
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None


class WriterProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "writer"`: Writer's chat."""


class AnthropicProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "anthropic"`: the Messages API."""

    version: Name | None = None
    beta: tuple[Name, ...] = ()
    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    max_tokens: Tokens | None = None
    cache: bool = True


class GeminiProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "gemini"`: the Gemini API."""


class VertexProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "vertex"`: Gemini on Vertex AI."""

    project: Name | None = None
    location: Name = "global"
    credentials: Name | None = None


class BedrockProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "bedrock"`: Converse on AWS Bedrock."""

    region: Name | None = None
    profile: Name | None = None
    guardrail: Name | None = None
    guardrail_version: Name = "DRAFT"
    cache: bool = True
    like: Name | None = None


class OllamaProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "ollama"`: Ollama's native `/api/chat`; its `options` are Ollama's own."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name", "origin"})

    keep_alive: Name | None = None


class ResponsesProvider(HttpProvider, frozen=True, kw_only=True):
    """`type = "responses"`: any Open Responses or OpenAI Responses server."""

    needs_base_url: ClassVar[bool] = True

    quirks: Literal["open_responses", "openai", "ai_gateway", "lmstudio", "vllm", "ollama"] | None = None
    tool_history: ToolHistory | None = None
    system_prompt: SystemPrompt | None = None
    websocket: bool = False
    fallback: bool = True


DESCRIBED: Final[Mapping[str, type[ProviderSettings]]] = {
    "anthropic": AnthropicProvider,
    "azure": AzureProvider,
    "bedrock": BedrockProvider,
    "chat": ChatProvider,
    "gemini": GeminiProvider,
    "llama": LlamaProvider,
    "ollama": OllamaProvider,
    "responses": ResponsesProvider,
    "script": ScriptProvider,
    "vertex": VertexProvider,
    "writer": WriterProvider,
}
