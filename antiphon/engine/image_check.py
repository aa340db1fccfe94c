"""Refuses images in data URLs that cannot be images, before a model is asked."""

from collections.abc import Sequence

from antiphon.spec.content import InputImage
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import Item, parts_of
from antiphon.wires.media import data_url

INVALID = "invalid_image"
_SLICE = 64 * 1024

# Of both alphabets, and with the line breaks that some encoders put in.
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_= \t\r\n"


def check_pictures(items: Sequence[Item]) -> None:
    """Refuse a picture that no model could see, before one is asked."""
    for n, item in enumerate(items):
        name, parts = parts_of(item)
        for m, part in enumerate(parts):
            if isinstance(part, InputImage) and (wrong := _objection(part.image_url or "")):
                message = f"the data URL of this picture {wrong}; it must be `data:image/png;base64,…`"
                param = f"input[{n}].{name}[{m}].image_url"
                raise SpecError(ErrorPayload("invalid_request", message, INVALID, param))


def _objection(url: str) -> str | None:
    inline = data_url(url)
    if inline is None:
        return None
    if not inline.data:
        return "has no data"
    # All that is left when the alphabet is taken out; decoding would cost twenty times as much.
    data = inline.data
    slices = (data[at : at + _SLICE].encode(errors="replace") for at in range(0, len(data), _SLICE))
    return "is not in base64" if any(one.translate(None, _BASE64) for one in slices) else None
