"""The bytes of a body or a message while they come."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

from antiphon.spec.limits import LARGE

T = TypeVar("T")

PIECE = 64 * 1024
_KEPT = PIECE // 4


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
        pieces = self._emptied()
        pieces.reverse()
        while pieces:
            yield pieces.pop()

    def joined(self) -> bytes:
        """All of it, which is then no longer here. While bytes are joined, other threads can work."""
        return b"".join(self._emptied())

    def _emptied(self) -> list[bytes]:
        self._settle()
        pieces, self._pieces, self._size = self._pieces, [], 0
        return pieces

    def _settle(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small = bytearray()


def decode_pieces(decode: Callable[..., T], body: bytes | Pieces, limit: int) -> T:
    """Nobody else has a body of several pieces whole, so that its memory is freed where this is called."""
    return decode(body if isinstance(body, bytes) else body.joined(), max_bytes=limit)


async def decode_apart(decode: Callable[..., T], body: bytes | Pieces, limit: int) -> T:
    """The same; a large body in a thread of its own."""
    if len(body) <= LARGE:
        return decode_pieces(decode, body, limit)
    return await asyncio.to_thread(decode_pieces, decode, body, limit)
