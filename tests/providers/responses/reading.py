"""Events of `/responses`, and what comes of them after the stream reader and the Composer."""

import json
from typing import Any

from antiphon.providers.responses.stream import ResponsesStream
from antiphon.spec.response import Response
from antiphon.stream.deltas import (
    AnyDelta,
)
from tests.providers import compose as composing
from tests.providers.conformance.said import Called, Refused, Script, Text, Thought
from tests.providers.responses import wire

Json = dict[str, Any]
EVERYTHING = Script(
    (
        Thought("Let me think.", "proof-1"),
        Thought("Aloud."),
        Text("Grüße, 世界 🎼"),
        Refused("Not that."),
        Called("f", '{"a": "ü"}', "call_1"),
        Called("g", "{}", "call_2"),
    )
)
CITATION: Json = {
    "type": "url_citation",
    "url": "https://e.com",
    "title": "E",
    "start_index": 0,
    "end_index": 2,
}
LOGPROB: Json = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}


# The types of items that these answers may have beyond the specification's.
SOLICITED = {"custom_tool_call", "web_search_call", "mcp_list_tools", "mcp_approval_request"}


def compose(batches: list[list[AnyDelta]]) -> Response:
    return composing.compose(batches, solicited=SOLICITED)


def stream(script: Script, request: Json | None = None) -> bytes:
    return b"".join(map(wire.sse, wire.events(script, request or {}))) + wire.DONE


def lines(*events: Json) -> bytes:
    return b"".join(map(wire.sse, events)) + wire.DONE


def read(body: bytes, *, size: int | None = None, **options: Any) -> list[AnyDelta]:
    """Everything a stream says, fed in pieces of `size` bytes."""
    parser = ResponsesStream(**options)
    size = size or len(body) or 1
    deltas: list[AnyDelta] = []
    for n in range(0, len(body), size):
        deltas += parser.feed(body[n : n + size])
    return deltas if parser.over else deltas + parser.end()


def answer(*events: Json, **options: Any) -> Response:
    return compose([read(lines(*events), **options)])


def completed(*output: Json, **more: Any) -> Json:
    return {
        "type": "response.completed",
        "response": wire.response({}, "completed", output=list(output), **more),
    }


def message(text: str, status: str = "completed", **part: Any) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": [], **part}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content}


def added(item: Json, n: int = 0) -> Json:
    started = item | {"status": "in_progress"} if "status" in item else item
    return {"type": "response.output_item.added", "output_index": n, "item": started}


def done(item: Json, n: int = 0) -> Json:
    return {"type": "response.output_item.done", "output_index": n, "item": item}


def delta(text: str, n: int = 0, id: str = "msg_1", part: int = 0, **more: Any) -> Json:
    where = {"item_id": id, "output_index": n, "content_index": part}
    return {"type": "response.output_text.delta", **where, "delta": text, **more}


def whole(response: Json, **options: Any) -> list[AnyDelta]:
    return ResponsesStream(**options).whole(json.dumps(response).encode())
