"""The messages of an AI SDK chat as items: UI messages of versions 4 to 7, model messages, and plain ones."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from antiphon.bridges.ai_sdk.files import FilePart, content_of
from antiphon.bridges.ai_sdk.ui_stream import METADATA, RESPONSE_ID
from antiphon.spec.aliases import string
from antiphon.spec.codec import QUOTE, first_byte
from antiphon.spec.content import ContentPart, InputText, OutputText, ReasoningText, SummaryText
from antiphon.spec.error_paths import join, missing, wrong
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
    Message,
    Phase,
    Reasoning,
)
from antiphon.spec.limits import MAX_NAME, MAX_TEXT, NAME, CallId, FunctionName, Text
from antiphon.spec.strict_decoder import StrictDecoder
from antiphon.spec.struct_fields import shape_of

S = TypeVar("S", bound=Struct)
_Role = Literal["system", "developer", "user", "assistant", "tool", "data"]

NO_OUTPUT = "(the chat went on without an output of this call)"
DENIED = "(the user did not allow this call)"

# Parts that are for the reader of a chat and not for the model.
_SILENT = frozenset({"source", "source-url", "source-document", "custom", "reasoning-file"})


@dataclass(frozen=True, slots=True)
class PlacedItem:
    """One item, and where in the body it was said."""

    item: Item
    place: str


class ToolState(Struct, rename="camel"):
    """A call of a tool with what became of it."""

    tool_call_id: CallId
    tool_name: FunctionName | None = None
    state: str = "output-available"
    input: Raw | UnsetType = UNSET
    raw_input: Raw | UnsetType = UNSET
    args: Raw | UnsetType = UNSET
    output: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error_text: str | None = None
    approval: dict[str, Any] | None = None
    call_provider_metadata: dict[str, Any] | None = None
    provider_options: dict[str, Any] | None = None


class _Attachment(Struct, rename="camel"):
    url: str
    name: str | None = None
    content_type: str | None = None


class _Message(Struct, rename="camel"):
    role: _Role
    id: str = ""
    content: Raw | UnsetType = UNSET
    parts: list[Raw] | None = None
    reasoning: str | None = None
    tool_invocations: list[Raw] | None = None
    metadata: Any = None
    attachments: list[Raw] | None = msgspec.field(name="experimental_attachments", default=None)


class _Words(Struct, rename="camel"):
    text: Text
    provider_metadata: dict[str, Any] | None = None
    provider_options: dict[str, Any] | None = None


class _Thought(Struct, rename="camel"):
    text: Text | None = None
    reasoning: Text | None = None
    details: list[dict[str, Any]] | None = None
    provider_metadata: dict[str, Any] | None = None
    provider_options: dict[str, Any] | None = None


def read(cls: type[S], raw: Raw, path: str) -> S:
    """The fields that we know, checked; a front end may put whatever it likes beside them."""
    reading = StrictDecoder()
    known = shape_of(cls).fields
    return reading.fields(cls, {k: v for k, v in reading.split(raw, path).items() if k in known}, path)


@dataclass(slots=True)
class UiMessages:
    """All that messages say, and what they tell of the answers among them."""

    said: list[PlacedItem] = field(default_factory=list)
    continues: str | None = None
    """The id of the last message, if it is the assistant's."""
    follows: tuple[str, ...] = ()
    """What may be the id of the response that made the assistant's last message, the likeliest first."""


def items_of(messages: Iterable[tuple[str, Raw]]) -> UiMessages:
    """What these messages say, each given with its place."""
    found = UiMessages()
    for place, raw in messages:
        message = read(_Message, raw, place)
        reader = _MessageReader(message.role, place)
        reader.read(message)
        found.said += reader.said
        found.continues = None
        if message.role == "assistant":
            found.continues = message.id
            made_by = message.metadata.get(RESPONSE_ID) if isinstance(message.metadata, dict) else None
            named = [id for id in (made_by, message.id) if isinstance(id, str) and id]
            found.follows = tuple(named)
    return found


