"""Tools, choices, formats and calls have one shape on the chat wire, whoever sends them."""

import json
from typing import Any

import pytest

from antiphon.client.chat_fallback.request import chat_body, read_request
from tests.providers.chat.bodies import body

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FUNCTION = {"type": "function", "name": "f", "parameters": SCHEMA}
FORMAT = {"type": "json_schema", "name": "n", "schema": SCHEMA}
TALK = [
    {"role": "user", "content": "Go"},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "f", "arguments": '{"a":1}'},
    {"type": "function_call_output", "call_id": "c1", "output": "18"},
    {"type": "function_call_output", "call_id": "c2", "output": "25"},
]


@pytest.mark.parametrize(
    "request_",
    [
        {"tools": [FUNCTION]},
        {"tools": [FUNCTION | {"description": "Does it.", "strict": True}], "tool_choice": "required"},
        {"tools": [FUNCTION | {"strict": False}], "tool_choice": {"type": "function", "name": "f"}},
        {"text": {"format": FORMAT}},
        {"text": {"format": FORMAT | {"description": "A number.", "strict": True}}},
        {"text": {"format": {"type": "json_object"}}},
        {"input": TALK, "tools": [FUNCTION]},
    ],
    ids=str,
)
def test_the_client_sends_what_the_gateway_sends(request_: dict[str, Any]) -> None:
    given = {"model": "m", "input": "Go", **request_}
    sent = json.loads(chat_body(read_request(json.dumps(given).encode())))
    expected = body(given)
    for name in ("messages", "tools", "tool_choice", "response_format"):
        assert sent.get(name) == expected.get(name)
