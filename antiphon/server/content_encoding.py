"""Decompresses request bodies, gzip and zstd, in pieces and up to a limit."""

import asyncio
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from antiphon.spec.errors import SpecError, invalid_request

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_IN = 64 * 1024
_OUT = 256 * 1024
_IN_A_ROW = 4
"""So many pieces are unpacked before others get their turn: a mebibyte, which takes some milliseconds."""
_WINDOW = 23
"""As binary logarithm: the 8 MiB that RFC 9659 allows on the web; a frame could ask for gigabytes."""


class Unpacker(Protocol):
    """As the standard library's: one stream, and no more than `max_length` bytes of it at once."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's, with the interface that the others have."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        found = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail and len(found) < max_length
        return found


def _zstd() -> Unpacker:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW})


_UNPACKERS: dict[str, Callable[[], Unpacker]] = {"gzip": _Gzip, "x-gzip": _Gzip, "zstd": _zstd}


def unpacker_of(encoding: bytes) -> Unpacker | None:
    """What unpacks a body of this `Content-Encoding`; None if there is nothing to unpack, or 415."""
    name = encoding.decode("latin-1").strip().lower()
    if name in ("", "identity"):
        return None
    if name not in _UNPACKERS:
        error = invalid_request(f"a body may be packed with gzip or zstd, not {name[:100]}; or send it plain")
        raise SpecError(error.with_code("unsupported_encoding"), 415)
    return _UNPACKERS[name]()


async def unpack(unpacker: Unpacker, packed: bytes, check: Callable[[int], None]) -> bytes:
    """All of it. `check` is told the size whenever that has grown, and raises if it is too much."""
    pieces: list[bytes] = []
    size = 0
    try:
        for number, piece in enumerate(_pieces(unpacker, packed), start=1):
            pieces.append(piece)
            size += len(piece)
            check(size)
            if number % _IN_A_ROW == 0:
                await asyncio.sleep(0)
    except (zlib.error, zstd.ZstdError, ValueError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is broken"
        message = f"the body cannot be unpacked as its Content-Encoding says: {why}"
        raise SpecError(invalid_request(message).with_code("invalid_encoding")) from None
    return b"".join(pieces)


def _pieces(unpacker: Unpacker, packed: bytes) -> Iterator[bytes]:
    for start in range(0, len(packed), _IN):
        piece = packed[start : start + _IN]
        while True:
            yield unpacker.decompress(piece, _OUT)
            if unpacker.eof:
                if unpacker.unused_data or start + _IN < len(packed):
                    raise ValueError("something follows its end")
                return
            if unpacker.needs_input:
                break
            piece = b""
    raise ValueError("its end is missing")
