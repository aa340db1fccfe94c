"""Pictures and files inside a request: data URLs, kinds of images, and base64 in slices."""

import base64
import binascii
import re
from mimetypes import guess_type
from typing import NamedTuple

from antiphon.spec.codec import Opaque
from antiphon.stream.dialects import IMAGE, SHOWN_IMAGE

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[^;,]*)*);base64,", re.IGNORECASE)
UNKNOWN = "application/octet-stream"


class Inline(NamedTuple):
    """Bytes as the request carries them."""

    media_type: str
    data: str
    """In base64."""


def data_url(text: str) -> Inline | None:
    """The parts of a data URL in base64; None when it is something else."""
    head = _DATA_URL.match(text)
    return Inline((head[1] or UNKNOWN).lower(), text[head.end() :]) if head else None


def file_bytes(data: str, name: str | None) -> Inline:
    """The bytes of a `file_data`, which is a data URL or plain base64 with the type in its file's name."""
    return data_url(data) or Inline(guess_type(name or "")[0] or UNKNOWN, data)


IMAGES = (IMAGE, SHOWN_IMAGE)
"""The types under which a client may send such an item back."""


class Image(NamedTuple):
    media_type: str
    data: str
    """In base64."""


def image_item(media_type: str, data: str) -> Opaque:
    """An image of the answer."""
    kind = media_type.partition(";")[0].removeprefix("image/")
    return Opaque.make(type=IMAGE, id="", status="completed", result=data, output_format=kind)


def image_of(item: Opaque) -> Image | None:
    """The image in an item of an earlier answer; None if its bytes are not there."""
    data, kind = item.fields.get("result"), item.fields.get("output_format")
    if item.type not in IMAGES or not isinstance(data, str) or not data:
        return None
    return Image(f"image/{kind if isinstance(kind, str) and kind else 'png'}", data)


_DIGITS = 64 * 1024
_BYTES = _DIGITS // 4 * 3
_OTHER_ALPHABET = bytes.maketrans(b"-_+/", b"+/-_")
"""What belongs to the one alphabet is wrong in the other."""


def decode_base64(text: str, *, url_safe: bool = False) -> bytes:
    """The bytes; `binascii.Error` or another `ValueError` for whatever is not base64 with its padding."""
    pieces: list[bytes] = []
    for at in range(0, len(text), _DIGITS):
        piece = text[at : at + _DIGITS]
        if "=" in piece and at + _DIGITS < len(text):
            raise binascii.Error("Excess data after padding")
        digits = piece.encode("ascii")
        if url_safe:
            digits = digits.translate(_OTHER_ALPHABET)
        pieces.append(binascii.a2b_base64(digits, strict_mode=True))
    return b"".join(pieces)


def encode_base64(data: bytes) -> str:
    return "".join([base64.b64encode(data[at : at + _BYTES]).decode() for at in range(0, len(data), _BYTES)])
