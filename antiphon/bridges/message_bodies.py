"""Reads the body of an API whose conversation is a list `messages`, as typed data."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from antiphon.spec.codec import UNREADABLE
from antiphon.spec.decode import decode_body, split_body
from antiphon.spec.limits import LARGE, MAX_DEPTH, MAX_SETTINGS
from antiphon.spec.long_json import is_deep
from antiphon.spec.strict_decoder import StrictDecoder

T = TypeVar("T", bound=Struct)


def decode_messages_body(
    decoder: msgspec.json.Decoder[T],
    body: bytes,
    *,
    max_bytes: int,
    is_flat: Callable[[T], bool] = lambda _: False,
) -> T:
    """The body as the type of the decoder; the first mistake in it is a `SpecError`.

    Nearly every body is small and has only known fields, and the decoder alone reads it. Others are read
    field by field. `is_flat` says of a body that nothing in it can be nested.
    """
    if len(body) <= min(LARGE, max_bytes):
        try:
            found = decoder.decode(body)
            if not body.isascii():
                body.decode()  # the decoder does not look into what it keeps undecoded
            if is_flat(found) or not is_deep(body, MAX_DEPTH):
                return found
        except UNREADABLE:
            pass  # it has unknown fields, or something is wrong
    read: T = decode_body(decoder.type, body, max_bytes=max_bytes)
    if len(body) > MAX_SETTINGS:
        StrictDecoder().check_settings(split_body(body, max_bytes=max_bytes), "messages")
    return read
