"""Items in progress: each collects its deltas and emits its events.

The Composer decides when an item opens, ends and closes; what an item does in between is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import ClassVar

import msgspec
from msgspec import UNSET, Struct

from antiphon.spec import events as ev
from antiphon.spec import ids
from antiphon.spec.codec import UNREADABLE, Opaque
from antiphon.spec.content import (
    Annotation,
    ContentPart,
    LogProb,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
)
from antiphon.spec.items import (
    Compaction,
    CustomToolCall,
    FunctionCall,
    Item,
    ItemStatus,
    Message,
    Phase,
    Reasoning,
    is_valid_extension_type,
    type_of,
)
from antiphon.spec.limits import MAX_CALL_ID
from antiphon.stream import lifecycle
from antiphon.stream.client_calls import CallKind, call_item
from antiphon.stream.deltas import CallDelta, Key, WholeItem

Emit = Callable[..., None]

_MOST_LOOKED_AT = 32 * 1024 * 1024
"""After so many characters, arguments are taken for whole only where the provider says so."""


def emit_nothing(*_: object) -> None:
    """Emit nothing: for an item that is hidden or closed."""


class EventBuffer:
    """Numbers events, and holds them until they are taken.

    No Struct: those are made faster, but this one is written to with every event.
    """

    __slots__ = ("events", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[ev.AnyEvent] = []

    def emit(self, event: Callable[..., ev.AnyEvent], *fields: object) -> None:
        number = self.number
        self.number = number + 1
        self.events.append(event(number, *fields))

    def take(self) -> list[ev.AnyEvent]:
        events, self.events = self.events, []
        return events


class OpenItem(ABC):
    """An item that has its index."""

    __slots__ = ("emit", "final", "id", "index", "over", "state")
    table: ClassVar[lifecycle.Table] = lifecycle.ITEM

    def __init__(self, emit: Emit, id: str, index: int) -> None:
        self.emit = emit
        self.id = id
        self.index = index
        self.state = lifecycle.ABSENT
        self.final: Item | None = None
        self.over = False  # nothing more will be said; it waits only for the items before it

    @abstractmethod
    def snapshot(self, status: ItemStatus) -> Item:
        """The item as it stands, as a value of its own."""

    def announce(self) -> None:
        self.state = lifecycle.step(self.table, self.state, lifecycle.ITEM_ADDED)
        if self.emit is not emit_nothing:
            self.emit(ev.OutputItemAddedEvent, self.index, self.snapshot("in_progress"))

    def close(self, status: ItemStatus) -> None:
        self.end_part()
        final = self.snapshot(status)
        self.settle(final, status)
        self.emit(ev.OutputItemDoneEvent, self.index, final)
        self.emit = emit_nothing

    def settle(self, final: Item, status: ItemStatus = "completed") -> None:
        """Set the final item; `status` is how an item ended that has no status of its own."""
        ended = getattr(final, "status", None) or status
        self.state = lifecycle.step(self.table, self.state, (lifecycle.ITEM_DONE, ended))
        self.final = final

    def end_part(self) -> None:
        """Close what is open inside; most items have no parts."""
        return

    def is_whole(self) -> bool:
        """On a cut: is everything that this item needs already there?"""
        return self.over


class OpenMessage(OpenItem):
    __slots__ = ("annotations", "chunks", "held", "logprobs", "part", "part_index", "parts", "phase")

    def __init__(self, emit: Emit, id: str, index: int, phase: Phase | None) -> None:
        super().__init__(emit, id, index)
        self.phase = phase
        self.parts: list[ContentPart] = []
        self.part_index = 0
        self.chunks: list[str] = []
        self.part: type[OutputText] | type[Refusal] | None = None
        self.annotations: list[Annotation] = []
        self.logprobs: list[LogProb] = []
        self.held: list[LogProb] = []  # they came without text, and so without an event of their own

    def snapshot(self, status: ItemStatus) -> Message:
        parts = list(self.parts)
        if self.part is not None:
            parts.append(self._open(self.part))
        return Message(id=self.id, role="assistant", status=status, content=parts, phase=self.phase)

    def begin(self) -> None:
        """Open the text part before its first word."""
        self._begin(OutputText)

    def text(self, text: str, logprobs: list[LogProb] | None = None) -> None:
        self._begin(OutputText)
        self.chunks.append(text)
        if logprobs:
            self.logprobs += logprobs
        self._emit(ev.OutputTextDeltaEvent, text, logprobs if logprobs else UNSET)

    def texts(self, texts: list[str], buffer: EventBuffer) -> None:
        """Tell many pieces of the open text in one step."""
        self.chunks += texts
        place = repeat(self.id), repeat(self.index), repeat(self.part_index)
        first = buffer.number
        buffer.number += len(texts)
        buffer.events += map(ev.OutputTextDeltaEvent, range(first, buffer.number), *place, texts)

    def refusal(self, text: str) -> None:
        self._begin(Refusal)
        self.chunks.append(text)
        self._emit(ev.RefusalDeltaEvent, text)

    def annotate(self, annotation: Annotation) -> None:
        self._begin(OutputText)
        self._emit(ev.OutputTextAnnotationAddedEvent, len(self.annotations), annotation)
        self.annotations.append(annotation)

    def end_part(self) -> None:
        if self.part is None:
            return
        self.logprobs += self.held
        part = self._open(self.part)
        if self.emit is not emit_nothing:
            if isinstance(part, OutputText):
                self._emit(ev.OutputTextDoneEvent, part.text, part.logprobs)
            else:
                self._emit(ev.RefusalDoneEvent, part.refusal)
            self._emit(ev.ContentPartDoneEvent, part)
        self.parts.append(part)
        self.part_index += 1
        self.part, self.chunks, self.annotations, self.logprobs, self.held = None, [], [], [], []

    def _begin(self, part: type[OutputText] | type[Refusal]) -> None:
        if self.part is not part:
            self.end_part()
            self.part = part
            self._emit(ev.ContentPartAddedEvent, part(""))

    def _open(self, part: type[OutputText] | type[Refusal]) -> OutputText | Refusal:
        """The open part as it stands."""
        text = "".join(self.chunks)
        if part is Refusal:
            return Refusal(text)
        return OutputText(text, list(self.annotations), list(self.logprobs) if self.logprobs else UNSET)

    def _emit(self, event: type[ev.Event], *fields: object) -> None:
        if self.emit is not emit_nothing:
            self.emit(event, self.id, self.index, self.part_index, *fields)


class OpenReasoning(OpenItem):
    __slots__ = ("content", "encrypted_content", "raw_chunks", "summary", "summary_chunks", "summary_part")

    def __init__(self, emit: Emit, id: str, index: int) -> None:
        super().__init__(emit, id, index)
        self.content: list[ContentPart] = []
        self.summary: list[ContentPart] = []
        self.raw_chunks: list[str] | None = None
        self.summary_chunks: list[str] | None = None
        self.summary_part: int | None = None
        self.encrypted_content: str | None = None

    def snapshot(self, status: ItemStatus) -> Reasoning:
        raw = [] if self.raw_chunks is None else [ReasoningText("".join(self.raw_chunks))]
        summary = [] if self.summary_chunks is None else [SummaryText("".join(self.summary_chunks))]
        return Reasoning(
            id=self.id,
            summary=[*self.summary, *summary],
            content=[*self.content, *raw] or None,
            encrypted_content=self.encrypted_content,
            status=status,
        )

    def begin(self) -> list[str]:
        """Open the part of raw reasoning, unless it is open."""
        if self.raw_chunks is None:
            self.raw_chunks = []
            self.emit(ev.ContentPartAddedEvent, self.id, self.index, len(self.content), ReasoningText(""))
        return self.raw_chunks

    def text(self, text: str) -> None:
        self.begin().append(text)
        self.emit(ev.ReasoningDeltaEvent, self.id, self.index, len(self.content), text)

    def summarise(self, text: str, part: int) -> None:
        if part != self.summary_part:
            self.end_summary()
        if self.summary_chunks is None:
            self.summary_chunks, self.summary_part = [], part
            self.emit(
                ev.ReasoningSummaryPartAddedEvent, self.id, self.index, len(self.summary), SummaryText("")
            )
        self.summary_chunks.append(text)
        self.emit(ev.ReasoningSummaryTextDeltaEvent, self.id, self.index, len(self.summary), text)

    def end_part(self) -> None:
        self.end_summary()
        if self.raw_chunks is not None:
            part = ReasoningText("".join(self.raw_chunks))
            where = (self.id, self.index, len(self.content))
            self.emit(ev.ReasoningDoneEvent, *where, part.text)
            self.emit(ev.ContentPartDoneEvent, *where, part)
            self.content.append(part)
            self.raw_chunks = None

    def end_summary(self) -> None:
        if self.summary_chunks is not None:
            part = SummaryText("".join(self.summary_chunks))
            where = (self.id, self.index, len(self.summary))
            self.emit(ev.ReasoningSummaryTextDoneEvent, *where, part.text)
            self.emit(ev.ReasoningSummaryPartDoneEvent, *where, part)
            self.summary.append(part)
            self.summary_chunks = None


class UnnamedCall:
    """A call whose name has not come yet, so that no event was emitted for it."""

    __slots__ = ("arguments", "call_id", "hidden", "kind", "namespace")

    def __init__(self, kind: CallKind, hidden: bool) -> None:
        self.kind = kind
        self.hidden = hidden
        self.call_id = ""
        self.namespace: str | None = None
        self.arguments: list[str] = []

    def open(self, emit: Emit, id: str, index: int, call_id: str, name: str) -> "OpenCall":
        """Open the call under its name, which has come."""
        return OPEN_CALLS.get(self.kind, OpenClientCall)(
            emit, id, index, call_id=call_id, given_id=self.call_id, name=name, namespace=self.namespace
        )


class OpenCall(OpenItem):
    """A function call; its arguments are known to be whole once they are a JSON object."""

    __slots__ = ("call_id", "chunks", "given_id", "looked_at", "name", "namespace", "sealed")

    def __init__(
        self,
        emit: Emit,
        id: str,
        index: int,
        *,
        call_id: str,
        given_id: str,
        name: str,
        namespace: str | None,
    ) -> None:
        super().__init__(emit, id, index)
        self.call_id = call_id
        self.given_id = given_id  # what the provider calls it, which may not be fit to go out
        self.sealed = False  # its block has ended, which a cut can do too
        self.name = name
        self.namespace = namespace
        self.chunks: list[str] = []
        self.looked_at = 0  # characters, to find out whether the arguments are whole

    def snapshot(self, status: ItemStatus) -> FunctionCall | CustomToolCall | Opaque:
        return FunctionCall(
            id=self.id,
            call_id=self.call_id,
            name=self.name,
            arguments="".join(self.chunks),
            status=status,
            namespace=self.namespace,
        )

    def arguments(self, text: str) -> None:
        self.chunks.append(text)
        self.emit(ev.FunctionCallArgumentsDeltaEvent, self.id, self.index, text)

    def close(self, status: ItemStatus) -> None:
        if not self.chunks and status == "completed":
            self.arguments("{}")
        self._end_arguments("".join(self.chunks))
        super().close(status)

    def is_whole(self) -> bool:
        if self.over or not self.chunks or self.looked_at > _MOST_LOOKED_AT:
            return self.over
        last = self.chunks[-1].strip()
        if last and not last.endswith("}"):
            return False
        # Each look is at all of them, and there may be one for each piece.
        text = "".join(self.chunks)
        self.chunks = [text]
        self.looked_at += len(text)
        return is_json_object(text)

    def _end_arguments(self, text: str) -> None:
        self.emit(ev.FunctionCallArgumentsDoneEvent, self.id, self.index, text)


class OpenCustomCall(OpenCall):
    """A freeform call: any text is a whole input, so only the provider knows when it ends."""

    __slots__ = ()

    def snapshot(self, status: ItemStatus) -> CustomToolCall:
        return CustomToolCall(
            id=self.id,
            call_id=self.call_id,
            name=self.name,
            input="".join(self.chunks),
            status=status,
            namespace=self.namespace,
        )

    def arguments(self, text: str) -> None:
        self.chunks.append(text)
        self.emit(ev.CustomToolCallInputDeltaEvent, self.id, self.index, text)

    def close(self, status: ItemStatus) -> None:
        self._end_arguments("".join(self.chunks))
        OpenItem.close(self, status)

    def is_whole(self) -> bool:
        return self.over

    def _end_arguments(self, text: str) -> None:
        self.emit(ev.CustomToolCallInputDoneEvent, self.id, self.index, text)


class OpenClientCall(OpenCall):
    """A call whose item holds its arguments as an object: it has no events for them before its end."""

    __slots__ = ()
    table: ClassVar[lifecycle.Table] = lifecycle.VENDOR_ITEM

    def snapshot(self, status: ItemStatus) -> Opaque:
        return call_item(self.name, self.id, self.call_id, "".join(self.chunks), status)

    def arguments(self, text: str) -> None:
        self.chunks.append(text)

    def close(self, status: ItemStatus) -> None:
        OpenItem.close(self, status)


OPEN_CALLS: dict[CallKind, type[OpenCall]] = {"function": OpenCall, "custom": OpenCustomCall}
"""What is open of a call of each kind; of all others it is an `OpenClientCall`."""


class OpenWhole(OpenItem):
    """An item that comes whole: a hosted tool's, a tool output, a vendor's."""

    __slots__ = ("item",)
    table: ClassVar[lifecycle.Table] = lifecycle.VENDOR_ITEM

    def __init__(self, emit: Emit, index: int, item: WholeItem) -> None:
        super().__init__(emit, item.id, index)
        self.item = item

    def snapshot(self, status: ItemStatus) -> Item:
        if status == "completed" and is_over(self.item):
            return self.item
        return lifecycle.with_status(self.item, status)


def close_cut(items: Iterable[OpenItem]) -> None:
    """Close what a cut leaves open: from the first that is not whole on, all are incomplete."""
    status: ItemStatus = "completed"
    for item in items:
        if not item.is_whole():
            status = "incomplete"
        item.close(status)


def is_another(call: OpenCall | UnnamedCall, delta: CallDelta) -> bool:
    """Some providers give every call the same key and only a new id or name tells them apart."""
    given = call.given_id if isinstance(call, OpenCall) else call.call_id
    if delta.call_id and given and delta.call_id != given:
        return True
    if isinstance(call, UnnamedCall) or not delta.name or not (call.over or call.is_whole()):
        return False
    return delta.name != call.name or bool(delta.arguments.strip())


def is_over(item: WholeItem) -> bool:
    """Has this item reached its end? One without a status has nothing more to say."""
    return (getattr(item, "status", None) or "completed") in ("completed", "incomplete", "failed")


def presentable(item: WholeItem, shown: str) -> WholeItem:
    """The item under the type it goes out with, in a state that it can have in the middle of an output."""
    if isinstance(item, Compaction):
        return item
    if not isinstance(item, Opaque):
        return item if item.status == "in_progress" else lifecycle.with_status(item, "completed")
    if item.type != shown:
        item = item.replace(type=shown)
    if item.status is None and is_valid_extension_type(shown):
        return lifecycle.with_status(item, "completed", required=True)
    # Nothing but the last item may be incomplete, and what comes whole is never cut short by a budget.
    return lifecycle.with_status(item, "failed") if item.status in ("incomplete", "cancelled") else item


def with_id(item: WholeItem, id: str) -> WholeItem:
    if item.id == id:
        return item
    return item.replace(id=id) if isinstance(item, Opaque) else msgspec.structs.replace(item, id=id)


def is_json_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except UNREADABLE:
        return False
    return True


class KeyedItems(Struct, eq=False):
    """The items that deltas address by key, and the ids that are in use: no two have the same."""

    used_ids: set[str]
    calls: dict[Key, OpenCall | UnnamedCall] = {}
    whole: dict[Key, OpenWhole] = {}
    words: dict[Key, OpenMessage | OpenReasoning] = {}
    touched: dict[OpenCall, None] = {}  # calls to look at again when something else begins

    def call_id(self, given: str, new_id: Callable[[str], str]) -> str:
        """The id of a call that the provider calls by this one; it is in use from now on."""
        if not given or len(given) > MAX_CALL_ID or given in self.used_ids:
            given = new_id(ids.CALL)
        self.used_ids.add(given)
        return given

    def with_unique_id(self, item: WholeItem, new_id: Callable[[str], str]) -> WholeItem:
        """Return the item with an id that no other has."""
        if item.id and item.id not in self.used_ids:
            return item
        return with_id(item, new_id(ids.prefix(type_of(item))))
