"""Files in an AI SDK chat: addresses, data URLs and plain base64, checked before a model sees them."""

import binascii
import re
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from antiphon.spec.content import ContentPart, InputFile, InputImage, InputVideo
from antiphon.spec.error_paths import join, wrong
from antiphon.spec.errors import SpecError
from antiphon.wires.media import decode_base64, encode_base64

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.ASCII)
_UNKNOWN = "application/octet-stream"
# How the base64 of each kind of image begins.
_IMAGES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


class FilePart(Struct, rename="camel"):
    """A `file` or `image` part of any version: an address or bytes, and of what kind they are."""

    url: str | None = None
    data: str | None = None
    image: str | None = None
    media_type: str | None = None
    mime_type: str | None = None
    filename: str | None = None


def content_of(part: FilePart, place: str) -> ContentPart:
    name = next((n for n in ("url", "data", "image") if getattr(part, n) is not None), None)
    if name is None:
        raise wrong(join(place, "url"), "a file needs its `url`", "missing_field")
    given, place = str(getattr(part, name)), join(place, name)
    declared = part.media_type or part.mime_type or ("image/*" if name == "image" else "")
    if given.startswith(("http://", "https://")):
        return _part(given, declared or _UNKNOWN, part.filename)
    if match := _DATA_URL.match(given):
        body = given[match.end() :]
        is_base64 = match[2].lower().endswith(";base64")
        data = body if is_base64 else encode_base64(unquote_to_bytes(body))
        media_type = match[1] or "text/plain"
    elif name == "url":
        raise wrong(place, "expected an address that starts with http:, https: or data:")
    else:
        data = given
        media_type = next((kind for start, kind in _IMAGES.items() if data.startswith(start)), _UNKNOWN)
    if "/" in declared and "*" not in declared:
        media_type = declared
    _check(data, place)
    return _part(f"data:{media_type};base64,{data}", media_type, part.filename)


def _part(url: str, media_type: str, filename: str | None) -> ContentPart:
    kind = media_type.partition("/")[0].lower()
    if kind == "image":
        return InputImage(url)
    if kind == "video":
        return InputVideo(url)
    if url.startswith("data:"):
        return InputFile(filename, file_data=url)
    return InputFile(filename, file_url=url)


def _check(data: str, place: str) -> None:
    try:
        decode_base64(data)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _base64_error(place, str(error)) from None


def _base64_error(place: str, why: str) -> SpecError:
    return wrong(place, f"this is not valid base64: {why}", "invalid_base64")
