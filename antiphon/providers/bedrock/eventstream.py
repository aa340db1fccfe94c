"""The binary event stream of AWS (`application/vnd.amazon.eventstream`): bytes in, messages out, no I/O.

A message is a prelude (two lengths and their CRC), headers, a payload, and a CRC over all of it.
"""

from collections.abc import Callable, Mapping
from struct import Struct as Layout
from struct import error as TooShort
from zlib import crc32

CONTENT_TYPE = "application/vnd.amazon.eventstream"

HeaderValue = bool | int | str | bytes

_read_prelude = Layout("!III").unpack_from
_read_crc = Layout("!I").unpack_from
_LENGTH = Layout("!H")
_PRELUDE = 12
_SHORTEST = 16
_LONGEST_HEADERS = 128 * 1024
_LONGEST = 24 * 1024 * 1024 + _LONGEST_HEADERS + _SHORTEST
_KNOWN_HEADERS = 64


class BadMessage(ValueError):
    """The bytes are no event stream, or they were damaged on their way."""


EventStreamMessage = tuple[Mapping[str, HeaderValue], bytes]
"""Headers and payload."""


class EventStreamReader:
    """Feed it what comes. After `BadMessage` there is no way back into the stream."""

    __slots__ = ("_known", "_needed", "_pending")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._needed = _PRELUDE  # how many bytes the next step takes
        # A stream repeats a handful of header sections, so each is read once.
        self._known: dict[bytes, Mapping[str, HeaderValue]] = {}

    @property
    def is_empty(self) -> bool:
        """No half of a message is waiting for the rest."""
        return not self._pending

    def feed(self, data: bytes) -> list[EventStreamMessage]:
        """The messages that these bytes complete."""
        if self._pending:
            self._pending += data
            if len(self._pending) < self._needed:
                return []
            data = bytes(self._pending)
        messages: list[EventStreamMessage] = []
        known = self._known
        at, end = 0, len(data)
        while end - at >= _PRELUDE:
            length, headers_length, prelude_crc = _read_prelude(data, at)
            if crc32(data[at : at + 8]) != prelude_crc:
                raise BadMessage("the checksum of a prelude does not fit")
            if not _SHORTEST + headers_length <= length <= _LONGEST or headers_length > _LONGEST_HEADERS:
                raise BadMessage(
                    f"a message of {length:,} bytes with {headers_length:,} of headers cannot be"
                )
            if end - at < length:
                self._needed = length
                break
            last = at + length - 4
            # The checksum of a message goes on from that of its prelude.
            if crc32(data[at + 8 : last], prelude_crc) != _read_crc(data, last)[0]:
                raise BadMessage("the checksum of a message does not fit")
            begin = at + _PRELUDE + headers_length
            raw = data[at + _PRELUDE : begin]
            headers = known.get(raw)
            if headers is None:
                headers = _headers(raw)
                if len(known) < _KNOWN_HEADERS:
                    known[raw] = headers
            messages.append((headers, data[begin:last]))
            at += length
            self._needed = _PRELUDE
        if at == end:
            self._pending.clear()
        else:
            self._pending = bytearray(data[at:])
        return messages


def _headers(raw: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    at = 0
    try:
        while at < len(raw):
            begin = at + 1
            name = _exactly(raw, begin, raw[at]).decode()
            at = begin + raw[at]
            value, at = _READERS[raw[at]](raw, at + 1)
            if name in headers:
                raise BadMessage(f"the header {name!r} comes twice")
            headers[name] = value
    except (IndexError, KeyError, TooShort, UnicodeDecodeError) as error:
        raise BadMessage("its headers cannot be read") from error
    return headers


def _exactly(raw: bytes, at: int, length: int) -> bytes:
    value = raw[at : at + length]
    if len(value) < length:
        raise IndexError(at)
    return value


_Reader = Callable[[bytes, int], tuple[HeaderValue, int]]


def _number(layout: Layout) -> _Reader:
    return lambda raw, at: (int(layout.unpack_from(raw, at)[0]), at + layout.size)


def _bytes(raw: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(raw, at)
    return _exactly(raw, at + 2, length), at + 2 + length


def _text(raw: bytes, at: int) -> tuple[str, int]:
    value, at = _bytes(raw, at)
    return value.decode(), at


# By the type that stands before a value: true, false, byte, short, integer, long, bytes, text, time, uuid.
_READERS: Mapping[int, _Reader] = {
    0: lambda raw, at: (True, at),
    1: lambda raw, at: (False, at),
    2: _number(Layout("!b")),
    3: _number(Layout("!h")),
    4: _number(Layout("!i")),
    5: _number(Layout("!q")),
    6: _bytes,
    7: _text,
    8: _number(Layout("!q")),
    9: lambda raw, at: (_exactly(raw, at, 16), at + 16),
}
