"""Images that a model made, as one item whatever the wire, and the way back to their bytes."""

from typing import NamedTuple

from antiphon.spec.codec import Opaque
from antiphon.stream.dialects import IMAGE, SHOWN_IMAGE

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
