"""The bytes of a `generateContent` answer through the stream reader and the Composer."""

import json
from typing import Any

from antiphon.providers.gemini.stream import GeminiStream
from antiphon.spec.response import Response
from antiphon.stream.deltas import AnyDelta
from tests.providers.compose import compose
from tests.providers.gemini.fake import chunk


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"text": words, **more}


def call(name: str, args: dict[str, Any] | None = None, id: str | None = None, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name}
    if args is not None:
        told["args"] = args
    if id is not None:
        told["id"] = id
    return {"functionCall": told, **more}


def read(body: bytes, *, size: int | None = None, **options: Any) -> list[AnyDelta]:
    stream = GeminiStream(**options)
    size = size or len(body) or 1
    deltas = [delta for n in range(0, len(body), size) for delta in stream.feed(body[n : n + size])]
    return deltas + stream.end()


def whole(*parts: dict[str, Any], finish: str = "STOP", **more: Any) -> list[AnyDelta]:
    return GeminiStream().whole(json.dumps(chunk(*parts, finish=finish, **more), indent=2).encode())


def response(body: bytes, **options: Any) -> Response:
    return compose([read(body, **options)])
