"""Items: what input, output and context are made of.

One Struct serves both directions. Fields that the input side may leave out have a default and are left
out again on encoding; what every output item must carry, the Composer always fills in.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
from msgspec import Struct

from antiphon.spec import ids
from antiphon.spec.codec import UNREADABLE, Opaque, extras
from antiphon.spec.content import (
    ContentPart,
    InputText,
    OutputText,
    ReasoningText,
    SummaryText,
    UrlCitation,
    text_of,
)
from antiphon.spec.limits import CallId, FunctionName, Text

ItemStatus = Literal["in_progress", "completed", "incomplete"]
Role = Literal["user", "assistant", "system", "developer"]
Phase = Literal["commentary", "final_answer"]

TERMINAL_STATUSES = frozenset({"completed", "incomplete", "failed"})


class ItemBase(
    Struct, tag_field="type", omit_defaults=True, forbid_unknown_fields=True, kw_only=True, gc=False
):
    id: str = ""


class Message(ItemBase, tag="message", kw_only=True):
    """A message of the user, the assistant, the system or a developer."""

    role: Role
    status: ItemStatus | None = None
    content: Text | list[ContentPart]
    phase: Phase | None = None

    def get_text(self) -> str:
        return text_of(self.content)

    def append_text(self, text: str) -> None:
        """Extend the last text part, or begin one."""
        if isinstance(self.content, str):
            self.content += text
        elif self.content and isinstance(self.content[-1], OutputText):
            self.content[-1].text += text
        else:
            self.content.append(OutputText(text))

    def add_citation(self, url: str, title: str, start: int, end: int) -> None:
        if isinstance(self.content, str) or not self.content or not isinstance(self.content[-1], OutputText):
            raise ValueError("a citation needs an output_text part to point into; append text first")
        self.content[-1].annotations.append(UrlCitation(url, title, start, end))


class FunctionCall(ItemBase, tag="function_call", kw_only=True):
    """The model calls a function; `arguments` is JSON in a string."""

    call_id: CallId
    name: FunctionName
    arguments: str
    status: ItemStatus | None = None
    namespace: str | None = None

    def get_arguments_dict(self) -> dict[str, object]:
        """The arguments as a dict; empty when there are none or they are not a JSON object."""
        return arguments_dict(self.arguments)


class FunctionCallOutput(ItemBase, tag="function_call_output", kw_only=True):
    """What a function answered, for the call with the same `call_id`."""

    call_id: CallId
    output: Text | list[ContentPart]
    status: ItemStatus | None = None


class CustomToolCall(ItemBase, tag="custom_tool_call", kw_only=True):
    """The model calls a tool whose input is free text."""

    call_id: CallId
    name: str
    input: str
    status: ItemStatus | None = None
    namespace: str | None = None


class CustomToolCallOutput(ItemBase, tag="custom_tool_call_output", kw_only=True):
    """What a custom tool answered."""

    call_id: CallId
    output: Text | list[ContentPart]
    status: ItemStatus | None = None


class Reasoning(ItemBase, tag="reasoning", kw_only=True):
    """What the model thought before it answered: summary, raw text, or encrypted."""

    summary: list[ContentPart]
    content: list[ContentPart] | None = None
    encrypted_content: str | None = None
    status: ItemStatus | None = None

    def get_reasoning_text(self) -> str:
        return text_of(self.content or [])

    def get_summary_text(self) -> str:
        return text_of(self.summary)

    def append_content(self, text: str) -> None:
        self.content = [*(self.content or []), ReasoningText(text)]

    def set_summary(self, text: str) -> None:
        self.summary = [SummaryText(text)]


class Compaction(ItemBase, tag="compaction", kw_only=True):
    """A stand-in for an earlier part of the conversation, encrypted."""

    encrypted_content: Text
    created_by: str | None = None


class ItemReference(ItemBase, tag="item_reference", kw_only=True):
    """An item that the server has, by its id."""


KnownItem = (
    Message
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | Reasoning
    | Compaction
    | ItemReference
)
if TYPE_CHECKING:
    Item = KnownItem | Opaque
else:
    Item = KnownItem
"""Anything that can stand in an input or an output, items of vendors included."""

ITEMS: dict[str, type[ItemBase]] = {str(cls.__struct_config__.tag): cls for cls in get_args(KnownItem)}

CORE_TYPES = frozenset({"message", "function_call", "function_call_output", "reasoning", "compaction"})


# Calls and outputs of agent clients that are carried as opaque items.
CLIENT_CALLS: dict[str, str] = {
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}


def type_of(item: "Item") -> str:
    if isinstance(item, Opaque):
        return item.type
    return str(type(item).__struct_config__.tag)


def is_call(item: "Item") -> bool:
    """Does this item ask the client for an output with its call_id?"""
    return isinstance(item, (FunctionCall, CustomToolCall)) or (
        isinstance(item, Opaque) and item.type in CLIENT_CALLS and not is_server_run(item)
    )


def is_failed(output: FunctionCallOutput | CustomToolCallOutput) -> bool:
    """Does this output say that its tool failed? By its status, or by an `is_error` beside it."""
    return output.status == "incomplete" or extras(output).get("is_error") is True


def is_server_run(item: Opaque) -> bool:
    """Does the provider run this call itself? Then its output is the provider's affair, too."""
    return item.fields.get("execution") == "server"


