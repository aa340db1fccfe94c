"""Finds the item and part that an event is about, and fills in what the server left out.

Each method takes what one event says, as far as it says it, and adds to `events` a run that leaves nothing
out: an item and its part are announced before their content, and every word comes in exactly one delta.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from antiphon.spec import events as ev
from antiphon.spec import ids
from antiphon.spec.content import Annotation, ContentPart, LogProb
from antiphon.spec.items import CustomToolCall, FunctionCall, Item, ItemStatus, type_of
from antiphon.stream.open_items import is_json_object
from antiphon.stream.partial_items import (
    CARRIED,
    KINDS,
    SUMMARY,
    TEXT,
    GrowingText,
    PartialItem,
    PartialText,
    as_announced,
    as_ended,
    as_output,
    has_words,
    kind_in,
    part_for,
    skeleton,
    with_item_id,
    with_words_of,
    words_of,
)

E = TypeVar("E", bound=ev.Event)


class EventTarget(NamedTuple):
    """The ids and indexes in an event; None or empty where it has none."""

    sequence_number: int
    item_id: str = ""
    output_index: int | None = None
    part: int | None = None
    call_id: str = ""
    name: str = ""


class Assembly:
    """The output of one response."""

    def __init__(self, odd: Callable[[str], None], new_id: Callable[[str], str]) -> None:
        self.events: list[ev.AnyEvent] = []
        self.items: dict[int, PartialItem] = {}
        self.by_id: dict[str, PartialItem] = {}
        self._by_call: dict[str, PartialItem] = {}
        self._open: dict[int, PartialItem] = {}
        self._at: dict[int, PartialItem] = {}  # the latest item at each index that the server names
        # The open items that can have such a text.
        self._latest: dict[GrowingText, list[PartialItem]] = {kind: [] for kind in KINDS}
        self._beside: dict[tuple[int, type], PartialItem] = {}
        self._next = 0  # the first index after every known one
        self._note_oddity = odd
        self._new_id = new_id

    def output(self) -> list[Item]:
        return [growing.build() for _, growing in sorted(self.items.items())]

    # --- what events say ----------------------------------------------------------------------------------

    def item_added(self, place: EventTarget, item: Item | None) -> ev.Event:
        wire = self._next if place.output_index is None else place.output_index
        if item is None:
            return self._emit(ev.OutputItemAddedEvent(place.sequence_number, wire, None))
        item = as_output(item)
        growing = self._at.get(wire)
        if growing is None:
            return self._begin(place, item, wire)
        if growing.done or not self._is_same(growing, item):
            self._note_oddity(f"two items at output_index {wire}")
            return self._begin(place, item, wire)
        if not growing.implied:
            self._note_oddity(f"item {growing.id} was announced twice")
        growing.implied = False
        growing.item = with_item_id(item, growing.id)
        self._remember(growing, item.id)
        return ev.OutputItemAddedEvent(place.sequence_number, growing.index, as_announced(growing.item))

    def item_done(self, place: EventTarget, item: Item | None) -> ev.Event:
        if item is None:
            growing = self._find_known(place) or next(iter(self._open.values()), None)
            if growing is None:
                return self._emit(
                    ev.OutputItemDoneEvent(place.sequence_number, place.output_index or 0, None)
                )
            return self._complete(place, growing, growing.build(), "completed")
        item = as_output(item)
        meant = self._find_meant(place.output_index, item)
        return self._complete(place, meant or self._imply(place, item), item, "completed")

    def part_added(self, place: EventTarget, part: ContentPart, kind: GrowingText) -> ev.Event | None:
        if self._is_pointless(place, part, kind):
            return None
        growing, kind = self._locate(place, kind)
        number = growing.number(kind, place.part)
        part = part_for(kind, part)
        words = words_of(part)
        known = (kind.delta, number) in growing.texts
        event = self._announce(place, growing, kind, number, part)
        if words and not known:
            self._note_oddity(f"a part was announced with {kind.name} in it")
            self._grow(place, growing, growing.texts[kind.delta, number], number, words)
        return event

    def part_done(self, place: EventTarget, part: ContentPart, kind: GrowingText) -> ev.Event | None:
        if self._is_pointless(place, part, kind):
            return None
        growing, kind = self._locate(place, kind)
        part = part_for(kind, part)
        number, text = self._text(place, growing, kind, part)
        self._settle(place, growing, text, number, words_of(part))
        text.take(part)
        text.closed = True
        return self._emit(kind.ended(place.sequence_number, growing.id, growing.index, number, text.build()))

    def delta(self, place: EventTarget, kind: GrowingText, words: str, logprobs: list[LogProb]) -> ev.Event:
        growing, kind = self._locate(place, kind)
        number = growing.number(kind, place.part)
        text = growing.texts.get((kind.delta, number))
        if text is None:
            number, text = self._text(place._replace(part=number), growing, kind)
            self._begin_call(place, growing, text)
        if text.closed or growing.done:
            self._note_oddity(f"a {kind.name} delta after the {kind.name} was done")
        if kind is not TEXT or not logprobs:
            return self._grow(place, growing, text, number, words)
        text.logprobs += logprobs
        return self._grow(place, growing, text, number, words, logprobs)

    def text_done(
        self, place: EventTarget, kind: GrowingText, words: str, logprobs: list[LogProb]
    ) -> ev.Event:
        growing, kind = self._locate(place, kind)
        number, text = self._text(place, growing, kind)
        # A call that was announced with its arguments may have nothing more to say.
        announced_words = "" if text.chunks else getattr(growing.item, kind.key, "")
        self._settle(place, growing, text, number, words or announced_words)
        text.closed = True
        text.logprobs = list(logprobs) or text.logprobs
        rest = (list(text.logprobs),) if kind is TEXT and text.logprobs else ()
        return self._emit(kind.done(*_where(place, growing, kind, number), text.value(), *rest))

    def add_annotation(self, place: EventTarget, annotation: Annotation | None, at: int | None) -> ev.Event:
        growing, kind = self._locate(place, TEXT)
        number, text = self._text(place, growing, kind)
        at = len(text.annotations) if at is None else at
        if annotation is not None:
            text.annotations[at : at + 1] = [annotation]
        where = (place.sequence_number, growing.id, growing.index, number)
        return self._emit(ev.OutputTextAnnotationAddedEvent(*where, at, annotation))

    def finish(self, sequence_number: int, final: list[Item], status: ItemStatus) -> list[Item]:
        """The final output: that of the terminal event, or what was streamed if it has none."""
        if not final and self.items:
            self._note_oddity("the final response has no output; it is taken from the stream")
            self.close(sequence_number, status)
            return self.output()
        final = [as_output(item) for item in final]
        found = self._match_output(final)
        left_out = len(self.items) - len(found)
        if left_out:
            self._note_oddity(f"the final response leaves out items that were streamed: {left_out}")
        output = []
        for n, item in enumerate(final):
            place = EventTarget(sequence_number, output_index=n)
            growing = found.get(n) or self._imply(place, item)
            if not growing.done:
                self._complete(place, growing, item, status)
            output.append(as_ended(self._restore_words(growing, item), status))
        return output

    def close(self, sequence_number: int, status: ItemStatus) -> None:
        """End everything that is open with this status."""
        for _, growing in sorted(self._open.items()):
            self._complete(EventTarget(sequence_number), growing, growing.build(), status)

    # --- which item ---------------------------------------------------------------------------------------

    def _locate(self, place: EventTarget, kind: GrowingText) -> tuple[PartialItem, GrowingText]:
        growing = self._find_known(place)
        if growing is None and not place.item_id and place.output_index is None:
            growing = self._latest_open(kind)
        if growing is None:
            return self._imply(place, self._skeleton(place, kind)), kind
        own = kind_in(growing.item, kind)
        if own is not None:
            self._name_call(growing, place)
            return growing, own
        key = (growing.index, kind.owner)
        if key not in self._beside:
            self._note_oddity(f"{kind.name} of an item of type {type_of(growing.item)}")
            apart = place._replace(item_id="", output_index=None)
            self._beside[key] = self._imply(apart, self._skeleton(apart, kind))
        return self._beside[key], kind

    def _latest_open(self, kind: GrowingText) -> PartialItem | None:
        waiting = self._latest[kind]
        while waiting and waiting[-1].done:
            waiting.pop()
        return waiting[-1] if waiting else None

    def _is_pointless(self, place: EventTarget, part: ContentPart, kind: GrowingText) -> bool:
        """An empty part of an item that has no such parts."""
        growing = None if words_of(part) else self._find_known(place)
        if growing is None or kind_in(growing.item, kind) is not None:
            return False
        self._note_oddity(f"a part of an item of type {type_of(growing.item)}")
        return True

    def _find_known(self, place: EventTarget) -> PartialItem | None:
        at = None if place.output_index is None else self._at.get(place.output_index)
        named = self.by_id.get(place.item_id) or self._by_call.get(place.item_id)
        if named is None:
            if at is None or not place.item_id:
                return at
            if at.done:
                return None
            self._note_oddity(f"item {at.id} is also called {place.item_id}")
            self.by_id[place.item_id] = at
            return at
        if at is not None and at.id == place.item_id:
            return at
        if place.output_index not in (None, named.wire):
            self._note_oddity(f"item {named.id} is at output_index {named.wire}, not {place.output_index}")
        return named

    def _find_by_name(self, index: int | None, item: Item) -> PartialItem | None:
        at = None if index is None else self._at.get(index)
        if at is not None and item.id and at.id == item.id:
            return at
        named = self.by_id.get(item.id)
        if named is None and isinstance(item, FunctionCall | CustomToolCall):
            named = self._by_call.get(item.call_id)
        return named

    def _find_meant(self, index: int | None, item: Item) -> PartialItem | None:
        """Find the streamed item whose end this whole item is."""
        at = None if index is None else self._at.get(index)
        named = self._find_by_name(index, item)
        if named is None and at is not None and not at.done and type_of(at.item) == type_of(item):
            return at
        return named

    def _match_output(self, final: list[Item]) -> dict[int, PartialItem]:
        """Match the final output with the streamed items by their ids, their index or only their type."""
        found: dict[int, PartialItem] = {}
        free = dict(self.items)

        def match(n: int, growing: PartialItem | None) -> None:
            if growing is not None and n not in found and growing.index in free:
                found[n] = free.pop(growing.index)

        for n, item in enumerate(final):
            match(n, self._find_by_name(n, item))
        for n, item in enumerate(final):
            at = self._at.get(n)
            match(n, at if at is not None and type_of(at.item) == type_of(item) else None)
        alike: dict[str, list[PartialItem]] = {}
        for index in sorted(free, reverse=True):
            alike.setdefault(type_of(free[index].item), []).append(free[index])
        for n, item in enumerate(final):
            if n not in found and (same := alike.get(type_of(item))):
                match(n, same.pop())
        return found

    def _is_same(self, growing: PartialItem, item: Item) -> bool:
        """Is this the late announcement of an item, or the same one again?"""
        if type_of(growing.item) != type_of(item):
            return False
        return growing.implied or not item.id or self.by_id.get(item.id) is growing

    def _name_call(self, growing: PartialItem, place: EventTarget) -> None:
        """Some servers tell the name and the id of a call only in the events of its arguments."""
        call = growing.item
        if growing.implied and isinstance(call, FunctionCall | CustomToolCall):
            call_id = place.call_id if call.call_id == growing.id else ""
            growing.item = replace(call, call_id=call_id or call.call_id, name=call.name or place.name)
            self._remember(growing)

    # --- what was not announced ---------------------------------------------------------------------------

    def _skeleton(self, place: EventTarget, kind: GrowingText) -> Item:
        id = place.item_id or self._new_id(ids.prefix(str(kind.owner.__struct_config__.tag)))
        return skeleton(kind, id, place.call_id, place.name)

    def _imply(self, place: EventTarget, item: Item) -> PartialItem:
        self._note_oddity(f"an item of type {type_of(item)} was not announced")
        wire = self._next if place.output_index is None else place.output_index
        event = self._begin(place, as_announced(item), wire, implied=True)
        return self.items[event.output_index]

    def _begin(
        self, place: EventTarget, item: Item, wire: int, *, implied: bool = False
    ) -> ev.OutputItemAddedEvent:
        index = self._next if wire in self.items else wire
        id = item.id or self._new_id(ids.prefix(type_of(item)))
        growing = PartialItem(index, wire, id, with_item_id(item, id), implied=implied)
        self.items[index] = self._open[index] = self._at[wire] = growing
        self._next = max(self._next, index + 1)
        for kind in KINDS:
            if kind_in(growing.item, kind) is not None:
                self._latest[kind].append(growing)
        self._remember(growing)
        return self._emit(ev.OutputItemAddedEvent(place.sequence_number, index, as_announced(growing.item)))

    def _remember(self, growing: PartialItem, also: str = "") -> None:
        for name in filter(None, (growing.id, also)):
            self.by_id[name] = growing
        if isinstance(growing.item, FunctionCall | CustomToolCall):
            self._by_call[growing.item.call_id] = growing

    def _announce(
        self, place: EventTarget, growing: PartialItem, kind: GrowingText, number: int, part: Any
    ) -> ev.Event:
        """Announce a part, without its words, unless it is known already."""
        empty = part if kind.part is None else replace(part, **{kind.key: ""})
        event: ev.Event = kind.added(place.sequence_number, growing.id, growing.index, number, empty)
        if (kind.delta, number) not in growing.texts:
            growing.begin(kind, number, part)
            self.events.append(event)
        return event

    def _text(
        self, place: EventTarget, growing: PartialItem, kind: GrowingText, part: Any = None
    ) -> tuple[int, PartialText]:
        """The text that a closing event means, begun now if it was not."""
        number = growing.number(kind, place.part, last=True)
        if (kind.delta, number) not in growing.texts:
            if not kind.numbered:
                growing.begin(kind, number, None)
            else:
                self._announce(place, growing, kind, number, part if kind is CARRIED else kind.part(""))
        return number, growing.texts[kind.delta, number]

    def _begin_call(self, place: EventTarget, growing: PartialItem, text: PartialText) -> None:
        """A call announced with arguments: they are its beginning, unless they are all of it."""
        words = getattr(growing.item, text.kind.key, "") if not text.kind.numbered else ""
        if words and not is_json_object(words):
            self._grow(place, growing, text, 0, words)

    # --- words --------------------------------------------------------------------------------------------

    def _grow(
        self, place: EventTarget, growing: PartialItem, text: PartialText, number: int, words: str, *rest: Any
    ) -> ev.Event:
        text.chunks.append(words)
        return self._emit(text.kind.delta(*_where(place, growing, text.kind, number), words, *rest))

    def _settle(
        self, place: EventTarget, growing: PartialItem, text: PartialText, number: int, whole: str
    ) -> None:
        """The whole text is known: emit the rest that no delta had."""
        if not whole:
            return
        rest = text.settle(whole)
        if rest is None:
            self._note_oddity(f"the {text.kind.name} at its end is not what its deltas add up to")
        elif rest:
            if text.kind is not SUMMARY:  # a summary need not be streamed
                self._note_oddity(f"{text.kind.name} that no delta carried")
            self._emit(text.kind.delta(*_where(place, growing, text.kind, number), rest))

    def _complete(self, place: EventTarget, growing: PartialItem, item: Item, status: ItemStatus) -> ev.Event:
        for kind, number, words in growing.place_texts(item):
            if words:
                number, text = self._text(place._replace(part=number), growing, kind)
                self._settle(place, growing, text, number, words)
        growing.item = as_ended(with_item_id(self._restore_words(growing, item), growing.id), status)
        growing.done = True
        self._open.pop(growing.index, None)
        self._remember(growing, item.id)
        return self._emit(ev.OutputItemDoneEvent(place.sequence_number, growing.index, growing.item))

    def _restore_words(self, growing: PartialItem, item: Item) -> Item:
        """The item as the server sent it last, with the streamed text where it has none."""
        known = growing.build()
        if has_words(item) or not has_words(known):
            return item
        self._note_oddity(f"item {growing.id} ends without the words that were streamed")
        return with_words_of(known, item)

    def _emit(self, event: E) -> E:
        self.events.append(event)
        return event


def _where(place: EventTarget, growing: PartialItem, kind: GrowingText, number: int) -> tuple[Any, ...]:
    where = (place.sequence_number, growing.id, growing.index)
    return where if not kind.numbered else (*where, number)
