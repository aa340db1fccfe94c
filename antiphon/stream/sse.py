"""Server-sent events: one event becomes one chunk of bytes, any split of bytes becomes events again."""

from functools import lru_cache

from msgspec import Struct

DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keepalive\n\n"
DEFAULT_MAX_EVENT_BYTES = 32 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"


class EventTooLarge(ValueError):
    """An event grew past `max_event_bytes`; the decoder has dropped it and must not be fed again."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a server-sent event is larger than {limit} bytes; "
            "the other side may not be sending blank lines between events, or max_event_bytes is too small"
        )
        self.limit = limit


class SSEEvent(Struct, frozen=True, gc=False):
    """One event as it stood in the stream; `event` is None when there was no event line."""

    event: str | None
    data: str

    @property
    def is_done(self) -> bool:
        return self.data.strip() == "[DONE]"


@lru_cache(maxsize=512)
def _head(event_type: str) -> bytes:
    if not event_type or "\n" in event_type or "\r" in event_type:
        raise ValueError(f"an event type is one line of text, not {event_type!r}")
    return f"event: {event_type}\ndata: ".encode()


def encode(event_type: str, data: bytes) -> bytes:
    """One event as one contiguous chunk; `data` is a single line, as JSON encoders make it."""
    if _LF in data or _CR in data:
        raise ValueError("event data holds a line break; encode it as JSON on one line")
    return b"".join((_head(event_type), data, b"\n\n"))


def comment(text: str) -> bytes:
    """Bytes that every reader ignores, to keep a quiet connection open."""
    return b"".join(b": %b\n" % line.encode() for line in text.splitlines() or [""]) + b"\n"


class Decoder:
    """Bytes in, events out, however the bytes were cut. One decoder reads one stream.

    No line, and no data of one event, may be longer than `max_event_bytes`.
    """

    def __init__(self, max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._bom: bytes | None = b""
        self._after_cr = False
        self._line = bytearray()
        self._event: str | None = None
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[SSEEvent]:
        """The events that these bytes complete."""
        if self._bom is not None:
            data = self._without_bom(data)
        if self._after_cr or _CR in data:
            data = self._with_lf(data)
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._line:
            # A long line in small pieces grows here, so that no byte is looked at twice.
            self._line += lines[0] if lines else rest
            self._check(len(self._line))
            if not lines:
                return []
            lines[0] = bytes(self._line)
            self._line.clear()
        if rest:
            self._line += rest
        if len(data) > self._limit:
            self._check(max(map(len, (rest, *lines))))
        return self._read(lines)

    def close(self) -> list[SSEEvent]:
        """The last event, if the stream ended without its blank line."""
        lines = [bytes(self._line), b""]
        self._line.clear()
        return self._read(lines)

    def _read(self, lines: list[bytes]) -> list[SSEEvent]:
        events: list[SSEEvent] = []
        event, data = self._event, self._data
        for line in lines:
            # The lines that nearly all streams are made of are looked for first.
            if not line:
                if data:
                    events.append(SSEEvent(event, "\n".join(data)))
                    data = []
                event = None
            elif line[:6] == b"data: ":
                data.append(line[6:].decode("utf-8", "replace"))
                if len(data) > 1:
                    self._count(data, line)
            elif line[:7] == b"event: ":
                event = line[7:].decode("utf-8", "replace") or None
            else:
                field, _, value = line.partition(b":")
                text = value.removeprefix(b" ").decode("utf-8", "replace")
                if field == b"event":
                    event = text or None
                elif field == b"data":
                    data.append(text)
                    if len(data) > 1:
                        self._count(data, line)
        self._event, self._data = event, data
        return events

    def _count(self, data: list[str], line: bytes) -> None:
        """Adds a further line to the size of the data; the first was checked as a line."""
        self._size = (len(data[0]) if len(data) == 2 else self._size) + len(line)
        self._check(self._size)

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._line.clear()
            self._data = []
            raise EventTooLarge(self._limit)

    def _with_lf(self, data: bytes) -> bytes:
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        # A carriage return ends its line at once; a line feed that follows in the next bytes belongs to it.
        self._after_cr = self._after_cr or data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _without_bom(self, data: bytes) -> bytes:
        data = (self._bom or b"") + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._bom = data
            return b""
        self._bom = None
        return data.removeprefix(_BOM)
