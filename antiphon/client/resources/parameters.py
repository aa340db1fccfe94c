"""Converts Python arguments to the body of a request."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from antiphon.client.errors import UsageError
from antiphon.client.settings import Timeouts
from antiphon.spec.codec import Opaque, encode, to_builtins
from antiphon.spec.items import Item, Reasoning
from antiphon.spec.request import Include, ReasoningParam, ServiceTier, StreamOptions, TextParam
from antiphon.spec.response import Truncation
from antiphon.spec.tools import Tool, ToolChoice


class Watch(Protocol):
    """Give one as `watch=` to see a call on the wire. Attempts that failed are seen too, each from `sent` on.

    Its methods are called from the event loop while the answer comes, so they must be quick.
    """

    def sent(self, method: str, url: str, body: bytes) -> None:
        """A request goes out; its headers are left out, since they hold the key."""

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the answer is here."""

    def received(self, piece: bytes) -> None:
        """The next bytes of a successful answer, unpacked."""


JsonObject = Mapping[str, object]
InputItem = Item | JsonObject
"""An item, or its JSON as a mapping."""
Input = str | InputItem | Iterable[InputItem]
"""What `input` may be: a text, an item, or several items."""
InputTool = Tool | JsonObject
"""A tool, or its JSON as a mapping."""


class RequestOptions(TypedDict, total=False):
    """The options of every call beside its own parameters."""

    extra_body: JsonObject
    """Fields of the body that this package does not know; they win over its own."""
    extra_headers: Mapping[str, str]
    """Headers for this call, over those of the client."""
    timeouts: Timeouts
    """Time limits for this call, in place of those of the client."""
    watch: Watch
    """Sees the bytes of the call as they go and come; turns over a WebSocket are not seen."""


class Parameters(RequestOptions, total=False):
    """The parameters of a request, as the specification names them; None is the same as leaving it out."""

    instructions: str | None
    """A system message for this response only; a continuation does not inherit it."""
    previous_response_id: str | None
    """Continue this response: its context and its output come before `input`."""
    conversation: str | None
    """Continue this conversation, and add to it. Not together with `previous_response_id`."""
    tools: Iterable[InputTool] | None
    """The tools that the model may call. All of them go to the model, whatever `tool_choice` says."""
    tool_choice: ToolChoice | JsonObject | None
    """`none`, `auto`, `required`, one function, or `allowed_tools`; enforced on the output."""
    parallel_tool_calls: bool | None
    """With `false`, at most one call is let through."""
    max_tool_calls: int | None
    """How many calls are let through; more of them end the response as `incomplete`."""
    text: TextParam | JsonObject | None
    """The form of the answer. A `json_schema` is enforced, or the answer is checked against it."""
    reasoning: ReasoningParam | JsonObject | None
    """How much the model should reason, and whether it should summarise its reasoning."""
    include: Sequence[Include] | None
    """More in the answer: encrypted reasoning, log probabilities."""
    max_output_tokens: int | None
    """At least 16. Reaching it ends the response as `incomplete`."""
    temperature: float | None
    """Sampling temperature, if the provider takes one."""
    top_p: float | None
    """Nucleus sampling, if the provider takes it."""
    presence_penalty: float | None
    """Above 0, the model repeats words less; if the provider takes it."""
    frequency_penalty: float | None
    """The same, in proportion to how often a word occurred; if the provider takes it."""
    top_logprobs: int | None
    """0 to 20 alternatives for each token, where the provider gives them."""
    truncation: Truncation | None
    """`auto` leaves out the oldest items of an input that does not fit; else that is an error."""
    metadata: Mapping[str, str] | None
    """Up to 16 pairs, kept with the response."""
    service_tier: ServiceTier | None
    """Which of the provider's tiers is to answer, where it has some."""
    safety_identifier: str | None
    """An id of the end user, for providers that take one."""
    prompt_cache_key: str | None
    """Helps providers to find a cached prompt."""
    store: bool | None
    """`false`: nothing is written, and the response cannot be read or continued over HTTP."""
    background: bool | None
    """Answer at once and work on without the caller. Needs `store`."""
    stream_options: StreamOptions | JsonObject | None
    """`include_obfuscation: true` hides the length of words in the size of packets."""
    chat: str | None
    """The chat of an Antiphon gateway that the response joins."""
    idempotency_key: str | None
    """The header `Idempotency-Key`: of all tries, a server that knows it makes one response."""


_OPTIONS = frozenset(RequestOptions.__annotations__) | {"idempotency_key"}
_KNOWN = frozenset(Parameters.__annotations__)
_WIRE_NAMES = {"chat": "antiphon:chat"}


def request_body(input: Input | None, model: str | None, parameters: Parameters) -> dict[str, object]:
    """The fields of a request that were given; what is None or blank was not."""
    unknown = parameters.keys() - _KNOWN
    if unknown:
        names = ", ".join(sorted(unknown))
        near = get_close_matches(min(unknown), _KNOWN, 1)
        other = "what the specification does not have goes in `extra_body`"
        raise UsageError(f"unknown parameter {names}; {f'did you mean {near[0]}?' if near else other}")
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
    if isinstance(input, bytes | bytearray):
        raise UsageError("input is a text or a list of items, and not bytes; decode them first")
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


def encode_body(body: object) -> bytes:
    try:
        return encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from None


def _tool(tool: InputTool) -> InputTool:
    """Responses say `null` where requests must leave out."""
    if not isinstance(tool, Struct):
        return tool
    return {name: value for name, value in to_builtins(tool).items() if value is not None}
