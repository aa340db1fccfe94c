"""The request, as typed data, and the response that repeats it at its start."""

from collections.abc import Mapping
from operator import attrgetter
from typing import ClassVar, Literal, TypeVar

from msgspec import UNSET, Struct, field, structs

from antiphon.spec import ids, limits
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.items import Item, Message
from antiphon.spec.response import Effort, ReasoningOptions, Response, Summary, Truncation
from antiphon.spec.tools import Format, TextFormat, TextOptions, Tool, ToolChoice, Verbosity

ServiceTier = Literal[
    "auto", "default", "flex", "priority", "standard", "batch", "scale", "fast", "ultrafast", "on_demand"
]
USUAL_TIERS: tuple[ServiceTier, ...] = ("auto", "default", "flex", "priority", "standard", "batch")
"""Those that every dialect takes."""
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

    always_streams: ClassVar[bool] = False
    """Is it answered with events, whatever `stream` says?"""

    model: str | None = None
    """A configured name, or `PROVIDER/model`. Without one, the default model answers."""
    input: limits.Text | list[Item] | None = None
    """A text, or a list of items. It may be absent where there is something else to answer."""
    instructions: limits.Text | None = None
    """A system message for this response only; a continuation does not inherit it."""
    previous_response_id: str | None = None
    """Continue this response: its context and its output come before `input`."""
    conversation: str | None = None
    """Continue this conversation, and add to it. Not together with `previous_response_id`."""
    tools: list[Tool] = field(default_factory=list)
    """The tools that the model may call. All of them go to the model, whatever `tool_choice` says."""
    tool_choice: ToolChoice | None = None
    """`none`, `auto`, `required`, one function, or `allowed_tools`; enforced on the output."""
    parallel_tool_calls: bool | None = None
    """With `false`, at most one call is let through."""
    max_tool_calls: limits.MaxToolCalls | None = None
    """How many calls are let through; more of them end the response as `incomplete`."""
    text: TextParam | None = None
    """The form of the answer. A `json_schema` is enforced, or the answer is checked against it."""
    reasoning: ReasoningParam | None = None
    """How much the model should reason, and whether it should summarise its reasoning."""
    include: list[Include] = field(default_factory=list)
    """More in the answer: encrypted reasoning, log probabilities."""
    max_output_tokens: limits.MaxOutputTokens | None = None
    """At least 16. Reaching it ends the response as `incomplete`."""
    temperature: float | None = None
    """Sampling temperature, if the provider takes one."""
    top_p: float | None = None
    """Nucleus sampling, if the provider takes it."""
    presence_penalty: float | None = None
    """Above 0, the model repeats words less; if the provider takes it."""
    frequency_penalty: float | None = None
    """The same, in proportion to how often a word occurred; if the provider takes it."""
    top_logprobs: limits.TopLogprobs | None = None
    """0 to 20 alternatives for each token, where the provider gives them."""
    truncation: Truncation | None = None
    """`auto` leaves out the oldest items of an input that does not fit; else that is an error."""
    metadata: limits.Metadata | None = None
    """Up to 16 pairs, kept with the response."""
    service_tier: ServiceTier | None = None
    """Which of the provider's tiers is to answer, where it has some."""
    safety_identifier: limits.SafetyIdentifier | None = None
    """An id of the end user, for providers that take one."""
    prompt_cache_key: limits.Identifier | None = None
    """Helps providers to find a cached prompt."""
    store: bool = True
    """`false`: nothing is written, and the response cannot be read or continued over HTTP."""
    background: bool = False
    """Answer at once and work on without the caller. Needs `store`."""
    stream: bool = False
    """Answer with server-sent events."""
    stream_options: StreamOptions | None = None
    """`include_obfuscation: true` hides the length of words in the size of packets."""
    chat: str | None = field(name="antiphon:chat", default=None)
    """The chat that the response joins, under the one that it continues. Needs `store`."""

    def last_user_text(self) -> str:
        """What the user said last, as text; empty when no message of a user is in the input.

        >>> Request(input="Hello").last_user_text()
        'Hello'
        """
        if not isinstance(self.input, list):
            return self.input or ""
        messages = (
            item for item in reversed(self.input) if isinstance(item, Message) and item.role == "user"
        )
        return next((message.get_text() for message in messages), "")


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
NOT_FORWARDED = frozenset({"antiphon:route", "client_metadata", "generate", "stream_id", "type"})
"""Fields that agent clients add for their own back end, or that belong to the transport."""


class WebSocketCreate(Request, tag_field="type", tag="response.create", kw_only=True):
    """A `response.create` message; `generate: false` warms the connection without an answer."""

    always_streams: ClassVar[bool] = True
    generate: bool = True
    stream_id: limits.StreamId | None = None
    """Every event of the turn repeats it."""


class CompactRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/responses/compact`."""

    model: str
    input: limits.Text | list[Item] | None = None
    instructions: limits.Text | None = None
    previous_response_id: str | None = None
    prompt_cache_key: limits.Identifier | None = None


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


get_sampling = attrgetter(*SAMPLING)
NO_SAMPLING = (None,) * len(SAMPLING)
"""What `get_sampling` finds in a request that leaves them all to the provider, as most do."""


def new_response(
    request: Request, model: str, now: float, defaults: Mapping[str, float] | None = None
) -> Response:
    """`model` is what the client asked for, or the name of the default model; `defaults` are a provider's."""
    response = Response(
        id=ids.new_id(ids.RESPONSE),
        created_at=int(now),
        model=model,
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        store=request.store,
        background=request.background,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        safety_identifier=request.safety_identifier,
        prompt_cache_key=request.prompt_cache_key,
    )
    if defaults:
        for name, value in defaults.items():
            setattr(response, name, value)
    if (sampling := get_sampling(request)) != NO_SAMPLING:
        for name, value in zip(SAMPLING, sampling, strict=True):
            if value is not None:
                setattr(response, name, value)
    if request.conversation:
        response.conversation = {"id": request.conversation}
    if request.tools:
        response.tools = list(request.tools)
    if request.truncation:
        response.truncation = request.truncation
    if request.top_logprobs:
        response.top_logprobs = request.top_logprobs
    text, reasoning = request.text, request.reasoning
    if request.tool_choice is not None:
        response.tool_choice = request.tool_choice
    if text is not None:
        response.text = TextOptions(text.format or TextFormat(), verbosity=text.verbosity)
    if reasoning is not None:
        response.reasoning = ReasoningOptions(reasoning.effort, reasoning.summary)
    if request.service_tier is not None and request.service_tier != "auto":
        response.service_tier = request.service_tier
    if request.metadata:
        response.metadata = dict(request.metadata)
    return response
