"""Splits the body of a response from its output, which a store keeps only once, and reads items in
fragments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

BODY = "body, spliced, CASE WHEN spliced IS NOT NULL THEN output END"
"""The columns from which `restore_body` makes a body."""
_OUTPUT = b'"output":['
"""No field before it holds an object that could have the same name."""


def insert_output(body: bytes, output: bytes) -> bytes:
    """Inserts the output, as a fragment, into a body that was encoded without output."""
    at = body.find(_OUTPUT) + len(_OUTPUT)
    return b"".join((body[:at], output, body[at:]))


def cut_output(body: bytes, output: bytes, lacks_output: bool = False) -> tuple[bytearray, int]:
    """Removes the output from a body, and returns the rest with the index of the output, or -1 without one.

    The store keeps the output in a column of its own. With `lacks_output` it is not in the body.
    """
    at = body.find(_OUTPUT) + len(_OUTPUT)
    if lacks_output:
        return bytearray(body), at if output else -1
    if not output or not body.startswith(output, at):
        return bytearray(body), -1
    rest = bytearray(body[:at])
    rest += body[at + len(output) :]
    return rest, at


def restore_body(body: bytes, spliced: int | None, output: bytes | None) -> bytes:
    """Inserts the output again where `cut_output` has removed it."""
    return body if spliced is None or output is None else body[:spliced] + output + body[spliced:]


class ItemId(Struct):
    """The one field of an item by which it is found."""

    id: Any = None


_split = msgspec.json.Decoder(list[Raw]).decode
_decode_ids = msgspec.json.Decoder(list[ItemId]).decode


def read_item_ids(fragment: bytes | None) -> list[str]:
    """Returns the ids of the items in a fragment."""
    found = [item.id for item in _decode_ids(b"[%b]" % (fragment or b""))]
    return [id for id in found if id and isinstance(id, str)]


def find_item(fragments: Sequence[bytes | None], id: str) -> bytes | None:
    """Returns the item with this id from the first fragment that has it."""
    for part in fragments:
        array = b"[%b]" % (part or b"")
        for raw, item in zip(_split(array), _decode_ids(array), strict=True):
            if item.id == id:
                return bytes(raw)
    return None
