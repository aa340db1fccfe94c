"""What Hashbrown's client sends: its body, its messages, and how both become a request and back.

A client that has a thread sends only what is new to it, and perhaps something that the thread holds already:
the longest such overlap counts once.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from antiphon.spec.codec import UNREADABLE
from antiphon.spec.decode import decode_body
from antiphon.spec.error_paths import describe_raw, join, missing, wrong
from antiphon.spec.errors import SpecError
from antiphon.spec.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
    Message,
    Reasoning,
    is_failed,
)
from antiphon.spec.limits import MAX_BODY, CallId, FunctionName
from antiphon.spec.request import Request, TextParam
from antiphon.spec.strict_decoder import StrictDecoder
from antiphon.spec.tools import FunctionTool, JsonObjectFormat, JsonSchemaFormat
from antiphon.stream.sequence_overlap import overlaps
from antiphon.wires.hashbrown.frames import PROOFS, SEPARATOR

OUTPUT = "output"
"""The tool by which the client emulates structured output: its arguments are the answer."""
NOT_RUN = {"status": "rejected", "reason": "the tool did not run"}
_SCHEMA_NAME = "schema"

_canonical = msgspec.json.Encoder(order="deterministic").encode


class HashbrownTool(Struct, rename="camel"):
    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None


class HashbrownBody(Struct, rename="camel", kw_only=True):
    """The body of one request of the client."""

    operation: Literal["generate", "load-thread"] = "generate"
    model: str | None = None
    system: str | None = None
    messages: list[Raw] = field(default_factory=list)
    tools: list[HashbrownTool] = field(default_factory=list)
    tool_choice: Literal["auto", "none", "required"] | None = None
    response_format: dict[str, Any] | None = None
    response_format_mode: Literal["schema", "json"] | None = None
    thread_id: str | None = None

    @property
    def loads_only(self) -> bool:
        return self.operation == "load-thread"


class HashbrownFunction(Struct):
    name: FunctionName
    arguments: Any = ""


class HashbrownToolCall(Struct, rename="camel", kw_only=True):
    index: int = 0
    id: CallId
    type: str = "function"
    function: HashbrownFunction
    metadata: dict[str, Any] | UnsetType | None = UNSET


class UserMessage(Struct, tag_field="role", tag="user"):
    content: Any


class AssistantMessage(Struct, rename="camel", tag_field="role", tag="assistant"):
    content: Any = None
    tool_calls: list[HashbrownToolCall] | None = None


class ToolMessage(Struct, rename="camel", tag_field="role", tag="tool"):
    content: Any
    tool_call_id: CallId
    tool_name: str = ""


class ErrorMessage(Struct, tag_field="role", tag="error"):
    """What the client showed its user when something failed; it is for no model."""

    content: Any = None


AnyMessage = UserMessage | AssistantMessage | ToolMessage | ErrorMessage
_MESSAGES: dict[str, type[Struct]] = {
    str(cls.__struct_config__.tag): cls for cls in (UserMessage, AssistantMessage, ToolMessage, ErrorMessage)
}


def read_body(raw: bytes, *, max_bytes: int = MAX_BODY) -> tuple[HashbrownBody, list[AnyMessage]]:
    """The body and its messages. Raises `SpecError` with the place of the first mistake."""
    reading = StrictDecoder()
    body = decode_body(HashbrownBody, raw, max_bytes=max_bytes)
    if body.loads_only and not body.thread_id:
        raise missing("", "threadId")
    return body, [_message(reading, one, f"messages[{n}]") for n, one in enumerate(body.messages)]


def read_thread(messages: object) -> list[AnyMessage]:
    """The messages of a thread that another program kept."""
    reading = StrictDecoder()
    split = reading.each(
        Raw(msgspec.json.encode(messages)), "thread", "a list of messages", lambda raw, _: raw
    )
    return [_message(reading, one, f"thread[{n}]") for n, one in enumerate(split)]


def _message(reading: StrictDecoder, raw: Raw, path: str) -> Any:
    fields = reading.split(raw, path)
    if "role" not in fields:
        raise missing(path, "role")
    try:
        role = msgspec.json.decode(fields["role"], type=str)
    except UNREADABLE:
        role = ""
    if role not in _MESSAGES:
        known = ", ".join(map(repr, _MESSAGES))
        raise wrong(join(path, "role"), f"expected one of {known}, got {describe_raw(fields['role'])}")
    return reading.fields(_MESSAGES[role], fields, path)


def to_request(body: HashbrownBody, items: list[Item]) -> Request:
    """What the body asks for, of a conversation of these items."""
    tools = [FunctionTool(tool.name, tool.description, tool.parameters) for tool in body.tools]
    return Request(
        model=body.model or None,
        instructions=body.system or None,
        input=items,
        tools=list(tools),
        tool_choice=body.tool_choice,
        text=_text(body),
        stream=True,
    )


def _text(body: HashbrownBody) -> TextParam | None:
    if body.response_format_mode == "json":
        return TextParam(JsonObjectFormat())
    if body.response_format is None:
        return None
    return TextParam(JsonSchemaFormat(_SCHEMA_NAME, schema=body.response_format, strict=True))


# --- messages to items ------------------------------------------------------------------------------------


Placed = tuple[str, AnyMessage]
"""A message, and where it stood."""


def place_messages(messages: Sequence[AnyMessage], first: int = 0, *, name: str = "messages") -> list[Placed]:
    """The messages from number `first` on."""
    return [(f"{name}[{n}]", message) for n, message in enumerate(messages[first:], first)]


def to_items(messages: Sequence[Placed], history: Sequence[Item] = ()) -> list[Item]:
    """The items that these messages add to the history."""
    return [item for _, item in placed_items(messages, history)]


def placed_items(messages: Sequence[Placed], history: Sequence[Item] = ()) -> list[tuple[str, Item]]:
    """The same, each with the place of its message.

    A result needs its call. A call whose tool did not run, because the user went on without it, gets a
    result that says so: no model takes a call without one.
    """
    waiting: dict[str, None] = {}
    known: set[str] = set()
    items: list[tuple[str, Item]] = []

    def add(path: str, *more: Item) -> None:
        for item in more:
            _note(item, waiting, known)
            items.append((path, item))

    def settle(path: str) -> None:
        add(path, *[_settled_call(call_id, NOT_RUN) for call_id in waiting])

    for item in history:
        _note(item, waiting, known)
    for path, message in messages:
        match message:
            case UserMessage(content=content):
                settle(path)
                add(path, Message(role="user", content=text_of(content)))
            case AssistantMessage():
                settle(path)
                add(path, *_assistant_items(message))
            case ToolMessage(content=content, tool_call_id=call_id):
                if call_id not in known:
                    reason = f"there is no call {call_id!r} for this result; send the message that has it"
                    raise wrong(f"{path}.toolCallId", reason, "missing_tool_call")
                add(path, _settled_call(call_id, content))
    settle(messages[-1][0] if messages else "messages")
    return items


def _settled_call(call_id: str, content: Any) -> FunctionCallOutput:
    """What a tool came to; a promise that was rejected is a tool that failed."""
    is_rejected = isinstance(content, dict) and content.get("status") == "rejected"
    status: ItemStatus | None = "incomplete" if is_rejected else None
    return FunctionCallOutput(call_id=call_id, output=text_of(content), status=status)


def _note(item: Item, waiting: dict[str, None], known: set[str]) -> None:
    if isinstance(item, FunctionCall):
        waiting[item.call_id] = None
        known.add(item.call_id)
    elif isinstance(item, FunctionCallOutput):
        waiting.pop(item.call_id, None)


def _assistant_items(message: AssistantMessage) -> list[Item]:
    """The text first, then the calls, each with the reasoning that led to it."""
    leading: list[Item] = []
    calls: list[Item] = []
    text = text_of(message.content)
    for call in message.tool_calls or []:
        for leads, proof in _proofs(call):
            (leading if leads else calls).append(proof)
        calls.append(
            FunctionCall(call_id=call.id, name=call.function.name, arguments=_arguments(call.function))
        )
    if text:
        leading.append(Message(role="assistant", content=text))
    return unwrap_output([*leading, *calls])


def unwrap_output(items: Sequence[Item]) -> list[Item]:
    """The same, with an emulated structured output as the answer that it is."""
    return [
        Message(role="assistant", content=item.arguments)
        if isinstance(item, FunctionCall) and item.name == OUTPUT
        else item
        for item in items
    ]


def _proofs(call: HashbrownToolCall) -> list[tuple[bool, Item]]:
    kept = call.metadata.get(PROOFS) if isinstance(call.metadata, dict) else None
    found: list[tuple[bool, Item]] = []
    for one in kept if isinstance(kept, list) else []:
        match one:
            case {"id": str() as id, "proof": str() as proof}:
                item = Reasoning(id=id, summary=[], encrypted_content=proof)
                found.append((bool(one.get("leads")), item))
    return found


def _arguments(function: HashbrownFunction) -> str:
    """Some adapters encode what is JSON already; one such layer is taken off."""
    text = text_of(function.arguments)
    try:
        inner = msgspec.json.decode(text)
    except UNREADABLE:
        return text
    return inner if isinstance(inner, str) else text


def text_of(content: Any) -> str:
    """A string as it is, nothing for null, any other value as its JSON."""
    if isinstance(content, str):
        return content
    return "" if content is None else msgspec.json.encode(content).decode()


# --- items to messages ------------------------------------------------------------------------------------


def to_messages(items: Sequence[Item]) -> list[AnyMessage]:
    """A conversation as the client knows it, without reasoning and all else that has no place there."""
    messages: list[AnyMessage] = []
    speaking: AssistantMessage | None = None
    names: dict[str, str] = {}
    for item in items:
        match item:
            case Message(role="assistant"):
                speaking = _speaking(speaking, messages)
                text = item.get_text()
                speaking.content += SEPARATOR + text if speaking.content and text else text
            case FunctionCall(call_id=call_id, name=name):
                speaking = _speaking(speaking, messages)
                calls = speaking.tool_calls = speaking.tool_calls or []
                function = HashbrownFunction(name, item.arguments)
                calls.append(HashbrownToolCall(index=len(calls), id=call_id, function=function))
                names[call_id] = name
            case Message(role="user"):
                speaking = None
                messages.append(UserMessage(item.get_text()))
            case FunctionCallOutput(call_id=call_id):
                speaking = None
                messages.append(ToolMessage(_result(item), call_id, names.get(call_id, "")))
    return messages


def _speaking(speaking: AssistantMessage | None, messages: list[AnyMessage]) -> AssistantMessage:
    if speaking is None:
        speaking = AssistantMessage("", [])
        messages.append(speaking)
    return speaking


def _result(item: FunctionCallOutput) -> Any:
    """The result as the client settled it, or as it would have settled one that came from elsewhere."""
    text = (
        item.output if isinstance(item.output, str) else Message(role="user", content=item.output).get_text()
    )
    try:
        value = msgspec.json.decode(text)
    except UNREADABLE:
        value = text
    match value:
        case {"status": "fulfilled" | "rejected"}:
            return value
    if is_failed(item):
        return {"status": "rejected", "reason": value}
    return {"status": "fulfilled", "value": value}


# --- threads ----------------------------------------------------------------------------------------------


def new_from(thread: Sequence[AnyMessage], messages: Sequence[AnyMessage]) -> int:
    """The number of the first message that the thread does not hold already.

    >>> asked, said = UserMessage("Hi"), AssistantMessage("Hello")
    >>> new_from([asked, said], [said, UserMessage("Bye")])
    1
    """
    told = [n for n, message in enumerate(messages) if not isinstance(message, ErrorMessage)]
    keys = [_key(messages[n]) for n in told]
    shared = next(overlaps([_key(message) for message in thread], keys), 0)
    return told[shared] if shared < len(told) else len(messages)


def _key(message: AnyMessage) -> bytes:
    """What two messages that say the same have in common."""
    match message:
        case AssistantMessage(content=content, tool_calls=calls):
            named = [[call.id, call.function.name, _arguments(call.function)] for call in calls or []]
            return _canonical(["assistant", text_of(content), named])
        case ToolMessage(content=content, tool_call_id=id):
            return _canonical(["tool", id, content])
        case UserMessage(content=content) | ErrorMessage(content=content):
            return _canonical(["user", text_of(content)])


def nothing_to_say() -> SpecError:
    return wrong("messages", "there is nothing to answer; send at least one message", "missing_field")
