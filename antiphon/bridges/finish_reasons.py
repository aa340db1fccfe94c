"""How a response ended, in the words that chat clients share."""

from collections.abc import Iterable
from typing import Any

import msgspec

from antiphon.spec.codec import UNREADABLE, Opaque
from antiphon.spec.content import ContentPart, text_of
from antiphon.spec.events import ErrorEvent
from antiphon.spec.items import Item, is_call
from antiphon.spec.response import Response

CANCELLED = "cancelled"
_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content-filter"}


def finish_reason(response: Response) -> str:
    """`stop`, `tool-calls`, `length`, `content-filter`, `error` or `other`."""
    if response.status == "completed":
        return "tool-calls" if open_calls(response.output) else "stop"
    if response.status == "failed":
        return "error"
    return _INCOMPLETE.get(incomplete_reason(response), "other")


def incomplete_reason(response: Response) -> str:
    return response.incomplete_details.reason if response.incomplete_details else ""


def is_cancelled(response: Response) -> bool:
    return response.status != "failed" and incomplete_reason(response) == CANCELLED


def open_calls(items: Iterable[Item]) -> list[Item]:
    """The calls that still wait for an output."""
    waiting: dict[str, Item] = {}
    for item in items:
        call_id = getattr(item, "call_id", "")
        if is_call(item):
            waiting[call_id] = item
        else:
            waiting.pop(call_id, None)
    return list(waiting.values())


def error_text(failed: ErrorEvent | Response) -> str:
    """What to tell the reader of a chat whose answer failed."""
    error = failed.error
    return error.message if error is not None else "the response failed"


def output_value(output: str | list[ContentPart]) -> Any:
    """A tool's output as its caller made it: an object or a list if it is JSON of one, else the words."""
    text = text_of(output)
    if text[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except UNREADABLE:
            pass
    return text


def picture_of(item: Item) -> tuple[str, str] | None:
    """The media type and the base64 of an image that the model drew."""
    if not isinstance(item, Opaque) or not item.type.endswith("image_generation_call"):
        return None
    data, kind = item.fields.get("result"), item.fields.get("output_format")
    return (f"image/{kind if isinstance(kind, str) else 'png'}", data) if isinstance(data, str) else None
