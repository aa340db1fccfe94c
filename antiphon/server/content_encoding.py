"""Decompresses request bodies, gzip and zstd, in pieces and up to a limit."""

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from antiphon.spec.errors import SpecError, invalid_request
from antiphon.wires.pieces import Pieces

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_IN = 64 * 1024
_OUT = 256 * 1024
_WINDOW = 23
"""As binary logarithm: the 8 MiB that RFC 9659 allows on the web; a frame could ask for gigabytes."""
_MOST_PARTS = 4096
"""Members of gzip, or frames of zstd, in one body: each may be empty, and costs something to begin."""


class Unpacker(Protocol):
    """As the standard library's: one member or frame, and no more than `max_length` bytes of it at once."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


Packing = Callable[[], Unpacker]
"""Begins to unpack: a body may be several members or frames, one after the other."""


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


_PACKINGS: dict[str, Packing] = {"gzip": _Gzip, "x-gzip": _Gzip, "zstd": _zstd}


def packing_of(encoding: bytes) -> Packing | None:
    """What unpacks a body of this `Content-Encoding`; None if there is nothing to unpack, or 415."""
    name = encoding.decode("latin-1").strip().lower()
    if name in ("", "identity"):
        return None
    if name not in _PACKINGS:
        error = invalid_request(f"a body may be packed with gzip or zstd, not {name[:100]}; or send it plain")
        raise SpecError(error.with_code("unsupported_encoding"), 415)
    return _PACKINGS[name]


class Unpacking:
    """A body that is being unpacked, and what there is of it."""

    def __init__(self, packing: Packing, packed: Pieces) -> None:
        self.found = Pieces()
        self._pieces = _unpack(packing, _slices(packed))

    def unpack_until(self, most: int) -> bool:
        """Unpack until there are more than `most` bytes; true if nothing is left to unpack."""
        try:
            for piece in self._pieces:
                self.found.add(piece)
                if len(self.found) > most:
                    return False
        except (zlib.error, zstd.ZstdError, ValueError) as error:
            why = str(error) if isinstance(error, ValueError) else "it is broken"
            message = f"the body cannot be unpacked as its Content-Encoding says: {why}"
            raise SpecError(invalid_request(message).with_code("invalid_encoding")) from None
        return True


def _slices(packed: Pieces) -> Iterator[bytes]:
    for given in packed.take():
        for at in range(0, len(given), _IN):
            yield bytes(given[at : at + _IN])


def _unpack(packing: Packing, packed: Iterable[bytes]) -> Iterator[bytes]:
    unpacker, parts = packing(), 1
    for piece in packed:
        while True:
            if unpacker.eof:
                if not piece:
                    break
                parts += 1
                if parts > _MOST_PARTS:
                    raise ValueError(f"it has more than {_MOST_PARTS:,} parts")
                unpacker = packing()
            yield unpacker.decompress(piece, _OUT)
            if unpacker.eof:
                piece = unpacker.unused_data
            elif unpacker.needs_input:
                break
            else:
                piece = b""
    if not unpacker.eof:
        raise ValueError("its end is missing")
