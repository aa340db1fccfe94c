"""From Python arguments to the body of a request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from antiphon.client.errors import UsageError
from antiphon.client.settings import Timeouts
from antiphon.client.watching import Watch
from antiphon.spec.codec import Opaque, encode, to_builtins
from antiphon.spec.items import Item, Reasoning
from antiphon.spec.request import Include, ReasoningParam, ServiceTier, StreamOptions, TextParam
from antiphon.spec.response import Truncation
from antiphon.spec.tools import Tool, ToolChoice

Json = Mapping[str, object]
InputItem = Item | Json
"""An item, or its JSON as a mapping."""
Input = str | InputItem | Iterable[InputItem]
"""What `input` may be: a text, an item, or several items."""
InputTool = Tool | Json
"""A tool, or its JSON as a mapping."""


class RequestOptions(TypedDict, total=False):
    """What every call takes beside its own parameters."""

    extra_body: Json
    """Fields of the body that this package does not know; they win over its own."""
    extra_headers: Mapping[str, str]
    timeouts: Timeouts
    watch: Watch
    """Sees the bytes of the call as they go and come; turns over a WebSocket are not seen."""


class Parameters(RequestOptions, total=False):
    """The parameters of a request, as the specification names them; None is the same as leaving it out."""

    instructions: str | None
    previous_response_id: str | None
    conversation: str | None
    tools: Iterable[InputTool] | None
    tool_choice: ToolChoice | Json | None
    parallel_tool_calls: bool | None
    max_tool_calls: int | None
    text: TextParam | Json | None
    reasoning: ReasoningParam | Json | None
    include: Sequence[Include] | None
    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    top_logprobs: int | None
    truncation: Truncation | None
    metadata: Mapping[str, str] | None
    service_tier: ServiceTier | None
    safety_identifier: str | None
    prompt_cache_key: str | None
    store: bool | None
    background: bool | None
    stream_options: StreamOptions | Json | None
    chat: str | None
    """The chat of an Antiphon gateway that the response joins."""


_OPTIONS = frozenset(RequestOptions.__annotations__)
_KNOWN = frozenset(Parameters.__annotations__)
_WIRE_NAMES = {"chat": "antiphon:chat"}


def request_body(input: Input | None, model: str | None, parameters: Parameters) -> dict[str, object]:
    """The fields of a request that were given; what is None or blank was not."""
    unknown = parameters.keys() - _KNOWN
    if unknown:
        names = ", ".join(sorted(unknown))
        raise UsageError(
            f"unknown parameter {names}; what the specification does not have goes in `extra_body`"
        )
    body: dict[str, object] = {"model": model, "input": items_of(input)}
    body |= {_WIRE_NAMES.get(name, name): value for name, value in parameters.items() if name not in _OPTIONS}
    tools = parameters.get("tools")
    if tools is not None:
        body["tools"] = [_tool(tool) for tool in tools]
    body = {
        name: value for name, value in body.items() if value is not None and (value != "" or name == "input")
    }
    return body | dict(parameters.get("extra_body", {}))


def items_of(input: Input | None) -> str | list[InputItem] | None:
    """The input as it goes on the wire: a text, or a list of items."""
    if input is None or isinstance(input, str):
        return input
    if isinstance(input, Struct | Opaque | Mapping):
        return [input]
    try:
        return list(input)
    except TypeError:
        raise UsageError(f"input is a text or a list of items, not {type(input).__name__}") from None


def item_list(input: Input | None) -> list[InputItem]:
    """The input as items; a text is a user's message."""
    items = items_of(input)
    if isinstance(items, str):
        return [{"type": "message", "role": "user", "content": items}]
    return items or []


def as_input(item: Item) -> Item:
    """An item of output as it may stand in an input: the specification takes no raw reasoning there."""
    return replace(item, content=None) if isinstance(item, Reasoning) else item


def encoded(body: object) -> bytes:
    try:
        return encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from None


def _tool(tool: InputTool) -> InputTool:
    """Responses say `null` where requests must leave out."""
    if not isinstance(tool, Struct):
        return tool
    return {name: value for name, value in to_builtins(tool).items() if value is not None}
