"""The Reader: builds a response from the events of any server, whatever it calls them and leaves out.

The Reader never raises on what a server sends: it reads what can be read, and lists the rest as oddities.
"""

import json as stdlib_json
import re
from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from antiphon.spec import events as ev
from antiphon.spec import ids
from antiphon.spec.aliases import Fields, snake_case, string
from antiphon.spec.codec import BRACE, NULL, Opaque, encode, first_byte
from antiphon.spec.content import ContentPart, OutputText
from antiphon.spec.decode import decode_event, decode_output_item
from antiphon.spec.errors import ErrorPayload, ResponseError, SpecError
from antiphon.spec.items import TERMINAL_STATUSES, ItemStatus
from antiphon.spec.limits import MAX_INTEGER
from antiphon.spec.response import Response
from antiphon.stream import aliases, lifecycle
from antiphon.stream.aliases import SurrogatePairs
from antiphon.stream.assembly import Assembly, EventTarget
from antiphon.stream.partial_items import (
    KIND_OF,
    SUMMARY,
    TEXT,
    GrowingText,
    PartialItem,
    PartialText,
    as_output,
    kind_of_part,
    texts_of,
)

_NOTHING: tuple[str, int, None, None] = ("", -1, None, None)
MAX_ODDITIES = 256
MAX_ODDITY = 300  # characters

# The event that ends a response of each status; the statuses of one that has not ended.
_ENDS: dict[str, type[ev.LifecycleEvent]] = {
    lifecycle.COMPLETED: ev.ResponseCompletedEvent,
    lifecycle.FAILED: ev.ResponseFailedEvent,
    lifecycle.INCOMPLETE: ev.ResponseIncompleteEvent,
}
_RUNNING = frozenset({lifecycle.QUEUED, lifecycle.IN_PROGRESS})

E = TypeVar("E", bound=ev.AnyEvent)


def _deltas() -> Iterator[tuple[type, GrowingText]]:
    """Every delta; under its other names too, so that these can go the short way."""
    for channel in lifecycle.CHANNELS:
        cls = ev.EVENTS[channel.delta]
        yield cls, KIND_OF[cls]
        for alias, name in aliases.TYPES.items():
            if name == channel.delta:
                yield msgspec.defstruct(cls.__name__, (), bases=(cls,), tag=alias), KIND_OF[cls]


_HOT: dict[type, GrowingText] = dict(_deltas())
_decode_hot: Callable[[bytes | str], Any] = msgspec.json.Decoder(reduce(or_, _HOT)).decode
_split = msgspec.json.Decoder(dict[str, Raw]).decode
# Half of a character, escaped or as it is: what msgspec does not read and the standard library does.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


_REQUIRED = frozenset(Response.__struct_encode_fields__) - {
    "conversation",
    "antiphon:receipts",
    "antiphon:receipt_count",
}


_NEVER_NULL = frozenset({"id", "model", "created_at"})


class Oddity(Struct, frozen=True):
    """Something that a server should not have sent: the position of the payload, from 0, and what it was."""

    position: int
    what: str


