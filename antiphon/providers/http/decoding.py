"""For an upstream that compresses its answer although it was asked not to."""

import zlib

from antiphon.providers.http.failures import Invalid

_STEP = 64 * 1024
"""At most this much is unpacked at once, whatever a small answer may grow to."""

_GZIP = 16 + zlib.MAX_WBITS
_HEADER = 2


class ContentDecoder:
    """gzip, or deflate with or without the wrapping that the standard wants; taken in small steps."""

    def __init__(self, encoding: bytes) -> None:
        name = encoding.strip().lower().decode("latin-1")
        if name not in ("gzip", "x-gzip", "deflate"):
            raise Invalid(f"the answer is compressed with {name[:40]!r}, which was not asked for")
        self._is_gzip = name != "deflate"
        self._inflate = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._packed = b""
        self._is_empty = True

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
                        raise Invalid("there is more after the end of the compressed answer")
                    self._inflate = zlib.decompressobj(_GZIP)  # gzip may have one part after another
                data = self._inflate.decompress(self._packed, _STEP)
                self._packed = self._inflate.unconsumed_tail or self._inflate.unused_data
                if data:
                    return data
        except zlib.error:
            raise Invalid("the compressed answer is broken") from None
        return b""

    def end(self) -> None:
        """Nothing more will be fed."""
        if not self._is_empty and (self._inflate is None or not self._inflate.eof):
            raise Invalid("the compressed answer is cut off")


def decoder_of(encoding: bytes) -> ContentDecoder | None:
    """None if there is nothing to unpack."""
    return None if encoding.strip().lower() in (b"", b"identity") else ContentDecoder(encoding)


def _bits(packed: bytes) -> int:
    """Is it wrapped? The wrapping begins with its method, 8, and a checksum."""
    is_wrapped = packed[0] & 15 == 8 and int.from_bytes(packed[:_HEADER]) % 31 == 0
    return zlib.MAX_WBITS if is_wrapped else -zlib.MAX_WBITS
