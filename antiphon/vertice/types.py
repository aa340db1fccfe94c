"""Items, usage, errors and the response by the names of Vértice, as values that a program builds and changes.

What `to_dict` gives is valid by the specification: a response has all its keys, a usage both its details.
"""

import time
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, field

from antiphon.spec import ids
from antiphon.spec.codec import Opaque, encode, to_builtins
from antiphon.spec.content import (
    InputText,
    OutputText,
    Part,
    ReasoningText,
    Refusal,
    SummaryText,
    UrlCitation,
    text_of,
)
from antiphon.spec.decode import decode_output_item, decode_response
from antiphon.spec.enums import ErrorType, ItemStatus, MessageRole
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.items import Item as SpecItem
from antiphon.spec.items import arguments_dict, type_of
from antiphon.spec.response import Response, Usage


class _Wire:
    """A value of the specification that can show itself."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The value as plain JSON values, as it goes over the wire."""
        return dict(to_builtins(self))


class _Typed(_Wire):
    """An object whose `type` distinguishes it from others in the same place."""

    __slots__ = ()

    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)  # type: ignore[attr-defined]


# --- content ----------------------------------------------------------------------------------------------


class InputTextContent(_Typed, InputText, tag="input_text"):
    """A text in a message that is not the model's own."""

    text: str = ""


class FileCitation(_Typed, Part, tag="file_citation", omit_defaults=False):
    """An annotation: this part of a text comes from that file. The specification itself has none."""

    file_id: str = ""
    filename: str = ""
    quote: str = ""
    start_index: int = 0
    end_index: int = 0


class OutputTextContent(_Typed, OutputText, tag="output_text"):
    """A text of the model, with its annotations."""

    text: str = ""
    annotations: list[UrlCitation | FileCitation] = field(default_factory=list)  # type: ignore[assignment]

    def add_citation(self, url: str, title: str = "", start: int = 0, end: int | None = None) -> None:
        """Note a page as the source of a part of the text; without `end`, of everything up to here."""
        self.annotations.append(UrlCitation(url, title, start, len(self.text) if end is None else end))


class SummaryTextContent(_Typed, SummaryText, tag="summary_text"):
    """A part of a reasoning summary."""

    text: str = ""


# --- items ------------------------------------------------------------------------------------------------


class _Item(_Typed, Struct, tag_field="type", kw_only=True):
    id: str = ""
    status: ItemStatus = ItemStatus.IN_PROGRESS

    def to_dict(self) -> dict[str, Any]:
        """The item as plain JSON values, as it goes over the wire."""
        return dict(to_builtins(decode_output_item(encode(self))))

    def end(self, status: ItemStatus) -> None:
        """The item ends, unless it has ended already: a terminal status never changes."""
        if not self.status.is_terminal():
            self.status = status


class MessageItem(_Item, tag="message", kw_only=True):
    """A message; without arguments, one of the assistant that begins."""

    id: str = field(default_factory=partial(ids.new_id, ids.MESSAGE))
    role: MessageRole = MessageRole.ASSISTANT
    content: list[OutputTextContent | InputTextContent | Refusal] = []

    def get_text(self) -> str:
        """The text of all parts."""
        return text_of([*self.content])

    def append_text(self, delta: str) -> None:
        """Extend the last text part, or begin one."""
        self._last().text += delta

    def add_citation(self, url: str, title: str = "", start: int = 0, end: int | None = None) -> None:
        """Note a page as the source of a part of the last text."""
        self._last().add_citation(url, title, start, end)

    def _last(self) -> OutputTextContent:
        last = self.content[-1] if self.content else None
        if not isinstance(last, OutputTextContent):
            last = OutputTextContent()
            self.content.append(last)
        return last


class FunctionCallItem(_Item, tag="function_call", kw_only=True):
    """The model calls a function; `arguments` is JSON in a string."""

    id: str = field(default_factory=partial(ids.new_id, ids.FUNCTION_CALL))
    call_id: str = field(default_factory=partial(ids.new_id, ids.CALL))
    name: str = ""
    arguments: str = ""

    def get_arguments_dict(self) -> dict[str, object]:
        """The arguments as a dict; empty when there are none or they are not a JSON object."""
        return arguments_dict(self.arguments)


class FunctionCallOutputItem(_Item, tag="function_call_output", kw_only=True):
    """The output of a function, for the call with the same `call_id`."""

    id: str = field(default_factory=partial(ids.new_id, ids.FUNCTION_CALL_OUTPUT))
    call_id: str = ""
    output: str = ""
    status: ItemStatus = ItemStatus.COMPLETED


