"""The events of another server as deltas: its words stay, its ids and indexes do not.

The Reader has put the events in order before: items are announced, and every word comes in one delta.
What only a snapshot holds, such as a proof, an annotation or a log probability, is added when it comes.
"""

from collections.abc import Callable
from typing import Any

from antiphon.providers.responses.request import Proof
from antiphon.spec import events as ev
from antiphon.spec import items
from antiphon.spec.codec import Opaque
from antiphon.spec.content import Annotation, LogProb, OutputText
from antiphon.stream import deltas as d
from antiphon.stream.lifecycle import with_status
from antiphon.stream.open_items import is_over
from antiphon.wires.notes import Note
from antiphon.wires.tools.calls import Calls
from antiphon.wires.tools.names import ToolNames

_Call = items.FunctionCall | items.CustomToolCall
_Whole = items.FunctionCallOutput | items.CustomToolCallOutput | items.Compaction | Opaque


class _ItemProgress:
    """How far an item has been read."""

    __slots__ = ("annotations", "done", "held", "is_call", "logprobs", "named", "phase", "spoken")

    def __init__(self, item: items.Item) -> None:
        self.phase: items.Phase | None = item.phase if isinstance(item, items.Message) else None
        self.is_call = isinstance(item, _Call)
        self.named = False
        self.spoken = False
        self.done = False
        self.held: list[str] = []  # arguments of a call whose name is not known yet
        self.annotations: dict[int, int] = {}  # how many, by the number of the part
        self.logprobs: set[int] = set()  # parts that have some


