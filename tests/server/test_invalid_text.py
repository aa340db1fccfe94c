"""Bytes that are no text are a mistake of the client's, wherever in a body they stand."""

import json
from collections.abc import Iterator
from typing import Any

from tests.server.conftest import Serve
from tests.server.upstream import Upstream

MARK = "HERE"
NO_TEXT = (b"\xff", b"\xc3", b"\xed\xa0\x80")
TEXT = {"type": "text", "text": "Hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi", "x": "y"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
            {"type": "acme:note", "text": "x"},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "metadata": {"a": "b"},
    },
    "/v1/chat/completions": {
        "messages": [
            {"role": "user", "content": [TEXT, {"type": "image_url", "image_url": {"url": "data:,"}}]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": {"type": "object"}},
        },
        "web_search_options": {"x": "y"},
    },
    "/v1/messages": {
        "max_tokens": 10,
        "system": [TEXT],
        "messages": [
            {
                "role": "user",
                "content": [TEXT, {"type": "document", "source": {"type": "text", "data": "x"}}],
            },
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": "b"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [TEXT]}]},
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    },
    "/api/v1/chat": {
        "messages": [{"id": "1", "role": "user", "parts": [TEXT, {"type": "data-x", "data": {"a": "b"}}]}]
    },
    "/api/hashbrown": {
        "operation": "generate",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "f", "description": "d", "parameters": {"type": "object"}}],
    },
    "/api/vscode/chat": {
        "messages": [
            {"role": 1, "content": [{"type": "text", "value": "Hi"}, {"mimeType": "a/b", "data": "x"}]}
        ]
    },
    "/v1/conversations": {"items": [{"role": "user", "content": [TEXT]}], "metadata": {"a": "b"}},
    "/v1/embeddings": {"input": ["Hi"]},
    "/v1/vector_stores": {"name": "a", "metadata": {"a": "b"}},
}


def marked(value: Any) -> Iterator[Any]:
    """The value once for each text and field name in it, which then is the mark."""
    if isinstance(value, dict):
        for name, inner in value.items():
            rest = {key: one for key, one in value.items() if key != name}
            yield rest | {MARK: inner}
            for one in marked(inner):
                yield rest | {name: one}
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            for one in marked(inner):
                yield [*value[:n], one, *value[n + 1 :]]
    elif isinstance(value, str):
        yield MARK


def test_bytes_that_are_no_text_are_refused_at_every_door(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "fine"
    client = serve(upstream.toml).client()
    found: dict[str, set[tuple[int, bool]]] = {}
    for path, body in BODIES.items():
        for n, given in enumerate(marked({"model": "test/m"} | body)):
            raw = json.dumps(given).encode().replace(MARK.encode(), NO_TEXT[n % len(NO_TEXT)])
            answer = client.post(path, content=raw, headers={"Content-Type": "application/json"})
            says_so = b"UTF-8" in answer.content
            found.setdefault(path, set()).add((answer.status_code, says_so))
    # Hashbrown's client reads an error from a frame.
    assert found == {path: {(200 if path == "/api/hashbrown" else 400, True)} for path in BODIES}