def arguments_dict(text: str) -> dict[str, object]:
    """The arguments of a call as a dict; empty when there are none or they are not a JSON object."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except UNREADABLE:
        return {}


def message(id: str, role: Role, parts: "list[ContentPart]", status: ItemStatus = "in_progress") -> Message:
    return Message(id=id, role=role, status=status, content=parts)


def completed_message(id: str, role: Role, parts: "list[ContentPart]") -> Message:
    return message(id, role, parts, "completed")


def function_call(id: str, name: str, arguments: object, call_id: str = "") -> FunctionCall:
    """A call that has begun; its arguments are any JSON value, or the JSON text itself."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    call_id = call_id or ids.new_id(ids.CALL)
    return FunctionCall(id=id, call_id=call_id, name=name, arguments=text, status="in_progress")


def completed_function_call_output(
    id: str, call_id: str, output: "str | list[ContentPart]"
) -> FunctionCallOutput:
    return FunctionCallOutput(id=id, call_id=call_id, output=output, status="completed")


def reasoning(id: str, text: str = "", summary: str = "") -> Reasoning:
    """A reasoning item that has begun, with what is known of its words."""
    made = Reasoning(id=id, summary=[], status="in_progress")
    if text:
        made.append_content(text)
    if summary:
        made.set_summary(summary)
    return made


_TEXTS = frozenset({InputText, OutputText})


def parts_of(item: Item) -> tuple[str, list[ContentPart]]:
    """The field of an item that has parts, and they; nothing where it is plain text."""
    # No patterns: they ask a class for the names of its fields each time.
    if isinstance(item, Message):
        return ("", []) if isinstance(item.content, str) else ("content", item.content)
    if isinstance(item, (FunctionCallOutput, CustomToolCallOutput)) and not isinstance(item.output, str):
        return "output", item.output
    return "", []


def has_media(items: Sequence[Item]) -> bool:
    """Do these items hold anything for a model beside text, or what may be that?"""
    for item in items:
        for part in parts_of(item)[1]:
            if type(part) not in _TEXTS:
                return True
    return False


def text_size(item: Item) -> int:
    """How many characters of text an item has for the model to read."""
    match item:
        case Message():
            return len(item.get_text())
        case Reasoning():
            return len(item.get_reasoning_text()) + len(item.get_summary_text())
        case FunctionCall():
            return len(item.name) + len(item.arguments)
        case CustomToolCall():
            return len(item.name) + len(item.input)
        case FunctionCallOutput() | CustomToolCallOutput():
            return len(text_of(item.output))
    return 0


_EXTENSION = re.compile(r"[A-Za-z0-9_]+:[A-Za-z0-9_]+")


def is_valid_extension_type(name: str) -> bool:
    """Is this the type of a vendor's item or event: `slug:name`?"""
    return _EXTENSION.fullmatch(name) is not None


def vendor_item(slug: str, name: str, *, id: str, data: Any, status: str = "completed") -> Opaque:
    """An item of type `slug:name` with its payload under `data`."""
    kind = f"{slug}:{name}"
    if not is_valid_extension_type(kind):
        raise ValueError(f"{kind!r} is no extension type; expected `slug:name` of letters, digits and _")
    return Opaque.make(type=kind, id=id, status=status, data=data)
