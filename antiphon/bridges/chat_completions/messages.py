"""From the messages of a chat completion to items, in order; every item knows where it was said."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from antiphon.bridges.chat_completions.body import ChatMessage, ToolCallBody
from antiphon.spec import ids
from antiphon.spec.codec import BRACE, NULL, QUOTE, UNREADABLE, encode, extend_struct, extras, first_byte
from antiphon.spec.content import ContentPart, OutputText, ReasoningText, Refusal, text_of
from antiphon.spec.error_paths import describe_raw, missing, wrong
from antiphon.spec.errors import SpecError
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from antiphon.spec.items import Role as ItemRole
from antiphon.spec.response import DROPPED, Receipt
from antiphon.spec.strict_decoder import StrictDecoder

DOOR = "chat completions"
"""Whom a receipt names for what this API has and a request has not."""
ENCRYPTED = "reasoning.encrypted"
# What each kind of `reasoning_details` has its words in; the sealed kind has none.
_WORDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
_NAMED = extend_struct(Message, ("name",))


_FILE = {name: f"file.{name}" for name in ("filename", "file_data", "file_id", "file_url")}
_IMAGE = {"image_url": "image_url.url", "detail": "image_url.detail"}


class ChatPart(Struct):
    """As much of a part as tells where its fields are."""

    type: str = ""
    image_url: Raw = NULL
    file: Raw = NULL

    @property
    def names(self) -> Mapping[str, str]:
        """What it calls the fields of a part; a picture can also stand there as an address alone."""
        if self.type == "file":
            return _FILE
        return _IMAGE if self.type == "image_url" and first_byte(self.image_url) == BRACE else {}

    def check(self, where: str) -> None:
        """Refuse a picture or a file that is not there, or something else."""
        if self.type == "image_url":
            if self.image_url == NULL:
                raise missing(where, "image_url")
            if first_byte(self.image_url) == BRACE and _read_image(self.image_url).url == NULL:
                raise missing(f"{where}.image_url", "url")
        if self.type != "file":
            return
        if self.file == NULL:
            raise missing(where, "file")
        if first_byte(self.file) != BRACE:
            raise wrong(f"{where}.file", f"expected an object, got {describe_raw(self.file)}")
        id = _read_file(self.file).file_id
        if id != NULL and first_byte(id) != QUOTE:
            raise wrong(f"{where}.file.file_id", f"expected a string, got {describe_raw(id)}")


class _FileId(Struct):
    file_id: Raw = NULL


class _ImageAddress(Struct):
    url: Raw = NULL


_read = msgspec.json.Decoder(ChatPart).decode
_read_file = msgspec.json.Decoder(_FileId).decode
_read_image = msgspec.json.Decoder(_ImageAddress).decode


def chat_part(raw: Raw) -> ChatPart:
    """How a part is written; one that cannot be read is left to the reader of parts, which says why."""
    try:
        return _read(raw)
    except UNREADABLE:
        return ChatPart()


class _Said(NamedTuple):
    """An item, and the place in the body where it was said."""

    item: Item
    place: str


class ChatTranslation:
    """Reads the messages of one body; what has no place in an item is in `receipts`."""

    def __init__(self, messages: list[ChatMessage]) -> None:
        self.said: list[_Said] = []
        self.receipts: list[Receipt] = []
        self.parts: dict[str, Mapping[str, str]] = {}
        """What parts of this API call their fields, by the place of the part."""
        self._reading = StrictDecoder()
        self._custom: set[str] = set()  # ids of calls of custom tools
        self._waiting: list[tuple[str, str]] = []  # names and ids of older calls, which the client gives none
        for n, message in enumerate(messages):
            self._message(message, f"messages[{n}]")

    def _message(self, message: ChatMessage, place: str) -> None:
        for name in extras(message) if type(message) is not ChatMessage else ():
            reason = "no provider is given this field of a message"
            self.receipts.append(Receipt(f"{place}.{name}", DROPPED, reason, DOOR))
        match message.role:
            case "assistant":
                self._assistant(message, place)
            case "tool":
                self._output(message, place)
            case "function":
                self._older_output(message, place)
            case role:
                content = self._content(message, place, role)
                if content is None:
                    raise missing(place, "content")
                self._add(_message(role, content, message.name), place)

    def _add(self, item: Item, place: str) -> None:
        self.said.append(_Said(item, place))

    def _content(self, message: ChatMessage, place: str, kind: str) -> str | list[ContentPart] | None:
        """The text, or the parts as they are called at this place."""
        content = message.content
        if content is None or isinstance(content, str):
            return content
        where = f"{place}.content"
        return [self._part(raw, f"{where}[{k}]", kind) for k, raw in enumerate(content)]

    def _part(self, raw: Raw, where: str, kind: str) -> ContentPart:
        written = chat_part(raw)
        if names := written.names:
            self.parts[where] = names
        try:
            part = self._reading.part(raw, where, kind)
        except SpecError as error:
            field = (error.payload.param or "").removeprefix(f"{where}.")
            if field in names:
                error.payload = error.payload.with_param(f"{where}.{names[field]}")
            raise
        self._reading.check_place(part, kind, where)
        written.check(where)
        return part

    # --- what the model said ------------------------------------------------------------------------------

    def _assistant(self, message: ChatMessage, place: str) -> None:
        content = self._content(message, place, "assistant")
        rest: list[_Said] = []
        if message.refusal:
            text = [] if not content else [OutputText(content)] if isinstance(content, str) else content
            content = [*text, Refusal(message.refusal)]
        if content:
            rest.append(_Said(_message("assistant", content, message.name), place))
        for k, call in enumerate(message.tool_calls or ()):
            rest.append(_Said(self._call(call, f"{place}.tool_calls[{k}]"), f"{place}.tool_calls[{k}]"))
        if (older := message.function_call) is not None:
            # The same body has the same ids again, so that a prompt cache holds.
            call_id = f"{ids.CALL}{len(self.said) + len(rest)}"
            self._waiting.append((older.name, call_id))
            called = FunctionCall(call_id=call_id, name=older.name, arguments=older.arguments)
            rest.append(_Said(called, f"{place}.function_call"))
        thoughts = _thoughts(message)
        if not (rest or thoughts) and message.content is None:
            raise wrong(f"{place}.content", "a message of the assistant needs `content`, or a call")
        if thoughts:
            self._interleave(thoughts, rest, place)
        else:
            self.said += rest

    def _interleave(self, thoughts: Iterable[tuple[int, Reasoning]], rest: list[_Said], place: str) -> None:
        """Each thought goes where it was in the answer, which its number says; the others fill the gaps."""
        start, left = len(self.said), iter(rest)
        for number, thought in thoughts:
            while len(self.said) - start < number and (one := next(left, None)) is not None:
                self.said.append(one)
            self._add(thought, place)
        self.said += left

    def _call(self, call: ToolCallBody, place: str) -> FunctionCall | CustomToolCall:
        if call.custom is not None:
            self._custom.add(call.id)
            return CustomToolCall(call_id=call.id, name=call.custom.name, input=call.custom.input)
        if call.function is None:
            raise missing(place, call.type or "function")
        return FunctionCall(call_id=call.id, name=call.function.name, arguments=call.function.arguments)

    # --- what its tools answered --------------------------------------------------------------------------

    def _output(self, message: ChatMessage, place: str) -> None:
        if not message.tool_call_id:
            raise missing(place, "tool_call_id")
        output, call_id = self._content(message, place, "output") or "", message.tool_call_id
        made = CustomToolCallOutput if call_id in self._custom else FunctionCallOutput
        self._add(made(call_id=call_id, output=output), place)

    def _older_output(self, message: ChatMessage, place: str) -> None:
        """Older calls have no ids, so a result belongs to the first call of its name that has none yet."""
        found = next((one for one in self._waiting if one[0] == message.name), None)
        if found is None:
            why = "no `function_call` before it has this name and no result"
            raise wrong(f"{place}.name", why, "missing_tool_call")
        self._waiting.remove(found)
        output = text_of(self._content(message, place, "output") or "")
        self._add(FunctionCallOutput(call_id=found[1], output=output), place)


def _message(role: ItemRole, content: str | list[ContentPart], name: str | None) -> Message:
    if not name:
        return Message(role=role, content=content)
    # A request has no speakers with names: the providers that know them find it beside the other fields.
    named: Message = _NAMED(role=role, content=content, extra_0=Raw(encode(name)))
    return named


def _thoughts(message: ChatMessage) -> list[tuple[int, Reasoning]]:
    """The reasoning of a message, each piece with its number in the answer."""
    words = message.reasoning_content or message.reasoning
    made: dict[int, Reasoning] = {}
    for n, detail in enumerate(message.reasoning_details or ()):
        index = detail.get("index")
        number = index if isinstance(index, int) and index >= 0 else n
        thought = made.setdefault(number, Reasoning(id=_text(detail, "id"), summary=[]))
        if detail.get("type") == ENCRYPTED:
            thought.encrypted_content = _text(detail, "data") or None
        elif not words and (text := _text(detail, _WORDS.get(_text(detail, "type"), ""))):
            thought.append_content(text)
    thoughts = [(n, one) for n, one in sorted(made.items()) if one.content or one.encrypted_content]
    if isinstance(words, str) and words:
        if thoughts:
            thoughts[0][1].content = [ReasoningText(words)]
        else:
            thoughts = [(0, Reasoning(summary=[], content=[ReasoningText(words)]))]
    return thoughts


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