class ReasoningItem(_Item, tag="reasoning", kw_only=True):
    """The reasoning of the model before its answer: a summary, raw text, or encrypted."""

    id: str = field(default_factory=partial(ids.new_id, ids.REASONING))
    summary: list[SummaryTextContent] = []
    content: list[ReasoningText] = []
    encrypted_content: str | None = None

    def get_reasoning_text(self) -> str:
        """The raw reasoning."""
        return text_of([*self.content])

    def get_summary_text(self) -> str:
        """The text of the summary."""
        return text_of([*self.summary])

    def append_content(self, text: str) -> None:
        """Extend the last part of raw reasoning, or begin one."""
        if not self.content:
            self.content.append(ReasoningText(""))
        self.content[-1].text += text

    def set_summary(self, text: str) -> None:
        """Replace the summary by this text."""
        self.summary = [SummaryTextContent(text)]


Item = MessageItem | FunctionCallItem | FunctionCallOutputItem | ReasoningItem
"""An item of an output by the names of Vértice."""

_ITEMS: dict[str, type[Item]] = {
    "message": MessageItem,
    "function_call": FunctionCallItem,
    "function_call_output": FunctionCallOutputItem,
    "reasoning": ReasoningItem,
}


def item_of(item: SpecItem) -> Item | Opaque:
    """An item of the specification under its name here; one that has none stays what it is."""
    with suppress(KeyError, msgspec.ValidationError):
        return msgspec.convert(to_builtins(item), _ITEMS[type_of(item)])
    return item if isinstance(item, Opaque) else Opaque(encode(item))


# --- usage, errors, response ------------------------------------------------------------------------------


class TokenUsage(_Wire, Usage, kw_only=True):
    """The tokens of a response; details that are missing count as zero."""


class OpenResponsesError(_Wire, ErrorPayload):
    """An error: its kind, a code for programs, a message for people, and the parameter at fault."""

    type: str = ErrorType.SERVER_ERROR
    message: str = ""
    code: str | None = "server_error"


# The error of a response has no type. Some codes are types, and some belong to one.
_TYPES = {
    **{str(kind): kind for kind in ErrorType},
    "capability_violation": ErrorType.INVALID_REQUEST,
    "previous_response_not_found": ErrorType.NOT_FOUND,
    "generation_failed": ErrorType.MODEL_ERROR,
}


def _error_of(error: ResponseError) -> OpenResponsesError:
    kind = _TYPES.get(error.code, ErrorType.SERVER_ERROR)
    return OpenResponsesError(type=kind, code=error.code, message=error.message)


# Of a response alone, which has no name here.
_OTHER_STATUSES = {"queued": ItemStatus.IN_PROGRESS, "cancelled": ItemStatus.INCOMPLETE}


class OpenResponse(_Wire, Struct, kw_only=True):
    """A response that is made without a stream: add items to it, then complete it or let it fail."""

    id: str = field(default_factory=partial(ids.new_id, ids.RESPONSE))
    status: ItemStatus = ItemStatus.IN_PROGRESS
    model: str = ""
    output: list[Item | Opaque] = []
    usage: TokenUsage | None = None
    error: OpenResponsesError | None = None
    created_at: int = field(default_factory=lambda: int(time.time()))
    completed_at: int | None = None
    previous_response_id: str | None = None

    @classmethod
    def of(cls, response: Response) -> "OpenResponse":
        """A response of a server, by these names."""
        usage, error = response.usage, response.error
        return cls(
            id=response.id,
            status=_OTHER_STATUSES.get(response.status) or ItemStatus(response.status),
            model=response.model,
            output=[item_of(item) for item in response.output],
            usage=None if usage is None else msgspec.convert(to_builtins(usage), TokenUsage),
            error=None if error is None else _error_of(error),
            created_at=response.created_at,
            completed_at=response.completed_at,
            previous_response_id=response.previous_response_id,
        )

    def to_dict(self) -> dict[str, Any]:
        """The response with all keys of the specification; what this class has no field for is a default."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        if self.error is not None:
            fields["error"] = {"code": self.error.code or self.error.type, "message": self.error.message}
        return dict(to_builtins(decode_response(encode(fields))))

    def add_message(self, role: MessageRole = MessageRole.ASSISTANT) -> MessageItem:
        """A message begins, at the end of the output."""
        item = MessageItem(role=role)
        self.output.append(item)
        return item

    def add_function_call(self, name: str, arguments: str = "") -> FunctionCallItem:
        """A call begins, at the end of the output."""
        item = FunctionCallItem(name=name, arguments=arguments)
        self.output.append(item)
        return item

    def complete(self, usage: TokenUsage | None = None, *, now: int | None = None) -> None:
        """Completes the response and its items."""
        self._end(ItemStatus.COMPLETED, ItemStatus.COMPLETED, now)
        self.usage = usage or self.usage

    def fail(self, error: OpenResponsesError, *, now: int | None = None) -> None:
        """Fails the response; open items become incomplete."""
        self._end(ItemStatus.FAILED, ItemStatus.INCOMPLETE, now)
        self.error = error

    def _end(self, status: ItemStatus, of_items: ItemStatus, now: int | None) -> None:
        if self.status.is_terminal():
            raise ValueError(f"this response is already {self.status}; a terminal status never changes")
        self.status = status
        self.completed_at = int(time.time()) if now is None else now
        for item in self.output:
            if not isinstance(item, Opaque):
                item.end(of_items)