class Reader:
    """One response, read from its events.

    `feed` gives the event that a payload is, in the words of the specification. `events` has the same
    payload as a run in which items and parts that were not announced are announced before their words,
    and words that came without a delta have one. So `events` has every word exactly once, in a delta. Events
    have the specification's fields only; what else a server put beside them stays in items, parts, responses
    and vendor events, not in deltas.

    >>> reader = Reader()
    >>> event = reader.feed({"type": "response.output_text.done", "text": "Hi"})
    >>> [event.type for event in reader.events][-2:]
    ['response.output_text.delta', 'response.output_text.done']
    >>> reader.close().output[0].get_text()
    'Hi'
    """

    def __init__(self, *, new_id: Callable[[str], str] = ids.new_id) -> None:
        self.finished = False
        self.oddities: list[Oddity] = []
        self.events: list[ev.AnyEvent] = []
        self.error: ErrorPayload | None = None
        self._assembly = Assembly(self._note_oddity, new_id)
        self._base = Response(id=new_id(ids.RESPONSE), model="", created_at=0)
        self._latest: tuple[str, int, PartialItem | None, PartialText | None] = _NOTHING
        """The text that the last delta went to, so that the next one need not be looked up."""
        self._position = -1
        self._next_number: int | None = None
        self._halves = SurrogatePairs(self._note_oddity)
        self._reported: set[str] = set()

    @property
    def response(self) -> Response:
        """The response so far, as a value of its own."""
        output = list(self._base.output) if self.finished else self._assembly.output()
        return replace(self._base, output=output)

    def feed(
        self, payload: dict[str, Any] | bytes | str, event_name: str | None = None
    ) -> ev.AnyEvent | None:
        """Read one payload; `event_name` counts when it has no type. None when there is nothing in it."""
        self._position += 1
        if not self.finished and not self._halves.waiting:
            event = self._delta(payload)
            if event is not None:
                return event
        self.events = self._assembly.events = []
        try:
            return self._event(payload, event_name)
        except (SpecError, *aliases.BROKEN) as error:
            self._note_oddity(f"a payload that cannot be read: {error}")
            return None

    def feed_done(self) -> None:
        """`[DONE]` has come."""
        if not self.finished:
            self._note_oddity("[DONE] before a terminal event")

    def close(self, now: int | None = None) -> Response:
        """End the stream: a response that has not ended has failed."""
        self.events = self._assembly.events = []
        if not self.finished:
            self._note_oddity("the stream ended without a terminal event")
            closed = ErrorPayload(
                "server_error", "the stream ended before the response did", code="upstream_closed"
            )
            self._fail(self.error or closed, self._next_number or 0, now)
        return self.response

    # --- the short way ------------------------------------------------------------------------------------

    def _delta(self, payload: dict[str, Any] | bytes | str) -> ev.AnyEvent | None:
        """A delta of a text that is open, with nothing odd about it: nearly every event is one."""
        try:
            event = _decode_hot(encode(payload) if isinstance(payload, dict) else payload)
        except aliases.BROKEN:
            return None
        id, part, growing, text = self._latest
        if type(event) is ev.OutputTextDeltaEvent and event.item_id == id and event.content_index == part:
            kind = TEXT
        else:
            kind = _HOT[type(event)]
            growing = self._assembly.by_id.get(event.item_id)
            number = getattr(event, kind.numbered, 0)
            text = None if growing is None else growing.texts.get((kind.delta, number))
            if kind is TEXT:
                self._latest = event.item_id, number, growing, text
        if growing is None or growing.done or growing.index != event.output_index:
            return None
        if text is None or text.closed:
            self._latest = _NOTHING
            return None
        if event.sequence_number != self._next_number:
            if not 0 <= event.sequence_number <= MAX_INTEGER:
                return None
            self._check_number(event.sequence_number)
        self._next_number = event.sequence_number + 1
        if kind is TEXT:
            if event.logprobs:
                text.logprobs += event.logprobs
        elif type(event) is not kind.delta:
            event = kind.delta(*msgspec.structs.astuple(event))
        text.chunks.append(event.delta)
        self.events = [event]
        return self.events[0]

    # --- the long way -------------------------------------------------------------------------------------

    def _event(self, payload: dict[str, Any] | bytes | str, event_name: str | None) -> ev.AnyEvent | None:
        if not isinstance(payload, bytes | str):
            payload = _text(payload)
        data = aliases.data_of(payload if isinstance(payload, str) else payload.decode())
        if data == "[DONE]" or (event_name == "done" and not data.startswith("{")):
            self.feed_done()
        elif data:
            fields = self._split(data)
            return self._read_named(
                string(fields, "type") or event_name or aliases.implied_type(fields), fields
            )
        return None

    def _split(self, data: str) -> Fields:
        if not self._halves.waiting:
            try:
                return aliases.split(data)
            except aliases.BROKEN:
                if not _SURROGATE.search(data):
                    raise
        return aliases.split(self._halves.join_halves(data))

    def _read_named(self, name: str, fields: Fields) -> ev.AnyEvent | None:
        if not name:
            self._note_oddity("an event without a type")
            return None
        if name == "done":
            self.feed_done()
            return None
        if self.finished:
            if name not in aliases.KEEPALIVES:
                self._note_oddity(f"{name} after the end of the response")
            return None
        if name == aliases.CUSTOM_EVENT:
            return self._custom_event(fields)
        number = self._number(fields)
        if name in aliases.KEEPALIVES:
            return None
        if name in aliases.BY_STATUS:
            if name == "response":
                fields = {"response": Raw(encode(fields))}
            name = aliases.type_by_status(fields.get("response"))
        kind = aliases.event_type(name)
        fields["type"] = Raw(encode(kind))
        cls = ev.EVENTS.get(kind)
        if cls is None:
            other: ev.OtherEvent = self._decode(fields, number)
            return self._emit(other)
        if kind == lifecycle.ERROR:
            aliases.error(fields)
            event = self._decode(fields, number)
            return self._error(event, fields)
        if issubclass(cls, ev.LifecycleEvent):
            return self._lifecycle(name, cls, fields, number)
        return self._content(cls, fields, number)

    def _decode(self, fields: Fields, number: int) -> Any:
        """Decode a typed event, with defaults for what it lacks."""
        problems: list[str] = []
        event = decode_event(encode(fields), problems)
        for problem in problems:
            self._note_oddity(problem)
        event.sequence_number = number
        return event

    def _content(self, cls: type[ev.Event], fields: Fields, number: int) -> ev.Event | None:
        assembly = self._assembly
        kind = KIND_OF.get(cls)
        if kind is not None:
            if cls is kind.delta:
                aliases.words(fields, "delta", "text", kind.key)
            else:
                aliases.words(fields, kind.key, "text", "delta")
        event = self._decode(fields, number)
        place = EventTarget(
            number,
            string(fields, "item_id") or "",
            self._number_at(fields, "output_index"),
            self._number_at(fields, "summary_index", "content_index"),
            string(fields, "call_id") or "",
            string(fields, "name") or "",
        )
        match event:
            case ev.OutputItemAddedEvent(item=item):
                return assembly.item_added(place, item)
            case ev.OutputItemDoneEvent(item=item):
                return assembly.item_done(place, item)
            case ev.ContentPartAddedEvent(part=part):
                part = _as_text_part(part)
                return assembly.part_added(place, part, kind_of_part(part))
            case ev.ContentPartDoneEvent(part=part):
                part = _as_text_part(part)
                return assembly.part_done(place, part, kind_of_part(part))
            case ev.ReasoningSummaryPartAddedEvent(part=part):
                return assembly.part_added(place, _as_text_part(part), SUMMARY)
            case ev.ReasoningSummaryPartDoneEvent(part=part):
                return assembly.part_done(place, _as_text_part(part), SUMMARY)
            case ev.OutputTextAnnotationAddedEvent(annotation=annotation):
                return assembly.add_annotation(place, annotation, self._number_at(fields, "annotation_index"))
        assert kind is not None
        logprobs = getattr(event, "logprobs", None) or []
        if cls is kind.delta:
            return assembly.delta(place, kind, event.delta, logprobs)
        words = getattr(event, kind.key) or _words_in_item(fields, kind)
        return assembly.text_done(place, kind, words, logprobs)

    def _custom_event(self, fields: Fields) -> ev.AnyEvent:
        """A vendor's event in a wrapper, which may count in a series of its own."""
        stated = self._number_at(fields, "sequence_number")
        number = (self._next_number or 0) if stated is None else stated
        if number == self._next_number:
            self._next_number = number + 1
        event: ev.OtherEvent = self._decode(fields, number)
        name, data = event.fields.pop("event_type", None), event.fields.get("data")
        if isinstance(name, str):
            event = ev.OtherEvent(
                aliases.vendor_type(name), number, data if isinstance(data, dict) else event.fields
            )
        return self._emit(event)

    def _error(self, event: ev.ErrorEvent, fields: Fields) -> ev.ErrorEvent:
        self.error = event.error
        self._emit(event)
        if aliases.number(fields, "status") is not None:
            # Over a WebSocket, an error with a status is all that comes of the turn.
            self._fail(event.error, event.sequence_number)
        return event

    # --- the response itself ------------------------------------------------------------------------------

    def _lifecycle(self, name: str, cls: type[ev.LifecycleEvent], fields: Fields, number: int) -> ev.Event:
        given: Fields = {}
        if "response" in fields and first_byte(fields["response"]) == BRACE:
            given = _split(fields["response"])
            snake_case(given, Response.__struct_encode_fields__)
        fields["response"] = Raw(encode(given))
        response = self._merge_previous(self._decode(fields, number).response, given)
        due = _due_status(name, cls)
        if given.get("status", NULL) == NULL:
            response.status = due
        self._settle_status(response, cls, due)
        if cls.is_terminal:
            return self._end(cls, response, fields, number)
        event = self._emit(cls(number, response))
        for n, item in enumerate(response.output):
            if n not in self._assembly.items:
                ended = getattr(item, "status", None) in TERMINAL_STATUSES
                tell = self._assembly.item_done if ended else self._assembly.item_added
                tell(EventTarget(number, output_index=n), item)
        self._base = replace(response, output=[])
        return event

    def _merge_previous(self, response: Response, given: Fields) -> Response:
        """Take from the response so far what this event leaves out."""
        if not given.keys() >= _REQUIRED:
            self._note_oddity("a response without all of its keys")
        for field, name in zip(Response.__struct_fields__, Response.__struct_encode_fields__, strict=True):
            if given.get(name, NULL) == NULL and (name not in given or field in _NEVER_NULL):
                setattr(response, field, getattr(self._base, field))
        return response

    def _end(self, cls: type[ev.LifecycleEvent], response: Response, fields: Fields, number: int) -> ev.Event:
        if response.status == lifecycle.FAILED and response.error is None:
            response.error = self._reason(fields)
        status: ItemStatus = "completed" if response.status == lifecycle.COMPLETED else "incomplete"
        response.output = self._assembly.finish(number, response.output, status)
        self._base = response
        self.finished = True
        return self._emit(_ENDS.get(response.status, cls)(number, response))

    def _settle_status(self, response: Response, cls: type[ev.LifecycleEvent], due: str) -> None:
        """Settle the status: the event decides whether the response has ended, its status decides how."""
        status = response.status
        if status in (_RUNNING if cls.is_terminal else lifecycle.TERMINAL_STATUSES):
            response.status = due
        elif not cls.is_terminal or _ENDS.get(status, cls) is cls:
            return
        self._note_oddity(f"status {status} in an event that means {due}")

    def _reason(self, fields: Fields) -> ResponseError:
        """Why a response failed, when it does not say so itself."""
        error = self.error
        if fields.get("error", NULL) != NULL:
            aliases.error(fields)
            wrapped = {"type": Raw(b'"error"'), "error": fields["error"]}
            error = self._decode(wrapped, 0).error
        if error is None:
            self._note_oddity("a failed response without an error")
            error = ErrorPayload("server_error", "the server gave no reason")
        return ResponseError(error.code or error.type, error.message)

    def _fail(self, error: ErrorPayload, number: int, now: int | None = None) -> None:
        self._assembly.close(number, "incomplete")
        self._base = replace(
            self._base,
            status=lifecycle.FAILED,
            error=ResponseError(error.code or error.type, error.message),
            completed_at=now,
            output=self._assembly.output(),
        )
        self.finished = True
        self._emit(ev.ResponseFailedEvent(number, self.response))

    # --- bookkeeping --------------------------------------------------------------------------------------

    def _emit(self, event: E) -> E:
        self.events.append(event)
        return event

    def _number(self, fields: Fields) -> int:
        number = self._number_at(fields, "sequence_number")
        if number is None:
            if fields.get("sequence_number", NULL) == NULL:
                self._note_oddity("no sequence_number")
            number = self._next_number or 0
        elif number != self._next_number:
            self._check_number(number)
        self._next_number = number + 1
        return number

    def _number_at(self, fields: Fields, *names: str) -> int | None:
        number = aliases.number(fields, *names)
        if number is None:
            for name in names:
                if fields.get(name, NULL) != NULL:
                    self._note_oddity(f"{name} is not a number that can be used")
        return number

    def _check_number(self, number: int) -> None:
        if self._next_number is not None:
            self._note_oddity(f"sequence_number {number} where {self._next_number} was due")

    def _note_oddity(self, what: str) -> None:
        """Record an oddity, each once and up to a limit: a broken server breaks every event."""
        if len(what) > MAX_ODDITY:
            what = f"{what[: MAX_ODDITY - 1]}…"
        if what in self._reported or len(self._reported) > MAX_ODDITIES:
            return
        if len(self._reported) == MAX_ODDITIES:
            what = "more oddities, which are not listed"
        self._reported.add(what)
        self.oddities.append(Oddity(max(self._position, 0), what))


def _text(payload: dict[str, Any]) -> bytes | str:
    try:
        return encode(payload)
    except UnicodeError:
        return stdlib_json.dumps(payload)


def _due_status(name: str, cls: type[ev.LifecycleEvent]) -> str:
    """The status that a response has in this event."""
    if "cancel" in name:
        return lifecycle.CANCELLED
    kind = str(cls.__struct_config__.tag).removeprefix("response.")
    return lifecycle.IN_PROGRESS if cls is ev.ResponseCreatedEvent else kind


def _as_text_part(part: ContentPart) -> ContentPart:
    """Take a part without a type for text."""
    if not isinstance(part, Opaque) or part.type:
        return part
    text = part.fields.get("text")
    return OutputText(text if isinstance(text, str) else "")


def _words_in_item(fields: Fields, kind: GrowingText) -> str:
    """Some servers end a text with the whole item instead of the text."""
    if first_byte(fields.get("item", NULL)) != BRACE:
        return ""
    item = as_output(decode_output_item(fields["item"]))
    return "".join(words for own, _, words in texts_of(item) if own is kind)
