"""The events of a stream by the names of Vértice: the specification's events as plain JSON values."""

from functools import cached_property
from typing import Any, ClassVar

import msgspec

from antiphon.spec.codec import encode, to_builtins
from antiphon.spec.decode import decode_event
from antiphon.spec.events import AnyEvent
from antiphon.stream.dialects import VERTICE
from antiphon.stream.framing import frames
from antiphon.stream.lifecycle import RESPONSE_FAILED


class StreamEvent:
    """An event. Its fields are attributes: `event.delta`, `event.response["id"]`.

    An event that a program makes is read from its fields as an event of another server would be: a required
    field that is missing gets a default. The program gives it its number.
    """

    _classes: ClassVar[dict[str, "type[StreamEvent]"]] = {}
    _type: ClassVar[str] = ""

    def __init_subclass__(cls, *, type: str) -> None:
        super().__init_subclass__()
        cls._type = type
        StreamEvent._classes[type] = cls

    def __init__(self, **fields: Any) -> None:
        named = {**fields, "type": self._type} if self._type else fields
        if "error" in named and named.get("type") == RESPONSE_FAILED:
            named = _with_its_error(to_builtins(named))
        self._event = decode_event(encode(named))

    @classmethod
    def of(cls, event: AnyEvent) -> "StreamEvent":
        """The view of an event that exists."""
        kind = cls._classes.get(event.type, StreamEvent)
        made = kind.__new__(kind)
        made._event = event
        return made

    @property
    def type(self) -> str:
        """Its name on the wire."""
        return self._event.type

    @cached_property
    def _fields(self) -> dict[str, Any]:
        return msgspec.json.decode(VERTICE.encode(self._event), type=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """The event as plain JSON values, as it goes over the wire."""
        return dict(self._fields)

    def to_sse(self) -> str:
        """The event as one server-sent event: an event line, a data line, a blank line."""
        return frames([self._event], VERTICE).decode()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"the event {self.type} has no {name!r}")
        return self._fields[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamEvent) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type!r}, {self.sequence_number})"


def _with_its_error(failed: dict[str, Any]) -> dict[str, Any]:
    """Vértice has an error beside its response, the specification inside of it."""
    response, beside = failed.get("response") or {}, failed.pop("error") or {}
    if not beside or response.get("error"):
        return failed
    inside = {"code": beside.get("code") or beside.get("type"), "message": beside.get("message", "")}
    return {**failed, "response": {**response, "error": inside}}


class ResponseCreatedEvent(StreamEvent, type="response.created"):
    """The first event: the request was accepted."""


class ResponseInProgressEvent(StreamEvent, type="response.in_progress"):
    """The model is at work."""


class ResponseCompletedEvent(StreamEvent, type="response.completed"):
    """The response ended as it should; `response` is whole."""


class ResponseFailedEvent(StreamEvent, type=RESPONSE_FAILED):
    """The response failed; the reason stands in `response["error"]`, and in `error` once more."""


class OutputItemAddedEvent(StreamEvent, type="response.output_item.added"):
    """A new output item begins."""


class OutputItemDoneEvent(StreamEvent, type="response.output_item.done"):
    """An output item is complete, or incomplete for good."""


class ContentPartAddedEvent(StreamEvent, type="response.content_part.added"):
    """A new, empty content part begins."""


class ContentPartDoneEvent(StreamEvent, type="response.content_part.done"):
    """A content part is complete."""


class OutputTextDeltaEvent(StreamEvent, type="response.output_text.delta"):
    """A piece of the answer's text."""


class OutputTextDoneEvent(StreamEvent, type="response.output_text.done"):
    """The complete text of a content part."""


class FunctionCallArgumentsDeltaEvent(StreamEvent, type="response.function_call_arguments.delta"):
    """A piece of a function call's arguments."""


class FunctionCallArgumentsDoneEvent(StreamEvent, type="response.function_call_arguments.done"):
    """A function call's complete arguments."""
