"""Divides the long WebSocket frames of a client into short ones, as an intermediary may (RFC 6455, 5.4).

The parser waits for a whole frame, then copies and unmasks it in one call each, on the event loop.
"""

from collections.abc import Iterator

LONGEST = 256 * 1024
"""A multiple of four, so that the mask goes on where it was."""
_FINAL, _MASKED, _CONTROL = 0x80, 0x80, 0x08
_LENGTHS = {126: 2, 127: 8}


class WebSocketFrameSplitter:
    """Takes what comes after the handshake, and gives what the parser is to be fed."""

    __slots__ = ("_first", "_head", "_key", "_left", "_limit", "_rest")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        """A frame of more is left as it is: the parser refuses it by its head."""
        self._head = bytearray()
        """As much of the head of a frame as has come."""
        self._left = 0
        """How many bytes of a payload come before the next head, theirs or ours."""
        self._rest = 0
        """How many bytes of a frame that is divided come in further ones."""
        self._first = 0
        """The first byte of the head of the next one."""
        self._key = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
            else:
                piece = data[at : at + self._missing()]
                self._head += piece
                if self._missing():
                    at += len(piece)
                    continue
            at += len(piece)
            yield self._begin() if self._head else piece
            if not self._left and self._rest:
                yield self._next()

    def _missing(self) -> int:
        """How many bytes of a head are still to come, as far as that is known."""
        head = self._head
        if len(head) < 2:
            return 2 - len(head)
        key = 4 if head[1] & _MASKED else 0
        return 2 + _LENGTHS.get(head[1] & 0x7F, 0) + key - len(head)

    def _begin(self) -> bytes:
        """The head of a frame, or of the first that it is divided into."""
        head, self._head = bytes(self._head), bytearray()
        size = _LENGTHS.get(head[1] & 0x7F, 0)
        length = int.from_bytes(head[2 : 2 + size]) if size else head[1] & 0x7F
        is_plain = head[0] & _CONTROL or not head[1] & _MASKED
        if is_plain or not LONGEST < length <= self._limit:
            self._left = length
            return head
        self._first, self._rest, self._key = head[0], length, head[-4:]
        return self._next()

    def _next(self) -> bytes:
        self._left = min(self._rest, LONGEST)
        self._rest -= self._left
        first = self._first if not self._rest else self._first & ~_FINAL
        self._first &= _FINAL  # from the second on, it goes on with what was begun
        return bytes((first, _MASKED | 127)) + self._left.to_bytes(8) + self._key
