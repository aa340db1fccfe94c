"""What servers write in another way than the specification: names of events and fields, and split characters.

The Reader accepts it; nothing here is ever written.
"""

import json as stdlib_json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw, json

from antiphon.spec.aliases import Fields, snake_case, string
from antiphon.spec.codec import NULL, QUOTE, UNREADABLE, encode, first_byte
from antiphon.spec.errors import ERROR_TYPE_ALIASES, STATUS
from antiphon.spec.events import EVENTS
from antiphon.spec.limits import MAX_INTEGER
from antiphon.stream import lifecycle

# Whatever reading or writing JSON raises.
BROKEN = (*UNREADABLE, TypeError, ValueError)
_MAX_DIGITS = len(str(MAX_INTEGER))

CUSTOM_EVENT = "response.custom_event"
# A whole response where an event is due, and one `done` for every end: their status says what they are.
BY_STATUS = frozenset({"response", "response.done"})
# Events that only keep a connection open.
KEEPALIVES = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "response.")
    for name in ("keepalive", "keep_alive", "keep-alive", "heartbeat", "ping")
)

TYPES: Mapping[str, str] = {
    "response.reasoning_text.delta": lifecycle.REASONING_DELTA,
    "response.reasoning_text.done": lifecycle.REASONING_DONE,
    "response.reasoning_content.delta": lifecycle.REASONING_DELTA,
    "response.reasoning_content.done": lifecycle.REASONING_DONE,
    "response.reasoning_summary.delta": lifecycle.SUMMARY_DELTA,
    "response.reasoning_summary.done": lifecycle.SUMMARY_DONE,
    "response.output_text_annotation.added": lifecycle.ANNOTATION_ADDED,
    "response.cancelled": lifecycle.RESPONSE_INCOMPLETE,
    "response.canceled": lifecycle.RESPONSE_INCOMPLETE,
    "response.error": lifecycle.ERROR,
}

_BY_STATUS: Mapping[str | None, str] = {
    "queued": lifecycle.RESPONSE_QUEUED,
    "in_progress": lifecycle.RESPONSE_IN_PROGRESS,
    "failed": lifecycle.RESPONSE_FAILED,
    "incomplete": lifecycle.RESPONSE_INCOMPLETE,
    "cancelled": lifecycle.RESPONSE_INCOMPLETE,
}

_KNOWN = frozenset(
    {name for event in EVENTS.values() for name in event.__struct_encode_fields__}
    | {"type", "call_id", "name", "event_type", "status", "code", "message", "param"}
)
# Fields of an SSE line that carry no data.
_BARE = (":", "event:", "id:", "retry:")

_split = json.Decoder(dict[str, Raw]).decode


def data_of(line: str) -> str:
    """The data of a line that still has its SSE field name; nothing, of a line without data."""
    line = line.strip()
    return "" if line.startswith(_BARE) else line.removeprefix("data:").lstrip()


def split(payload: bytes | str) -> Fields:
    """The fields of an event, under the names of the specification."""
    fields = _split(payload)
    snake_case(fields, _KNOWN)
    if "sequence" in fields:
        fields.setdefault("sequence_number", fields.pop("sequence"))
    return fields


def event_type(name: str) -> str:
    """The specification's name of an event; a name that is not one of its aliases stays."""
    full = name if name == lifecycle.ERROR or name.startswith("response.") else f"response.{name}"
    if full in EVENTS:
        return full
    return TYPES.get(full, name)


def type_by_status(response: Raw | None) -> str:
    fields = _split(response) if response is not None else {}
    return _BY_STATUS.get(string(fields, "status"), lifecycle.RESPONSE_COMPLETED)


def implied_type(fields: Fields) -> str:
    """What an event without a type must be, if anything."""
    if string(fields, "object") == "response":
        return "response"
    return lifecycle.ERROR if fields.get("error", NULL) != NULL else ""


def vendor_type(name: str) -> str:
    """`vtcode.trace` is `vtcode:trace`."""
    return name if ":" in name else name.replace(".", ":", 1)


def number(fields: Fields, *names: str) -> int | None:
    """The first of these fields that is a whole number of a sane size, or spells one."""
    for name in names:
        raw = bytes(fields.get(name, NULL))
        value: Any = json.decode(raw) if len(raw) <= _MAX_DIGITS + 2 else None
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and 0 <= value <= MAX_INTEGER and value == int(value):
            return int(value)
    return None


def words(fields: Fields, *names: str) -> None:
    """The text of an event, under the first of these names, as a string."""
    found = next((fields[name] for name in names if fields.get(name, NULL) != NULL), None)
    if found is None:
        return
    if first_byte(found) != QUOTE:
        value: Any = json.decode(found)
        inner = value.get("text") if isinstance(value, dict) and names[0] == "delta" else None
        found = Raw(encode(inner if isinstance(inner, str) else bytes(found).decode()))
    fields[names[0]] = found


def error(fields: Fields) -> None:
    """An error in the event itself, or only a sentence, becomes an object; its type is ours."""
    raw = fields.get("error", NULL)
    inner: Fields
    if raw == NULL:
        inner = {name: fields[name] for name in ("code", "message", "param") if name in fields}
    elif first_byte(raw) == QUOTE:
        inner = {"message": raw}
    else:
        inner = _split(raw)
    if inner.get("code", NULL) != NULL and first_byte(inner["code"]) != QUOTE:
        inner["code"] = Raw(encode(bytes(inner["code"]).decode()))
    kind = string(inner, "type") or string(inner, "code") or ""
    kind = ERROR_TYPE_ALIASES.get(kind, kind)
    if "type" not in inner:
        inner["type"] = Raw(encode(kind if kind in STATUS else "server_error"))
    if not string(inner, "message"):
        inner["message"] = Raw(b'"the server gave no reason"')
    fields["error"] = Raw(encode(inner))


# What says which text a delta belongs to.
_PLACE = ("type", "item_id", "output_index", "content_index", "summary_index")
_UTF16 = "utf-16-le"
_LOST = "\ufffd"


class SurrogatePairs:
    """Joins UTF-16 surrogate pairs that a server has split over two deltas.

    JSON allows that, but no strict parser reads it, so such payloads take the way through here.
    """

    def __init__(self, odd: Callable[[str], None]) -> None:
        self.waiting = ""
        self._place: tuple[Any, ...] = ()
        self._note_oddity = odd

    def join_halves(self, data: str) -> str:
        """Return the payload with whole characters; a half that stays alone becomes U+FFFD."""
        event = stdlib_json.loads(data)
        if isinstance(event, dict):
            self._join(event)
        text = stdlib_json.dumps(event, ensure_ascii=False)
        whole = text.encode(_UTF16, "surrogatepass").decode(_UTF16, "replace")
        if whole.count(_LOST) > text.count(_LOST):
            self._note_oddity("half of a character, without its other half")
        return whole

    def _join(self, event: dict[str, Any]) -> None:
        delta = event.get("delta")
        if not isinstance(delta, str):
            self.waiting = ""  # the text is over, or an event will have all of it
            return
        place = tuple(event.get(name) for name in _PLACE)
        if self.waiting and place == self._place:
            delta, self.waiting = self.waiting + delta, ""
        if "\ud800" <= delta[-1:] <= "\udbff":
            self._note_oddity("a delta that ends in the middle of a character")
            self.waiting, self._place = delta[-1], place
            delta = delta[:-1]
        event["delta"] = delta
