"""Unpacks compressed answers in small steps: a small one can neither fill the memory nor hold the event loop.

httpx unpacks all that one network read brings in one call, and one encoding inside another: some kilobytes
become gigabytes. All clients here use `ContentDecoder` in its place.
"""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable

ACCEPTED = "gzip, deflate"
"""The `Accept-Encoding` of a client that reads its answers with `ContentDecoder`."""

_STEP = 64 * 1024
"""At most this much is unpacked at once, whatever a small answer may grow to."""

_STEPS_IN_A_ROW = 4
"""After so many steps the event loop gets its turn: 256 KiB, which take about a millisecond."""

_GZIP = 16 + zlib.MAX_WBITS
_HEADER = 2


class BrokenEncoding(Exception):
    """The answer cannot be unpacked; the text says why."""


class ContentDecoder:
    """gzip, or deflate with or without the wrapping that the standard wants; taken in small steps."""

    def __init__(self, encoding: bytes) -> None:
        name = encoding.strip().lower().decode("latin-1")
        if name not in ("gzip", "x-gzip", "deflate"):
            raise BrokenEncoding(f"the answer is compressed with {name[:40]!r}, which was not asked for")
        self._is_gzip = name != "deflate"
        self._inflate = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._packed = b""
        self._is_empty = True
        self._steps = 0

    def feed(self, data: bytes) -> None:
        self._packed += data
        self._is_empty = False

    def take(self) -> bytes:
        """The next step, or nothing if more has to be fed first."""
        if self._inflate is None:
            if len(self._packed) < _HEADER:
                return b""
            self._inflate = zlib.decompressobj(_bits(self._packed))
        try:
            while self._packed:
                if self._inflate.eof:
                    if not self._is_gzip:
                        raise BrokenEncoding("there is more after the end of the compressed answer")
                    self._inflate = zlib.decompressobj(_GZIP)  # gzip may have one part after another
                data = self._inflate.decompress(self._packed, _STEP)
                self._packed = self._inflate.unconsumed_tail or self._inflate.unused_data
                if data:
                    self._steps += 1
                    return data
        except zlib.error:
            raise BrokenEncoding("the compressed answer is broken") from None
        return b""

    async def pause(self) -> None:
        """Give the event loop its turn, once in a few steps."""
        if self._steps % _STEPS_IN_A_ROW == 0:
            await asyncio.sleep(0)

    def end(self) -> None:
        """Nothing more will be fed."""
        if not self._is_empty and (self._inflate is None or not self._inflate.eof):
            raise BrokenEncoding("the compressed answer is cut off")


def decoder_of(encoding: bytes) -> ContentDecoder | None:
    """None if there is nothing to unpack."""
    return None if encoding.strip().lower() in (b"", b"identity") else ContentDecoder(encoding)


class DecodedBody:
    """The body of an answer of httpx or httpx2, unpacked; subclasses add the library's own `AsyncByteStream`.

    `inspect` is called with each piece before it is handed on, and may raise. `fail` makes the exception for
    an answer that cannot be unpacked.
    """

    def __init__(
        self,
        body: AsyncIterable[bytes],
        decoder: ContentDecoder | None,
        inspect: Callable[[bytes], None],
        fail: Callable[[str], Exception],
    ) -> None:
        self._body = body
        self._decoder = decoder
        self._inspect = inspect
        self._fail = fail

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decoder = self._decoder
        try:
            async for packed in self._body:
                if decoder is None:
                    self._inspect(packed)
                    yield packed
                    continue
                decoder.feed(packed)
                while piece := decoder.take():
                    await decoder.pause()
                    self._inspect(piece)
                    yield piece
            if decoder is not None:
                decoder.end()
        except BrokenEncoding as error:
            raise self._fail(str(error)) from None

    async def aclose(self) -> None:
        close = getattr(self._body, "aclose", None)
        if close is not None:
            await close()


def _bits(packed: bytes) -> int:
    """Is it wrapped? The wrapping begins with its method, 8, and a checksum."""
    is_wrapped = packed[0] & 15 == 8 and int.from_bytes(packed[:_HEADER]) % 31 == 0
    return zlib.MAX_WBITS if is_wrapped else -zlib.MAX_WBITS
