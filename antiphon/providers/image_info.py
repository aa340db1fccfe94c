"""What can be said of a picture without eyes: its kind, its size in pixels and its size in bytes."""

import base64
import binascii
import struct
from urllib.parse import unquote_to_bytes

_PNG = b"\x89PNG\r\n\x1a\n"
_SIZED_JPEG = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SHOWN = 200


def describe(url: str) -> str:
    """A few words in place of the picture at this address, or of the picture that is this address."""
    if not url.startswith("data:"):
        return f"[an image at {url[:_SHOWN]}]"
    head, _, data = url[5:].partition(",")
    mime = head.partition(";")[0] or "image"
    try:
        raw = base64.b64decode(data, validate=False) if head.endswith(";base64") else unquote_to_bytes(data)
    except (binascii.Error, ValueError):
        return f"[an image of type {mime} that cannot be read]"
    size = pixels(raw)
    shape = f", {size[0]} by {size[1]} pixels" if size else ""
    return f"[an image of type {mime}{shape}, {len(raw):,} bytes]"


def kind_of(raw: bytes) -> str | None:
    """The media type of a PNG, GIF, JPEG or WebP, from its first bytes."""
    if raw.startswith(_PNG):
        return "image/png"
    if raw[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return "image/jpeg" if raw[:3] == b"\xff\xd8\xff" else None


def pixels(raw: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP, from its header alone."""
    try:
        if raw.startswith(_PNG):
            width, height = struct.unpack(">II", raw[16:24])
        elif raw[:6] in (b"GIF87a", b"GIF89a"):
            width, height = struct.unpack("<HH", raw[6:10])
        elif raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
            return _webp(raw)
        elif raw[:2] == b"\xff\xd8":
            return _jpeg(raw)
        else:
            return None
    except (struct.error, IndexError):
        return None
    return width, height


def _webp(raw: bytes) -> tuple[int, int] | None:
    match raw[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(raw[24:27], "little"), 1 + int.from_bytes(raw[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(raw[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", raw[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(raw: bytes) -> tuple[int, int] | None:
    """Walk the segments up to the one that starts the frame."""
    place = 2
    while place + 9 <= len(raw) and raw[place] == 0xFF:
        marker = raw[place + 1]
        if marker in _SIZED_JPEG:
            height, width = struct.unpack(">HH", raw[place + 5 : place + 9])
            return width, height
        place += 2 + int(struct.unpack(">H", raw[place + 2 : place + 4])[0])
    return None
