"""The events of a stream by the names of VT Code, and where they are emitted to."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import msgspec

from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_event
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import Item
from antiphon.spec.response import Response


@dataclass(frozen=True, slots=True)
class ResponseStreamEvent:
    """An event of a stream, and the id of the response that it belongs to, where that is known."""

    event: AnyEvent
    response_id: str | None = None

    @classmethod
    def of(cls, event: AnyEvent, response_id: str | None = None) -> "ResponseStreamEvent":
        """The view of an event; one that carries its response knows its id."""
        return cls(event, event.response_id or response_id)

    @classmethod
    def parse(cls, data: bytes | str) -> "ResponseStreamEvent":
        """An event from its JSON; a type that is not known is an event, too."""
        return cls.of(decode_event(data.encode() if isinstance(data, str) else data))

    def event_type(self) -> str:
        """Its name on the wire."""
        return self.event.type

    @property
    def sequence_number(self) -> int:
        return self.event.sequence_number

    @property
    def is_response_event(self) -> bool:
        """Is it about the response as a whole?"""
        return self.event.is_lifecycle

    @property
    def is_terminal(self) -> bool:
        """Is it the last event of its response?"""
        return self.event.is_terminal

    @property
    def is_unknown(self) -> bool:
        """Is it none of the specification's?"""
        return self.event.is_unknown

    def to_dict(self) -> dict[str, Any]:
        """The event as plain JSON values, as the specification has it."""
        return msgspec.json.decode(self.event.to_json(), type=dict[str, Any])


class StreamEventEmitter(ABC):
    """Receives events. Its other methods make an event of their arguments, number it from 0, and emit it.

    They check no order. For a stream that is right whatever happens, use `ResponseBuilder`.
    """

    _emitted = 0

    @abstractmethod
    def emit(self, event: ResponseStreamEvent) -> None:
        """Take an event."""

    def response_created(self, response: Response) -> None:
        """The response begins."""
        self._emit("response.created", response.id, response=response)

    def response_in_progress(self, response: Response) -> None:
        """The model is at work."""
        self._emit("response.in_progress", response.id, response=response)

    def response_completed(self, response: Response) -> None:
        """The response ended as it should."""
        self._emit("response.completed", response.id, response=response)

    def response_failed(self, response: Response) -> None:
        """The response failed."""
        self._emit("response.failed", response.id, response=response)

    def output_item_added(self, response_id: str, output_index: int, item: Item) -> None:
        """An item begins."""
        self._emit("response.output_item.added", response_id, output_index=output_index, item=item)

    def output_item_done(self, response_id: str, output_index: int, item: Item) -> None:
        """An item ends."""
        self._emit("response.output_item.done", response_id, output_index=output_index, item=item)

    def output_text_delta(
        self, response_id: str, item_id: str, output_index: int, content_index: int, delta: str
    ) -> None:
        """A piece of text."""
        place = {"item_id": item_id, "output_index": output_index, "content_index": content_index}
        self._emit("response.output_text.delta", response_id, **place, delta=delta)

    def reasoning_delta(
        self, response_id: str, item_id: str, output_index: int, content_index: int, delta: str
    ) -> None:
        """A piece of raw reasoning."""
        place = {"item_id": item_id, "output_index": output_index, "content_index": content_index}
        self._emit("response.reasoning.delta", response_id, **place, delta=delta)

    def _emit(self, type: str, response_id: str, **fields: object) -> None:
        event = decode_event(encode({"type": type, "sequence_number": self._emitted, **fields}))
        self._emitted += 1
        self.emit(ResponseStreamEvent.of(event, response_id))


class VecStreamEmitter(StreamEventEmitter):
    """Collects the events."""

    def __init__(self) -> None:
        self._events: list[ResponseStreamEvent] = []

    def emit(self, event: ResponseStreamEvent) -> None:
        """Keep an event."""
        self._events.append(event)

    def into_events(self) -> list[ResponseStreamEvent]:
        """The events so far, which are then no longer kept."""
        events, self._events = self._events, []
        return events
