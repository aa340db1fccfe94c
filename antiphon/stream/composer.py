"""The Composer: turns deltas into numbered events, and builds the response.

This machine alone makes ids, indexes and sequence numbers. It keeps three promises: items close in the
order in which they opened, there is exactly one terminal event, and nothing follows it.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, field

from antiphon.spec import events as ev
from antiphon.spec import ids
from antiphon.spec.content import OutputText
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.items import Phase, type_of
from antiphon.spec.response import IncompleteDetails, Receipt, Response
from antiphon.stream import deltas as d
from antiphon.stream import lifecycle
from antiphon.stream.answer_limit import CALL_SIZE, MOST_ITEMS, AnswerRoom, beginning_of, length_of, size_of
from antiphon.stream.client_calls import CALL_TYPES
from antiphon.stream.deltas import AnyDelta, Failure, Finish, TextDelta, UsageDelta
from antiphon.stream.open_items import (
    Emit,
    EventBuffer,
    KeyedItems,
    OpenCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    OpenWhole,
    UnnamedCall,
    close_cut,
    emit_nothing,
    is_another,
    is_over,
    presentable,
    with_id,
)
from antiphon.stream.resume_state import SentEvents

_TRIGGERS = {event: name for name, event in ev.EVENTS.items() if issubclass(event, ev.LifecycleEvent)}
_text_event = ev.OutputTextDeltaEvent


class Composer(Struct, eq=False, weakref=True):
    """One response, from its first event to its last.

    `response` is the response at its start, with everything that it echoes of the request. `shows` says
    under which type an item goes out, or None for one that this client must not see; it is asked before
    an index is given, so that what is hidden leaves no hole. `seal` makes a proof of reasoning unreadable.
    """

    response: Response
    clock: Callable[[], float]
    new_id: Callable[[str], str] = ids.new_id
    shows: Callable[[str], str | None] = str
    first_sequence_number: int = 0
    error_event: bool = True
    seal: Callable[[str], str] = str
    hidden: Callable[[str], None] | None = None
    """Called with the type of an item that this client does not see."""
    muted: bool = False
    """Only the response is wanted: the Composer emits no events."""
    receipts: Sequence[Receipt] = ()
    """Counted in the terminal response, for a reader that takes fields beyond the specification."""
    keeps_chunks: bool = False
    """An empty text becomes a delta of the open text, for a reader that counts the upstream's chunks."""
    room: AnswerRoom = field(default_factory=AnswerRoom)
    """How much may still be said."""
    limited: Callable[[], None] | None = None
    """Called when the answer has reached its limit, before the event of its end."""

    state: str = lifecycle.ABSENT
    finished: bool = False
    is_too_long: bool = False
    error: ErrorPayload | None = None
    ending: Finish | None = None
    """How the provider put the end of its answer."""
    _buffer: EventBuffer | None = None  # once an event is emitted
    _items: list[OpenItem] = []
    _closed: int = 0  # how many of them are done, counted from the front
    _current: OpenMessage | OpenReasoning | None = None
    _sealed: bool = False  # the current item is over unless a cut says that it never got there
    _phase: Phase | None = None
    _keyed: KeyedItems | None = None  # once a delta has a key
    _text: OpenMessage | None = None  # the message whose text part is open: the hot path

    __repr__ = object.__repr__  # which shows no prompt

    def start(self, *, queued: bool = False) -> list[ev.AnyEvent]:
        """`response.created`, then `queued` if it has to wait, else `in_progress`."""
        if self.state == lifecycle.ABSENT:
            status = lifecycle.QUEUED if queued else lifecycle.IN_PROGRESS
            self._lifecycle(ev.ResponseCreatedEvent, status)
            self._lifecycle(ev.ResponseQueuedEvent if queued else ev.ResponseInProgressEvent, status)
        elif self.state in (lifecycle.CREATED, lifecycle.QUEUED) and not queued:
            self._lifecycle(ev.ResponseInProgressEvent, lifecycle.IN_PROGRESS)
        return self._event_buffer().take()

    def feed(self, deltas: Sequence[AnyDelta]) -> list[ev.AnyEvent]:
        """The events of a batch of deltas; the last one is terminal once `finished`.

        Nearly every delta of every stream is text for the open part. That is handled in place where it comes
        alone, and in one step where many come together.
        """
        message, room = self._text, self.room
        if message is not None and len(deltas) == 1 and type(delta := deltas[0]) is TextDelta:
            text = delta.text
            left = room.bytes - (len(text) if text.isascii() else length_of(text))
            if text and left >= 0 and room.deltas and delta.logprobs is None:
                room.bytes = left
                room.deltas -= 1
                message.chunks.append(text)
                buffer = self._buffer or self._event_buffer()
                number = buffer.number
                buffer.number = number + 1
                index, part = message.index, message.part_index
                return [] if self.muted else [_text_event(number, message.id, index, part, text)]
        buffer = self._buffer or self._event_buffer()
        if message is None and self.state != lifecycle.IN_PROGRESS and not self.finished:
            buffer.events = self.start()
        room.take_deltas(len(deltas))
        if len(deltas) > 1:
            deltas = self._add_texts(deltas, buffer)
        for delta in deltas:
            if not self.finished:
                self._apply(delta)
        events = buffer.take()
        return [] if self.muted else events

    def _add_texts(self, deltas: Sequence[AnyDelta], buffer: EventBuffer) -> Sequence[AnyDelta]:
        """Add the plain text that a batch begins with in one step; returns the deltas that are left.

        Where a read of the upstream brings many tokens, a step for each would take most of the time.
        """
        if self._text is None and not self.finished and type(deltas[0]) is TextDelta:
            self._apply(deltas[0])
            deltas = deltas[1:]
        message, texts = self._text, d.first_texts(deltas)
        size = length_of("".join(texts))
        if message is None or size > self.room.bytes:
            return deltas
        self.room.bytes -= size
        message.texts(texts, buffer)
        return deltas[len(texts) :]

    def fail(self, error: ErrorPayload) -> list[ev.AnyEvent]:
        return self.feed((Failure(error),))

    def cancel(self) -> list[ev.AnyEvent]:
        return self.feed((Finish("cancelled"),))

    def overrule(self, error: ErrorPayload) -> list[ev.AnyEvent]:
        """Fail after all, in place of a terminal event that has not been sent yet."""
        if not self.finished:
            return self.fail(error)
        buffer = self._event_buffer()
        buffer.number -= 1
        self.state = lifecycle.step(lifecycle.UNSENT, self.state, lifecycle.WITHDRAWN)
        self.finished, self.response.incomplete_details = False, None
        self._fail(error)
        return buffer.take()

    def resume(self, sent: SentEvents) -> None:
        """Go on after events that were sent before, by this process or another."""
        buffer = self._buffer = EventBuffer(sent.next_number)
        self.state, self.error = sent.state, sent.error
        self._items, self._closed = sent.items, sent.closed
        for item in self._items[self._closed :]:
            item.emit = emit_nothing if self.muted else sent.only_new(buffer.emit)

    def go_on(self, sent: SentEvents) -> list[ev.AnyEvent]:
        """After `resume`: end what is whole, and go on with open words, and with open items by id."""
        sent.end_what_is_whole()
        self._close_ended()
        still_open = self._items[self._closed :]
        self._keys().whole |= {item.id: item for item in still_open if isinstance(item, OpenWhole)}
        if len(still_open) == 1 and isinstance(last := still_open[0], OpenMessage):
            self._current, self._text = last, last if last.part is OutputText else None
        return self._event_buffer().take()

    def snapshot(self) -> Response:
        """The response as it stands now, as a value of its own."""
        output = [item.final or item.snapshot("in_progress") for item in self._items]
        return msgspec.structs.replace(self.response, output=output)

    def item_id(self, key: d.Key) -> str:
        """The id of the item that is open under this key; empty for one that the client does not see."""
        return "" if (opened := self._keys().whole.get(key)) is None else opened.id

    def open_call(self, key: d.Key) -> OpenCall | None:
        """The call that is open under this key, once its name is known."""
        call = self._keyed.calls.get(key) if self._keyed is not None else None
        return call if isinstance(call, OpenCall) else None

    # --- what was said ------------------------------------------------------------------------------------

    def _apply(self, delta: AnyDelta) -> None:
        room = self.room
        room.bytes -= (size := size_of(delta))
        # What every answer has is looked for first, by its class, which is quicker than a pattern.
        if size and (room.bytes < 0 or len(self._items) > MOST_ITEMS):
            self._end_at_limit(delta, room.bytes + size)
        elif type(delta) is TextDelta:
            self._words_of_message(delta)
        elif type(delta) is UsageDelta:
            self.response.usage = delta.usage.balanced()
        elif type(delta) is Finish:
            self.ending = delta
            self._finish(delta.reason)
        else:
            self._say_more(delta)
        current = self._current
        self._text = current if type(current) is OpenMessage and current.part is OutputText else None

    def _end_at_limit(self, delta: AnyDelta, room: int) -> None:
        """End the answer here: of a text there is as much as there is room for, of anything else nothing."""
        if type(delta) is TextDelta and (text := beginning_of(delta.text, room)):
            self._message().text(text)
        self.is_too_long = True
        if self.limited is not None:
            self.limited()
        self._apply(Finish("length"))

    def _say_more(self, delta: AnyDelta) -> None:
        match delta:
            case d.ReasoningDelta(text):
                if text and self._visible("reasoning"):
                    self._reasoning().text(text)
            case d.CallDelta():
                self._call(delta)
            case d.SummaryDelta(text, part):
                if text and self._visible("reasoning"):
                    self._reasoning().summarise(text, part)
            case d.RefusalDelta(text):
                if text:
                    self._message().refusal(text)
            case d.AnnotationDelta(annotation):
                self._message().annotate(annotation)
            case d.SignatureDelta(encrypted_content):
                self._signature(encrypted_content)
            case d.WordsStart():
                self._start_words(delta)
            case d.Words(key, text):
                if text and (words := (self._keyed or self._keys()).words.get(key)) is not None:
                    words.text(text)
            case d.PartEnd(key):
                if (ending := self._current if key is None else self._keys().words.get(key)) is not None:
                    ending.end_part()
            case d.ItemEnd(key, status):
                self._item_end(key, status)
            case d.MessageStart(phase):
                self._leave()
                self._phase = phase
            case d.ItemDelta(item, key):
                self._whole_item(item, key)
            case d.VendorDelta():
                self._vendor_event(delta)
            case Failure(error):
                self._fail(error)

    def _words_of_message(self, delta: TextDelta) -> None:
        if delta.text or (self.keeps_chunks and self._text is not None and delta.logprobs is None):
            self._message().text(delta.text, delta.logprobs)
        elif delta.logprobs and self._text is not None:
            self._text.held += delta.logprobs

    def _message(self) -> OpenMessage:
        current = self._current
        if type(current) is OpenMessage and not self._sealed:
            return current
        self._leave()
        new_id = self.new_id(ids.MESSAGE)
        message = self._current = OpenMessage(self._emit, new_id, len(self._items), self._phase)
        self._phase = None
        self._open(message)
        return message

    def _reasoning(self) -> OpenReasoning:
        if isinstance(self._current, OpenReasoning) and not self._sealed:
            return self._current
        self._leave()
        new_id = self.new_id(ids.REASONING)
        reasoning = self._current = OpenReasoning(self._emit, new_id, len(self._items))
        self._open(reasoning)
        return reasoning

    def _start_words(self, delta: d.WordsStart) -> None:
        if not self._visible(delta.kind):
            return
        self._leave()
        self._item_end(delta.key, None)
        place = self._emit, self.new_id(ids.prefix(delta.kind)), len(self._items)
        is_message = delta.kind == "message"
        words = OpenMessage(*place, delta.phase) if is_message else OpenReasoning(*place)
        self._open(words)
        words.begin()
        self._keys().words[delta.key] = words

    def _signature(self, encrypted_content: str) -> None:
        if not encrypted_content or not self._visible("reasoning"):
            return
        current = self._current
        if not isinstance(current, OpenReasoning) or current.encrypted_content is not None:
            self._leave()
            current = self._reasoning()
        current.encrypted_content = self.seal(encrypted_content)

    def _call(self, delta: d.CallDelta) -> None:
        keyed = self._keyed or self._keys()
        call = keyed.calls.get(delta.key)
        if call is None or is_another(call, delta):
            kind = CALL_TYPES[delta.kind]
            if hidden := not self._visible(kind):
                self._hide(kind)
            call = keyed.calls[delta.key] = UnnamedCall(delta.kind, hidden)
            self.room.bytes -= CALL_SIZE
        if isinstance(call, OpenCall):
            if delta.arguments and not call.over:
                call.arguments(delta.arguments)
                keyed.touched[call] = None
            return
        call.call_id = call.call_id or delta.call_id
        call.namespace = call.namespace or delta.namespace
        call.arguments.append(delta.arguments)
        if delta.name and not call.hidden:
            self._announce_call(delta.key, call, delta.name, keyed)

    def _announce_call(self, key: d.Key, call: UnnamedCall, name: str, keyed: KeyedItems) -> None:
        self._leave()
        id = self.new_id(ids.prefix(CALL_TYPES[call.kind]))
        call_id = keyed.call_id(call.call_id, self.new_id)
        opened = call.open(self._emit, id, len(self._items), call_id, name)
        self._open(opened)
        keyed.calls[key] = opened
        if arguments := "".join(call.arguments):
            opened.arguments(arguments)
            keyed.touched[opened] = None

    def _item_end(self, key: d.Key | None, status: str | None) -> None:
        if key is None:
            if self._current is not None:
                self._current.end_part()
                self._sealed = True
                if status == "completed":
                    self._leave()
        elif (keyed := self._keyed) is None:
            return
        elif (words := keyed.words.pop(key, None)) is not None:
            words.over = True
            self._close_ended()
        elif isinstance(call := keyed.calls.get(key), OpenCall):
            call.sealed = True
            keyed.touched[call] = None
            call.over = call.over or status == "completed" or call.is_whole()
            self._close_ended()

    def _whole_item(self, item: d.WholeItem, key: d.Key | None) -> None:
        shown = self.shows(type_of(item))
        if shown is None:
            self._hide(type_of(item))
            return
        item = presentable(item, shown)
        keyed = self._keys()
        opened = keyed.whole.get(key) if key is not None else None
        if opened is None or opened.over or type_of(opened.item) != type_of(item):
            self._leave()
            opened = OpenWhole(self._emit, len(self._items), keyed.with_unique_id(item, self.new_id))
            self._open(opened)
            if key is not None:
                keyed.whole[key] = opened
        else:
            opened.item = with_id(item, opened.id)
        if is_over(opened.item):
            opened.over = True
            self._close_ended()

    def _vendor_event(self, delta: d.VendorDelta) -> None:
        shown = self.shows(delta.type)
        opened = self._keys().whole.get(delta.key) if delta.key is not None else None
        if shown is None and delta.key is None:
            self._hide(delta.type)
        if shown and (delta.key is None or opened is not None) and ev.may_be_vendor_event(shown):
            place = {"item_id": opened.id, "output_index": opened.index} if opened else {}
            self._emit(lambda number: ev.OtherEvent(shown, number, {**delta.fields, **place}))

    # --- opening and closing ------------------------------------------------------------------------------

    def _open(self, item: OpenItem) -> None:
        self._items.append(item)
        if self._keyed is not None:
            self._keyed.used_ids.add(item.id)
        item.announce()

    def _keys(self) -> KeyedItems:
        """The items that deltas address by key; created when the first such delta comes."""
        if self._keyed is None:
            self._keyed = KeyedItems({item.id for item in self._items})
        return self._keyed

    def _leave(self) -> None:
        """Something else begins: the words before it are complete, and so are calls known to be over."""
        if self._current is not None:
            self._current.over = True
            self._current = None
        self._sealed = False
        if self._keyed is not None and self._keyed.touched:
            for call in self._keyed.touched:
                call.over = call.over or call.sealed or call.is_whole()
            self._keyed.touched.clear()
        if self._closed < len(self._items):
            self._close_ended()

    def _close_ended(self) -> None:
        """Close in order: an item behind an open one waits, lest that one ends incomplete before it."""
        for item in self._items[self._closed :]:
            if not item.over:
                return
            item.close("completed")
            self._closed += 1

    def _finish(self, reason: str) -> None:
        if reason in d.CUTS:
            self._cut()
        else:
            if (keyed := self._keyed) is not None:
                for key, call in list(keyed.calls.items()):
                    if isinstance(call, UnnamedCall) and not call.hidden:
                        self._announce_call(key, call, "unknown", keyed)
            self._leave()
            if self._closed < len(self._items):
                for item in self._items:
                    item.over = True
                self._close_ended()
        if reason in d.INCOMPLETE:
            self.response.incomplete_details = IncompleteDetails(d.INCOMPLETE[reason])
            self._end(ev.ResponseIncompleteEvent, lifecycle.INCOMPLETE)
        else:
            self._end(ev.ResponseCompletedEvent, lifecycle.COMPLETED)

    def _fail(self, error: ErrorPayload) -> None:
        self._cut()
        self.error = error
        if self.error_event and self.state != lifecycle.FAILING:
            self.state = lifecycle.step(lifecycle.RESPONSE, self.state, lifecycle.ERROR)
            self._emit(ev.ErrorEvent, error)
        self.response.error = ResponseError(error.code or error.type, error.message)
        self._end(ev.ResponseFailedEvent, lifecycle.FAILED)

    def _cut(self) -> None:
        """End in the middle."""
        self._current = None
        close_cut(self._items[self._closed :])
        self._closed = len(self._items)

    def _end(self, event: type[ev.LifecycleEvent], status: str) -> None:
        self.response.completed_at = int(self.clock())
        if self._items:
            self.response.output = [item.final for item in self._items if item.final is not None]
        self._lifecycle(event, status)

    # --- emitting -----------------------------------------------------------------------------------------

    def _lifecycle(self, event: type[ev.LifecycleEvent], status: str) -> None:
        self.state = lifecycle.advance(self.response, self.state, _TRIGGERS[event], status)
        if event.is_terminal:
            self.finished = True
            if self.receipts:
                self.response.receipt_count = len(self.receipts)
        if self.muted:
            return
        self._emit(event, lifecycle.copy_of(self.response))

    def _event_buffer(self) -> EventBuffer:
        """Start to emit events; a response that is wanted whole never does."""
        if self._buffer is None:
            self._buffer = EventBuffer(self.first_sequence_number)
        return self._buffer

    @property
    def _emit(self) -> Emit:
        """What emits here, and in a new item."""
        return emit_nothing if self.muted else self._event_buffer().emit

    def _hide(self, item_type: str) -> None:
        if self.hidden is not None:
            self.hidden(item_type)

    def _visible(self, item_type: str) -> bool:
        """May the client see an item under this very type? One of deltas cannot go out under another."""
        return self.shows(item_type) == item_type
