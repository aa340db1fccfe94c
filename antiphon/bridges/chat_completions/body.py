"""The body of `POST /v1/chat/completions` as typed data: what OpenAI's API takes, with its older forms."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct
from msgspec import field as wire

from antiphon.spec import limits
from antiphon.spec.request import ServiceTier
from antiphon.spec.response import Effort
from antiphon.spec.tools import ToolChoiceMode, Verbosity

_Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
_Count = Annotated[int, Meta(ge=1, le=limits.MAX_INTEGER)]
_Whole = Annotated[int, Meta(ge=-limits.MAX_INTEGER, le=limits.MAX_INTEGER)]


class FunctionCallBody(Struct, forbid_unknown_fields=True):
    """What a model once called; its arguments are JSON in a string."""

    name: limits.FunctionName
    arguments: str = ""


class CustomCallBody(Struct, forbid_unknown_fields=True):
    """A call of a custom tool; its input is any text."""

    name: str
    input: str = ""


class ToolCallBody(Struct, forbid_unknown_fields=True):
    """A call in a message of the assistant."""

    id: Annotated[str, Meta(min_length=1)]
    type: Literal["function", "custom"] | None = None
    function: FunctionCallBody | None = None
    custom: CustomCallBody | None = None


class ChatMessage(Struct, kw_only=True, forbid_unknown_fields=True):
    """A message of any role."""

    role: _Role
    content: limits.Text | list[Raw] | None = None
    """A text, or a list of parts."""
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallBody] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCallBody | None = None
    reasoning_content: str | None = None
    """What the model thought, as an answer of this API told it."""
    reasoning: Any = None
    """The same under the name that other servers have for it."""
    reasoning_details: list[dict[str, Any]] | None = None
    """The sealed proofs of it, as they came."""
    annotations: Any = None
    """Those of an answer that comes back: they are not for the model."""
    audio: None = None


class FunctionBody(Struct, forbid_unknown_fields=True):
    """A function that the model may call."""

    name: limits.FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class CustomBody(Struct, forbid_unknown_fields=True):
    """A tool whose input is any text, or held to a grammar."""

    name: str
    description: str | None = None
    format: dict[str, Any] | None = None


class ToolBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A tool; one of another type goes to the provider as it is, if that takes it."""

    type: Annotated[str, Meta(min_length=1)] = "function"
    """Clients of Mistral leave it out."""
    function: FunctionBody | None = None
    custom: CustomBody | None = None


class NamedBody(Struct):
    name: str


class AllowedToolsBody(Struct):
    tools: Annotated[list["ToolChoiceBody"], Meta(min_length=1, max_length=128)]
    mode: Literal["auto", "required"] = "auto"


class ToolChoiceBody(Struct):
    """One tool, or a set of allowed ones."""

    type: Literal["function", "custom", "allowed_tools"] = "function"
    function: NamedBody | None = None
    custom: NamedBody | None = None
    allowed_tools: AllowedToolsBody | None = None


class JsonSchemaBody(Struct, forbid_unknown_fields=True):
    name: str = "response"
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseFormatBody(Struct, forbid_unknown_fields=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaBody | None = None


class StreamOptionsBody(Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None
    """A last chunk with the usage."""
    include_obfuscation: bool | None = None


class ChatCompletionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /v1/chat/completions`."""

    model: str | None = None
    """A configured name, or `PROVIDER/model`. Without one, the default model answers."""
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    """The whole conversation."""
    stream: bool | None = None
    stream_options: StreamOptionsBody | None = None
    tools: list[ToolBody] | None = None
    tool_choice: ToolChoiceMode | Literal["any"] | ToolChoiceBody | None = None
    """`any` is Mistral's word for `required`."""
    parallel_tool_calls: bool | None = None
    functions: list[FunctionBody] | None = None
    """The older form of `tools`; the answer has a `function_call` then."""
    function_call: Literal["none", "auto"] | NamedBody | None = None
    response_format: ResponseFormatBody | None = None
    max_completion_tokens: _Count | None = None
    max_tokens: _Count | None = None
    """The older name of `max_completion_tokens`."""
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: limits.TopLogprobs | None = None
    n: _Count | None = None
    """One answer; ask again for another."""
    stop: str | list[str] | None = None
    seed: _Whole | None = None
    logit_bias: dict[str, float] | None = None
    reasoning_effort: Effort | Literal["minimal"] | None = None
    verbosity: Verbosity | None = None
    service_tier: ServiceTier | None = None
    prompt_cache_key: limits.Identifier | None = None
    safety_identifier: limits.SafetyIdentifier | None = None
    user: str | None = None
    """The older name of `safety_identifier`."""
    store: bool | None = None
    """`true`: the run is kept as a response, under the id of the answer."""
    metadata: limits.Metadata | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    """Only text is answered."""
    audio: dict[str, Any] | None = None
    """Only text is answered."""
    web_search_options: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    route: dict[str, Any] | None = wire(name="antiphon:route", default=None)
    """What is said about the task, where a route chooses by it."""


PASSED_ON = (
    "stop",
    "seed",
    "logit_bias",
    "web_search_options",
    "prediction",
    "prompt_cache_retention",
    "route",
)
"""Fields that a request has no name of its own for: they reach the providers that know them."""
