"""What a stored response is cut into and put together from: its body without its output, and its items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

BODY = "body, spliced, CASE WHEN spliced IS NOT NULL THEN output END"
"""The columns that `whole` makes a body of."""
_OUTPUT = b'"output":['
"""No field before it holds an object that could have the same name."""


def join(body: bytes, output: bytes) -> bytes:
    """Puts the output, as a fragment, into a body that was encoded with none."""
    at = body.find(_OUTPUT) + len(_OUTPUT)
    return b"".join((body[:at], output, body[at:]))


def splice(body: bytes, output: bytes) -> tuple[bytearray, int]:
    """Cuts the output, which is stored beside it anyway, out of a body; and where it was, or -1."""
    rest, at = bytearray(body), body.find(_OUTPUT) + len(_OUTPUT)
    if not output or not body.startswith(output, at):
        return rest, -1
    del rest[at : at + len(output)]
    return rest, at


def whole(body: bytes, spliced: int | None, output: bytes | None) -> bytes:
    """A body with its output put back."""
    return body if spliced is None or output is None else body[:spliced] + output + body[spliced:]


class Named(Struct):
    """What has to be read of an item to find it again."""

    id: Any = None


_split = msgspec.json.Decoder(list[Raw]).decode
_named = msgspec.json.Decoder(list[Named]).decode


def named_in(fragment: bytes | None) -> list[str]:
    """The ids of the items in a fragment."""
    found = [item.id for item in _named(b"[%b]" % (fragment or b""))]
    return [id for id in found if id and isinstance(id, str)]


def item_in(fragments: Sequence[bytes | None], id: str) -> bytes | None:
    """The item with this id, in the first fragment that has it."""
    for part in fragments:
        array = b"[%b]" % (part or b"")
        for raw, item in zip(_split(array), _named(array), strict=True):
            if item.id == id:
                return bytes(raw)
    return None
