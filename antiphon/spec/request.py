"""The request, as typed data; every field that is absent keeps its default."""

from typing import Literal, TypeVar

from msgspec import UNSET, Struct, field, structs

from antiphon.spec.codec import Opaque, encode
from antiphon.spec.items import Item
from antiphon.spec.limits import Identifier, MaxOutputTokens, MaxToolCalls, Metadata, Text, TopLogprobs
from antiphon.spec.response import Effort, Summary, Truncation
from antiphon.spec.tools import Format, Tool, ToolChoice, Verbosity

ServiceTier = Literal["auto", "default", "flex", "priority", "standard", "batch"]
Include = Literal[
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
    "file_search_call.results",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
]


class ReasoningParam(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How much to reason, and whether to summarise it."""

    effort: Effort | None = None
    summary: Summary | None = None


class TextParam(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The format and the verbosity of the answer's text."""

    format: Format | None = None
    verbosity: Verbosity | None = None


class StreamOptions(Struct, forbid_unknown_fields=True):
    """Options of a stream."""

    include_obfuscation: bool = False


class Request(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The body of `POST /v1/responses`, and of a WebSocket `response.create`."""

    model: str | None = None
    input: Text | list[Item] | None = None
    instructions: Text | None = None
    previous_response_id: str | None = None
    conversation: str | None = None
    tools: list[Tool] = field(default_factory=list)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: MaxToolCalls | None = None
    text: TextParam | None = None
    reasoning: ReasoningParam | None = None
    include: list[Include] = field(default_factory=list)
    max_output_tokens: MaxOutputTokens | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_logprobs: TopLogprobs | None = None
    truncation: Truncation | None = None
    metadata: Metadata | None = None
    service_tier: ServiceTier | None = None
    safety_identifier: Identifier | None = None
    prompt_cache_key: Identifier | None = None
    store: bool = True
    background: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    chat: str | None = field(name="antiphon:chat", default=None)
    """The chat of the gateway that the response joins."""


SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
"""Parameters that say how the next token is chosen."""
PROVIDER_PARAMETERS = (
    *SAMPLING,
    "top_logprobs",
    "max_output_tokens",
    "reasoning",
    "text.verbosity",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
)
"""Parameters that only a provider can honour; the gateway sees to the others itself."""
NOT_FORWARDED = frozenset({"client_metadata", "generate", "type"})
"""Fields that agent clients add for their own back end, or that belong to the transport."""


class WebSocketCreate(Request, tag_field="type", tag="response.create", kw_only=True):
    """A `response.create` message; `generate: false` warms the connection without an answer."""

    generate: bool = True


class CompactRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/responses/compact`."""

    model: str
    input: Text | list[Item] | None = None
    instructions: Text | None = None
    previous_response_id: str | None = None
    prompt_cache_key: Identifier | None = None


S = TypeVar("S", bound=Struct)


def encode_request(request: Request) -> bytes:
    """A request for another server. Tools and formats say `null` where a response must, a request may not."""
    tools = [tool if isinstance(tool, Opaque) else without_nulls(tool) for tool in request.tools]
    text = request.text
    if text is not None and text.format is not None:
        text = structs.replace(text, format=without_nulls(text.format))
    return encode(structs.replace(request, tools=tools, text=text))


def without_nulls(value: S) -> S:
    """The same without the keys that say `null`."""
    nulls = [name for name in value.__struct_fields__ if getattr(value, name) is None]
    return structs.replace(value, **dict.fromkeys(nulls, UNSET))
