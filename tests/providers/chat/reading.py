"""The bytes of a chat server's answer through the stream reader and the Composer."""

from typing import Any

from antiphon.providers.chat.stream import ChatStream
from antiphon.spec.response import Response
from antiphon.stream.deltas import AnyDelta
from tests.providers.compose import compose


def read(body: bytes, *, size: int | None = None, **options: Any) -> list[AnyDelta]:
    """Everything a stream says, fed in pieces of `size` bytes."""
    stream = ChatStream(**options)
    size = size or len(body) or 1
    deltas = [delta for n in range(0, len(body), size) for delta in stream.feed(body[n : n + size])]
    return deltas + stream.end()


def response(body: bytes, **options: Any) -> Response:
    return compose([read(body, **options)])
