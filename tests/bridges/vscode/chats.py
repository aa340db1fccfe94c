"""Chats of VS Code in short words, and what becomes of them."""

import base64
import json
from typing import Any

import pytest

from antiphon.bridges.vscode import read_chat
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError

Json = dict[str, Any]
PNG = b"\x89PNG\r\n\x1a\nrest"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def user(*content: Any) -> Json:
    return {
        "role": 1,
        "content": content[0] if len(content) == 1 and isinstance(content[0], str) else content,
    }


def assistant(*content: Any) -> Json:
    return user(*content) | {"role": 2}


def text(value: str) -> Json:
    return {"$mid": 21, "value": value}


def data(kind: str, content: bytes) -> Json:
    return {"$mid": 24, "mimeType": kind, "data": b64(content)}


def call(id: str = "call_1", name: str = "read_file", **given: Any) -> Json:
    return {"callId": id, "name": name, "input": given}


def result(*content: Any, id: str = "call_1", **more: Any) -> Json:
    return {"callId": id, "content": list(content), **more}


def asked(*messages: Json, **more: Any) -> Any:
    return read_chat(json.dumps({"messages": messages, **more}).encode())


def request(*messages: Json, **more: Any) -> Json:
    """The request as JSON; it must be one that the gateway itself takes."""
    raw = encode(asked(*messages, **more).request)
    decode_request(raw)
    return dict(json.loads(raw))


def items(*messages: Json, **options: Any) -> list[Json]:
    return list(request(*messages, options=options)["input"])


def output(*content: Any, **options: Any) -> Any:
    return items(assistant(call()), user(result(*content)), **options)[1]["output"]


def refused(*messages: Json, **more: Any) -> tuple[str | None, str | None]:
    with pytest.raises(SpecError) as caught:
        asked(*messages, **more)
    assert caught.value.status == 400
    return caught.value.payload.param, caught.value.payload.code
