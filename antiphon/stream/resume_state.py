"""Restores a Composer's state from the events that were already sent.

The owner of a background response can die in the middle of it. Its log has the events that clients have seen;
another process reads it, and goes on with the response under the next numbers, or ends it.
"""

from contextlib import suppress
from typing import cast

from msgspec import Struct

from antiphon.spec import events as ev
from antiphon.spec.content import Refusal
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import CustomToolCall, FunctionCall, Item, Message, Reasoning
from antiphon.stream import lifecycle
from antiphon.stream.deltas import WholeItem
from antiphon.stream.open_items import (
    Emit,
    OpenCall,
    OpenCustomCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    OpenWhole,
    emit_nothing,
)

# The class of an event about a text or a part, the id of the item that it is about, and which of its parts.
About = tuple[object, object, object]


class SentEvents(Struct, eq=False):
    """The state after the events that were given to `add`, in the order in which they were sent.

    Events are those of a Reader, which spells every dialect as the specification does.
    """

    state: str = lifecycle.ABSENT
    next_number: int = 0
    items: list[OpenItem] = []
    closed: int = 0
    error: ErrorPayload | None = None
    vendor_events: dict[str, set[str]] = {}
    """The types of a vendor's events that an item has had, under its id."""
    _ends: set[About] = set()

    __repr__ = object.__repr__  # which shows no prompt

    def add(self, event: ev.AnyEvent) -> None:
        with suppress(lifecycle.IllegalTransition):  # some dialects leave events out
            trigger = lifecycle.response_trigger(event.type)
            self.state = lifecycle.step(lifecycle.RESPONSE, self.state, trigger)
        match event:
            case ev.ErrorEvent(error=error):
                self.error = error
            case ev.OutputItemAddedEvent(item=announced) if announced is not None:
                opened = _open_item(announced, len(self.items))
                opened.announce()
                self.items.append(opened)
            case ev.OutputItemDoneEvent(output_index=index, item=final) if final is not None:
                self.items[index].settle(final)
                self.closed += 1
            case ev.ContentEvent() | ev.SummaryEvent() | ev.CallEvent():
                item = self.items[event.output_index]
                if event.type in lifecycle.CLOSING:
                    self._ends.add((type(event), item.id, _part(event)))
                _repeat(item, event)
            case ev.OtherEvent(fields={"item_id": str(id)}):
                self.vendor_events.setdefault(id, set()).add(event.type)

    def end_what_is_whole(self) -> None:
        """Mark the items that are whole, though their last event was not sent."""
        for item in self.items[self.closed :]:
            match item:
                case OpenReasoning():
                    item.over = True
                case OpenMessage(part=None):
                    item.over = bool(item.parts)
                case OpenMessage(part_index=part):
                    item.over = (ev.OutputTextDoneEvent, item.id, part) in self._ends
                case OpenCall():
                    ends = ev.FunctionCallArgumentsDoneEvent, ev.CustomToolCallInputDoneEvent
                    item.over = item.is_whole() or any((end, item.id, 0) in self._ends for end in ends)

    def only_new(self, emit: Emit) -> Emit:
        """Emits what was not sent: the log can break off between the end of a text and that of its part."""

        def emit_new(event: type[ev.Event], *fields: object) -> None:
            part = fields[2] if issubclass(event, ev.ContentEvent | ev.SummaryEvent) else 0
            if (event, fields[0], part) not in self._ends:
                emit(event, *fields)

        return emit_new


def _part(event: ev.ContentEvent | ev.SummaryEvent | ev.CallEvent) -> int:
    match event:
        case ev.ContentEvent(content_index=part) | ev.SummaryEvent(summary_index=part):
            return part
    return 0


def _open_item(item: Item, index: int) -> OpenItem:
    match item:
        case Message():
            return OpenMessage(emit_nothing, item.id, index, item.phase)
        case Reasoning():
            return OpenReasoning(emit_nothing, item.id, index)
        case FunctionCall() | CustomToolCall():
            return (OpenCall if isinstance(item, FunctionCall) else OpenCustomCall)(
                emit_nothing,
                item.id,
                index,
                call_id=item.call_id,
                given_id=item.call_id,
                name=item.name,
                namespace=item.namespace,
            )
    return OpenWhole(emit_nothing, index, cast(WholeItem, item))  # an output has no references


def _repeat(item: OpenItem, event: ev.Event) -> None:
    """Repeat the item's deltas without emitting events."""
    match item, event:
        case OpenMessage(), ev.ContentPartAddedEvent(part=Refusal()):
            item.refusal("")
        case OpenMessage() | OpenReasoning(), ev.ContentPartAddedEvent():
            item.begin()
        case OpenMessage(), ev.OutputTextDeltaEvent(delta=text, logprobs=logprobs):
            item.text(text, logprobs or None)
        case OpenMessage(), ev.OutputTextDoneEvent(logprobs=list() as logprobs):
            item.held = logprobs[len(item.logprobs) :]
        case OpenMessage(), ev.RefusalDeltaEvent(delta=text):
            item.refusal(text)
        case OpenMessage(), ev.OutputTextAnnotationAddedEvent(annotation=annotation) if (
            annotation is not None
        ):
            item.annotate(annotation)
        case OpenReasoning(), ev.ReasoningDeltaEvent(delta=text):
            item.text(text)
        case OpenReasoning(), ev.ReasoningSummaryPartAddedEvent(summary_index=part):
            item.summarise("", part)
        case OpenReasoning(), ev.ReasoningSummaryTextDeltaEvent(delta=text, summary_index=part):
            item.summarise(text, part)
        case OpenReasoning(), ev.ReasoningSummaryPartDoneEvent():
            item.end_summary()
        case _, ev.ContentPartDoneEvent():
            item.end_part()
        case OpenCall(), ev.FunctionCallArgumentsDeltaEvent(delta=text) | ev.CustomToolCallInputDeltaEvent(
            delta=text
        ):
            item.arguments(text)