class _MessageReader:
    """One message on its way to items. The outputs of a step follow all of its calls."""

    def __init__(self, role: _Role, path: str) -> None:
        self.said: list[PlacedItem] = []
        self._role = role
        self._path = path
        self._content: list[ContentPart] = []
        self._outputs: list[PlacedItem] = []

    def read(self, message: _Message) -> None:
        if message.role == "data":
            return
        if message.parts:
            self._parts(message.parts, "parts")
        elif message.content is not UNSET and first_byte(message.content) != QUOTE:
            content = StrictDecoder().each(
                message.content, join(self._path, "content"), "a string or a list", _same
            )
            self._parts(content, "content")
        else:
            self._plain(message)
        for n, raw in enumerate(message.attachments or ()):
            place = f"{self._path}.experimental_attachments[{n}]"
            one = read(_Attachment, raw, place)
            self._file(FilePart(url=one.url, filename=one.name, media_type=one.content_type), place)
        self._end_step()
        if self._content and self._role in ("system", "developer", "user"):
            self.said.append(PlacedItem(Message(role=self._role, content=self._content), self._path))

    def _plain(self, message: _Message) -> None:
        """A message of words, and what AI SDK 4 keeps beside them."""
        place = join(self._path, "content")
        if message.reasoning:
            self._say(Reasoning(summary=[], content=[ReasoningText(message.reasoning)]), self._path)
        if message.content is not UNSET:
            text = msgspec.json.decode(message.content, type=str)
            if len(text) > MAX_TEXT:
                raise wrong(place, f"expected a string of at most {MAX_TEXT:,} characters")
            self._words(_Words(text), place)
        elif not message.tool_invocations:
            raise wrong(place, "a message needs `parts` or `content`", "missing_field")
        for n, raw in enumerate(message.tool_invocations or ()):
            self._tool(raw, f"{self._path}.toolInvocations[{n}]")

    def _parts(self, parts: list[Raw], name: str) -> None:
        for n, raw in enumerate(parts):
            place = f"{self._path}.{name}[{n}]"
            fields = StrictDecoder().split(raw, place)
            kind = string(fields, "type")
            if not kind:
                raise wrong(join(place, "type"), "expected the type of a part, such as 'text'")
            if name == "content" and kind in _MODEL_READERS:
                _MODEL_READERS[kind](self, raw, place)
            elif kind == "tool-invocation" and "toolInvocation" in fields:
                self._tool(fields["toolInvocation"], join(place, "toolInvocation"))
            elif kind == "step-start":
                self._end_step()
            elif kind.startswith("tool-"):
                self._tool(raw, place)
            elif kind in _READERS:
                _READERS[kind](self, raw, place)
            elif not kind.startswith("data-") and kind not in _SILENT:
                known = ", ".join(sorted([*_READERS, *_SILENT, "step-start", "tool-NAME", "data-NAME"]))
                raise wrong(join(place, "type"), f"there is no part {kind[:60]!r}; a part is one of {known}")

    # --- words and files ----------------------------------------------------------------------------------

    def _text(self, raw: Raw, place: str) -> None:
        self._words(read(_Words, raw, place), place)

    def _words(self, words: _Words, place: str) -> None:
        if self._role == "tool":
            raise wrong(join(place, "type"), "a tool message holds tool results only")
        if self._role != "assistant":
            self._content.append(InputText(words.text))
        elif words.text:
            phase = _ours(words.provider_metadata, words.provider_options).get("phase")
            said: Phase | None = phase if phase in ("commentary", "final_answer") else None
            self._say(Message(role="assistant", content=[OutputText(words.text)], phase=said), place)

    def _think(self, raw: Raw, place: str) -> None:
        self._must_be("assistant", "reasoning", place)
        thought = read(_Thought, raw, place)
        text = thought.text if thought.text is not None else thought.reasoning or ""
        ours = _ours(thought.provider_metadata, thought.provider_options)
        proof = ours.get("encryptedContent")
        for detail in thought.details or ():
            proof = detail.get("signature") or detail.get("data") or proof
        item = self._thought(str(ours.get("itemId") or ""), place)
        if text and ours.get("summary"):
            item.summary.append(SummaryText(text))
        elif text:
            item.append_content(text)
        if isinstance(proof, str):
            item.encrypted_content = proof

    def _thought(self, id: str, place: str) -> Reasoning:
        """The reasoning item that this part belongs to: it may have several."""
        last = self.said[-1].item if self.said else None
        if isinstance(last, Reasoning) and id and last.id == id:
            return last
        made = Reasoning(id=id, summary=[])
        self._say(made, place)
        return made

    def _media(self, raw: Raw, place: str) -> None:
        self._file(read(FilePart, raw, place), place)

    def _file(self, part: FilePart, place: str) -> None:
        content = content_of(part, place)
        # The specification has no place for what a model drew in an earlier turn.
        if self._role != "assistant":
            self._must_be("user", "a file", place)
            self._content.append(content)

    def _content_part(self, raw: Raw, place: str) -> None:
        """A part in the specification's own words, or in those of chat completions."""
        self._must_be("user", "this part", place)
        self._content.append(StrictDecoder().part(raw, place, "user"))

    # --- tools --------------------------------------------------------------------------------------------

    def _tool(self, raw: Raw, place: str) -> None:
        """One part that is a call and, in time, its output."""
        self._must_be("assistant", "a tool", place)
        part = read(ToolState, raw, place)
        if part.state in ("input-streaming", "partial-call"):
            return  # the model was cut off in the middle of it
        call = self._call(part, part.tool_name or self._name(raw, place), place)
        self._outputs.append(PlacedItem(_outcome(part, call, place), place))

    def _tool_call(self, raw: Raw, place: str) -> None:
        self._must_be("assistant", "a tool call", place)
        part = read(ToolState, raw, place)
        if part.tool_name is None:
            raise missing(place, "toolName")
        self._call(part, part.tool_name, place)

    def _tool_result(self, raw: Raw, place: str) -> None:
        part = read(ToolState, raw, place)
        given = part.output if part.output is not UNSET else part.result
        if given is UNSET:
            raise missing(place, "output")
        self._end_step()
        self._say(_unwrap_output(part.tool_call_id, given), place)

    def _call(self, part: ToolState, name: str, place: str) -> FunctionCall | CustomToolCall:
        given = next((raw for raw in (part.input, part.raw_input, part.args) if raw is not UNSET), None)
        ours = _ours(part.call_provider_metadata, part.provider_options)
        namespace = ours.get("namespace") if isinstance(ours.get("namespace"), str) else None
        text = "{}" if given is None or given == b"null" else _as_text(given)
        call: FunctionCall | CustomToolCall
        if ours.get("custom"):
            call = CustomToolCall(call_id=part.tool_call_id, name=name, input=text, namespace=namespace)
        else:
            call = FunctionCall(call_id=part.tool_call_id, name=name, arguments=text, namespace=namespace)
        self._say(call, place)
        return call

    def _name(self, raw: Raw, place: str) -> str:
        kind = string(StrictDecoder().split(raw, place), "type") or ""
        name = kind.removeprefix("tool-")
        if name == kind or not NAME.fullmatch(name):
            rule = f"expected the name of a tool: 1 to {MAX_NAME} letters, digits, _ or -"
            raise wrong(join(place, "toolName"), rule)
        return name

    # --- order --------------------------------------------------------------------------------------------

    def _say(self, item: Item, place: str) -> None:
        self.said.append(PlacedItem(item, place))

    def _end_step(self) -> None:
        self.said += self._outputs
        self._outputs = []

    def _must_be(self, role: _Role, what: str, place: str) -> None:
        if self._role != role:
            raise wrong(join(place, "type"), f"{what} belongs into a message of the {role}, not {self._role}")


