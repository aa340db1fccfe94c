"""The bytes of a Messages answer through the stream reader and the Composer."""

import json
from typing import Any

from antiphon.providers.anthropic.stream import AnthropicStream
from antiphon.spec.response import Response
from antiphon.stream.deltas import (
    AnyDelta,
)
from tests.providers.anthropic import wire
from tests.providers.compose import compose, plain


def read(*pieces: bytes, size: int | None = None, **options: Any) -> list[AnyDelta]:
    """Everything a stream says, fed in pieces of `size` bytes."""
    body = b"".join(pieces)
    stream = AnthropicStream(**options)
    size = size or len(body) or 1
    deltas = [delta for n in range(0, len(body), size) for delta in stream.feed(body[n : n + size])]
    return deltas if stream.over else deltas + stream.end()


def response(*pieces: bytes, **options: Any) -> Response:
    return compose([read(*pieces, **options)], schema=True)


def whole(*content: dict[str, Any], reason: str | None = "end_turn", **options: Any) -> Response:
    told = wire.message(content, reason, **options.pop("fields", {}))
    return compose([AnthropicStream(**options).whole(json.dumps(told).encode())], schema=True)


def blobs(made: Response) -> list[Any]:
    items = plain(made)["output"]
    return [json.loads(item["encrypted_content"]) for item in items if item["type"] == "reasoning"]