class EventsToDeltas:
    """Feed it events of the specification; `deltas` gathers what they say."""

    def __init__(self, names: ToolNames | None, note: Note) -> None:
        self.deltas: list[d.AnyDelta] = []
        self.called = False
        self.current: int | None = None
        """The item whose words are open, by its index upstream."""
        self.part: int | None = None
        """The open part of it."""
        self._names = names
        self._flat = Calls(names or ToolNames())
        self._note = note
        self._items: dict[int, _ItemProgress] = {}
        self._keys: dict[str, int] = {}  # whole items by their id upstream
        self._cut: dict[int, _Whole] = {}  # whole items that were cut short, if the response was
        self._readers: dict[type, Callable[[Any], None]] = {
            ev.OutputItemAddedEvent: self.read_added,
            ev.OutputItemDoneEvent: self._read_done,
            ev.OutputTextDeltaEvent: self._read_text,
            ev.OutputTextDoneEvent: self._read_text_done,
            ev.OutputTextAnnotationAddedEvent: self._read_annotation,
            ev.ContentPartDoneEvent: self._read_part_done,
            ev.RefusalDeltaEvent: self._read_refusal,
            ev.ReasoningDeltaEvent: self._read_reasoning,
            ev.ReasoningSummaryTextDeltaEvent: self._read_summary,
            ev.FunctionCallArgumentsDeltaEvent: self._read_arguments,
            ev.CustomToolCallInputDeltaEvent: self._read_arguments,
            ev.OtherEvent: self._read_vendor_event,
        }

    @property
    def is_settled(self) -> bool:
        """Something was said, and every item has come to its end."""
        return bool(self._items) and all(progress.done for progress in self._items.values())

    def read(self, event: ev.AnyEvent) -> None:
        kind = type(event)
        # An event with fields that we do not know is of a class of its own.
        if (reader := self._readers.get(kind) or self._readers.get(kind.__mro__[1])) is not None:
            reader(event)

    def end(self, *, is_cut: bool) -> None:
        """The response ends: what was cut short is left open where the end says so itself."""
        for index, item in self._cut.items():
            self.deltas.append(d.ItemDelta(with_status(item, "in_progress") if is_cut else item, index))

    # --- items --------------------------------------------------------------------------------------------

    def read_added(self, event: ev.OutputItemAddedEvent) -> None:
        item, index = event.item, event.output_index
        if item is None:
            return
        progress = self._items.setdefault(index, _ItemProgress(item))
        if isinstance(item, _Call):
            progress.is_call = True
            self._begin_call(index, progress, item)
        elif isinstance(item, items.Message):
            progress.phase = item.phase
        elif isinstance(item, _Whole) and item.id not in self._keys:
            self._keys[item.id] = index
            self._begin_whole(index, item)

    def _read_done(self, event: ev.OutputItemDoneEvent) -> None:
        item, index = event.item, event.output_index
        if item is None:
            return
        progress = self._items.setdefault(index, _ItemProgress(item))
        if progress.done:
            return
        progress.done = True
        match item:
            case items.Message():
                self._end_message(index, progress, item)
            case items.Reasoning():
                for part in (*item.summary, *(item.content or ())):
                    if isinstance(part, Opaque):
                        self._note(
                            "output",
                            f"a part of type {part.type!r} in reasoning cannot be passed on as events",
                        )
                if item.encrypted_content:
                    self._open_item(index, progress)
                    self.deltas.append(d.SignatureDelta(Proof(item.id, item.encrypted_content).to_blob()))
                self._close_item(index, item.status == "incomplete")
            case items.FunctionCall() | items.CustomToolCall():
                self._begin_call(index, progress, item)
                self._end_call(index, progress, is_cut=item.status == "incomplete")
            case items.FunctionCallOutput() | items.CustomToolCallOutput() | items.Compaction() | Opaque():
                if getattr(item, "status", None) == "incomplete":
                    self._cut[index] = item
                    return
                self.current = None
                self.deltas.append(d.ItemDelta(item, index))

    def _open_item(self, index: int, progress: _ItemProgress) -> None:
        """The next words are of this item."""
        if self.current == index:
            return
        if self.current is not None:
            self.deltas.append(d.ItemEnd(status="completed"))
        self.deltas.append(d.MessageStart(progress.phase))
        self.current, self.part = index, None
        progress.spoken = True

    def _close_item(self, index: int, is_cut: bool) -> None:
        if self.current == index:
            # What was cut short stays open for the end of the response to say so.
            self.deltas.append(d.ItemEnd(status=None if is_cut else "completed"))
            self.current = None

    # --- words --------------------------------------------------------------------------------------------

    def _open_part(self, index: int, part: int) -> _ItemProgress:
        progress = self._items[index]
        self._open_item(index, progress)
        if self.part != part:
            if self.part is not None:
                self.deltas.append(d.PartEnd())
            self.part = part
        return progress

    def _read_text(self, event: ev.OutputTextDeltaEvent) -> None:
        progress = self._open_part(event.output_index, event.content_index)
        logprobs = event.logprobs or None
        if logprobs:
            progress.logprobs.add(event.content_index)
        self.deltas.append(d.TextDelta(event.delta, logprobs))

    def _read_refusal(self, event: ev.RefusalDeltaEvent) -> None:
        self._open_part(event.output_index, event.content_index)
        self.deltas.append(d.RefusalDelta(event.delta))

    def _read_reasoning(self, event: ev.ReasoningDeltaEvent) -> None:
        self._open_part(event.output_index, event.content_index)
        self.deltas.append(d.ReasoningDelta(event.delta))

    def _read_summary(self, event: ev.ReasoningSummaryTextDeltaEvent) -> None:
        self._open_item(event.output_index, self._items[event.output_index])
        self.deltas.append(d.SummaryDelta(event.delta, event.summary_index))

    def _read_annotation(self, event: ev.OutputTextAnnotationAddedEvent) -> None:
        if event.annotation is not None:
            progress = self._open_part(event.output_index, event.content_index)
            progress.annotations[event.content_index] = progress.annotations.get(event.content_index, 0) + 1
            self.deltas.append(d.AnnotationDelta(event.annotation))

    def _read_text_done(self, event: ev.OutputTextDoneEvent) -> None:
        self._add_missing(event.output_index, event.content_index, [], event.logprobs or [])

    def _read_part_done(self, event: ev.ContentPartDoneEvent) -> None:
        if isinstance(part := event.part, OutputText):
            self._add_missing(event.output_index, event.content_index, part.annotations, part.logprobs or [])

    def _add_missing(
        self, index: int, part: int, annotations: list[Annotation], logprobs: list[LogProb]
    ) -> None:
        """What a snapshot of the open part adds to what is known of it."""
        if (index, part) != (self.current, self.part):
            return
        progress = self._items[index]
        if logprobs and part not in progress.logprobs:
            progress.logprobs.add(part)
            self.deltas.append(d.TextDelta("", logprobs))
        known = progress.annotations.get(part, 0)
        if new := annotations[known:]:
            progress.annotations[part] = known + len(new)
            self.deltas += map(d.AnnotationDelta, new)

    def _end_message(self, index: int, progress: _ItemProgress, message: items.Message) -> None:
        parts = message.content if isinstance(message.content, list) else []
        for n, part in enumerate(parts):
            if isinstance(part, OutputText):
                self._add_missing(index, n, part.annotations, part.logprobs or [])
            elif isinstance(part, Opaque):
                self._note(
                    "output", f"a part of type {part.type!r} in a message cannot be passed on as events"
                )
        if not progress.spoken and message.status != "incomplete":
            # It has no words, but it is there.
            self.deltas += [d.WordsStart(index, phase=progress.phase), d.ItemEnd(index)]
        self._close_item(index, message.status == "incomplete")

    # --- calls --------------------------------------------------------------------------------------------

    def _begin_call(self, index: int, progress: _ItemProgress, call: _Call) -> None:
        if progress.named or not call.name:
            return
        progress.named = self.called = True
        self.current = None
        call_id = call.call_id
        if self._is_flat(call):
            self.deltas.append(self._flat.begin(index, call.name, call_id))
        else:
            self.deltas.append(
                d.CallDelta(
                    index,
                    name=call.name,
                    call_id=call_id,
                    kind="custom" if isinstance(call, items.CustomToolCall) else "function",
                    namespace=call.namespace,
                )
            )
        held, progress.held = "".join(progress.held), []
        self._add_arguments(index, held)

    def _read_arguments(
        self, event: ev.FunctionCallArgumentsDeltaEvent | ev.CustomToolCallInputDeltaEvent
    ) -> None:
        progress = self._items[event.output_index]
        if progress.named:
            self._add_arguments(event.output_index, event.delta)
        else:
            progress.held.append(event.delta)

    def _add_arguments(self, index: int, piece: str) -> None:
        self.deltas += self._flat.arguments(index, piece)

    def _is_flat(self, call: _Call) -> bool:
        """Was it declared under another name, because the server has only functions?"""
        return self._names is not None and isinstance(call, items.FunctionCall) and not call.namespace

    def _end_call(self, index: int, progress: _ItemProgress, *, is_cut: bool) -> None:
        if not progress.named:
            self.called = True
            self.deltas.append(d.CallDelta(index, "".join(progress.held)))
        self.deltas += self._flat.flush(index)
        if not is_cut:
            self.deltas.append(d.ItemEnd(index, "completed"))

    # --- what comes whole ---------------------------------------------------------------------------------

    def _begin_whole(self, index: int, item: _Whole) -> None:
        """It is announced as running, so that its own events have an item; its end follows."""
        if isinstance(item, items.Compaction):
            return  # it has no states, and may not be whole yet
        running: _Whole = with_status(item, "in_progress", required=True) if is_over(item) else item
        self.current = None
        self.deltas.append(d.ItemDelta(running, index))

    def _read_vendor_event(self, event: ev.OtherEvent) -> None:
        """An event of a hosted tool, or of a vendor; those about words and calls say nothing new."""
        fields = dict(event.fields)
        id = fields.pop("item_id", None)
        index = fields.pop("output_index", None)
        if id is None and index is None:
            self.deltas.append(d.VendorDelta(event.type, fields))
            return
        key = self._keys.get(id) if isinstance(id, str) else index if index in self._keys.values() else None
        if key is not None and not self._items[key].done:
            self.deltas.append(d.VendorDelta(event.type, fields, key))
        elif key is None and ("delta" in fields or "annotation" in fields):
            self._note("output", f"an event of type {event.type!r} of an item of words cannot be passed on")
