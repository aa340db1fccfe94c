"""Receipts for what a response has and the API of a door has no place for."""

from collections.abc import Callable

from antiphon.spec.codec import Opaque
from antiphon.spec.response import SUPPRESSED, Receipt, Response


def receipts_for_items(
    response: Response, door: str, is_written: Callable[[Opaque], object]
) -> list[Receipt]:
    """A receipt for each item that the API does not write; the stored response has it."""
    return [
        Receipt(f"output[{n}]", SUPPRESSED, f"this API has no place for an item of type {item.type!r}", door)
        for n, item in enumerate(response.output)
        if isinstance(item, Opaque) and not is_written(item)
    ]
