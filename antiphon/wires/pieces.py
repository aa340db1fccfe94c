"""The bytes of a body or a message while they come."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from antiphon.spec.errors import SpecError, invalid_request
from antiphon.spec.limits import LARGE
from antiphon.wires.worker_thread import in_worker_thread

T = TypeVar("T")

PIECE = 64 * 1024
_KEPT = PIECE // 4
_CURLS_OWN = "application/x-www-form-urlencoded"
"""What curl says of a body when it is told nothing else: the likeliest first mistake."""


class Pieces:
    """Bytes in pieces of a fair size: one buffer for all would be copied again and again while it grows."""

    __slots__ = ("_pieces", "_size", "_small")

    def __init__(self, first: bytes = b"") -> None:
        self._pieces: list[bytes] = []
        self._small = bytearray()
        """What came last, as long as it is too little for a piece."""
        self._size = 0
        if first:
            self.add(first)

    def __len__(self) -> int:
        return self._size

    def add(self, data: bytes | bytearray | memoryview) -> None:
        self._size += len(data)
        if isinstance(data, bytes) and len(data) >= _KEPT:
            self._settle()
            self._pieces.append(data)
            return
        self._small += data
        if len(self._small) >= PIECE:
            self._settle()

    def take(self) -> Iterator[bytes]:
        """One after the other, from the first; what was given is not kept."""
        pieces = self._take_all()
        pieces.reverse()
        while pieces:
            yield pieces.pop()

    def each(self) -> Iterator[bytes]:
        """One after the other, which all stay here."""
        self._settle()
        return iter(self._pieces)

    def join(self) -> bytes:
        """Take all of it as one. While bytes are joined, other threads can work."""
        return b"".join(self._take_all())

    def _take_all(self) -> list[bytes]:
        self._settle()
        pieces, self._pieces, self._size = self._pieces, [], 0
        return pieces

    def _settle(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small = bytearray()


def check_json_type(content_type: bytes) -> None:
    """Refuse a body that says that it is not JSON."""
    kind = str(content_type, "latin-1").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        hint = "; with curl, add -H 'Content-Type: application/json'" if kind == _CURLS_OWN else ""
        error = invalid_request(f"this endpoint takes application/json, not {kind[:100]}{hint}")
        raise SpecError(error.with_code("unsupported_media_type"), 415)


def too_large(limit: int) -> SpecError:
    return SpecError(
        invalid_request(f"the body is larger than {limit:,} bytes").with_code("body_too_large"), 413
    )


async def decode_pieces(decode: Callable[..., T], body: bytes | Pieces, limit: int) -> T:
    """What `decode` makes of a body, of a large one in the worker thread.

    No other place has the whole of a body in pieces, so that its memory is freed where it is decoded.
    """
    if len(body) <= LARGE:
        return _decode(decode, body, limit)
    return await in_worker_thread(_decode, decode, body, limit)


def _decode(decode: Callable[..., T], body: bytes | Pieces, limit: int) -> T:
    try:
        return decode(body if isinstance(body, bytes) else body.join(), max_bytes=limit)
    except SpecError as refusal:
        # What it was raised for and in leads back to the whole body, and often in a ring.
        refusal.__context__ = None
        raise refusal.with_traceback(None) from None