_READERS: dict[str, Callable[[_MessageReader, Raw, str], None]] = {
    "text": _MessageReader._text,
    "input_text": _MessageReader._text,
    "output_text": _MessageReader._text,
    "reasoning": _MessageReader._think,
    "file": _MessageReader._media,
    "image": _MessageReader._media,
    "image_url": _MessageReader._content_part,
    "input_image": _MessageReader._content_part,
    "input_file": _MessageReader._content_part,
    "dynamic-tool": _MessageReader._tool,
}
_MODEL_READERS: dict[str, Callable[[_MessageReader, Raw, str], None]] = {
    "tool-call": _MessageReader._tool_call,
    "tool-result": _MessageReader._tool_result,
}


def _same(raw: Raw, path: str) -> Raw:
    return raw


def _ours(*metadata: dict[str, Any] | None) -> dict[str, Any]:
    """What this gateway has put into a part, if the front end has kept it."""
    for one in metadata:
        if one and isinstance(found := one.get(METADATA), dict):
            return found
    return {}


def _as_text(raw: Raw) -> str:
    return msgspec.json.decode(raw, type=str) if first_byte(raw) == QUOTE else bytes(raw).decode()


def _outcome(part: ToolState, call: FunctionCall | CustomToolCall, place: str) -> Item:
    """The output of a call; one that is no result of its tool says that it failed."""
    approval = part.approval or {}
    match part.state:
        case "output-available" | "result":
            given = part.output if part.output is not UNSET else part.result
            return _output(call, "null" if given is UNSET else _as_text(given), None)
        case "output-error":
            text = part.error_text or "the tool failed"
        case "output-denied":
            text = str(approval.get("reason") or DENIED)
        case "approval-responded" if approval.get("approved") is False:
            text = str(approval.get("reason") or DENIED)
        case "input-available" | "call" | "approval-requested" | "approval-responded":
            text = NO_OUTPUT
        case _:
            raise wrong(join(place, "state"), f"there is no state {part.state[:60]!r} of a tool")
    return _output(call, text, "incomplete")


def _output(call: FunctionCall | CustomToolCall, output: str, status: ItemStatus | None) -> Item:
    cls = CustomToolCallOutput if isinstance(call, CustomToolCall) else FunctionCallOutput
    return cls(call_id=call.call_id, output=output, status=status)


def _unwrap_output(call_id: str, raw: Raw) -> FunctionCallOutput:
    """A model message's tool result, which says what kind of value it is."""
    value = msgspec.json.decode(raw)
    status: ItemStatus | None = None
    match value:
        case {"type": "text" | "error-text", "value": str() as text}:
            output = text
        case {"type": "json" | "error-json" | "content", "value": inner}:
            output = msgspec.json.encode(inner).decode()
        case {"type": "execution-denied"}:
            output = str(value.get("reason") or DENIED)
        case _:
            return FunctionCallOutput(call_id=call_id, output=_as_text(raw))
    if value["type"] in ("error-text", "error-json", "execution-denied"):
        status = "incomplete"
    return FunctionCallOutput(call_id=call_id, output=output, status=status)
