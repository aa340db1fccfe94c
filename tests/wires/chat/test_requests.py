"""Messages, tools, choices and formats have one shape on the chat wire, whoever sends them."""

import json
from typing import Any

import pytest

from antiphon.client.chat_fallback import chat_body, read_request
from antiphon.providers.chat.profiles import GENERIC
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
RULES = [{"role": "developer", "content": "Be kind."}, {"role": "system", "content": "Be short."}]
SEEN = [
    {"type": "input_text", "text": "Look:"},
    {"type": "input_image", "image_url": "data:image/png;base64,eA=="},
    {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
    {"type": "input_file", "filename": "a.pdf", "file_data": "eA=="},
]
TURN = [
    {"role": "assistant", "content": "One moment."},
    {"type": "reasoning", "summary": []},
    {"role": "assistant", "content": "I look."},
    *TALK[1:],
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
        {"input": [*RULES, {"role": "user", "content": "Go"}], "instructions": "Be true."},
        {"input": [{"role": "user", "content": SEEN}]},
        {"input": [{"role": "user", "content": "Go"}, *TURN], "tools": [FUNCTION]},
    ],
    ids=str,
)
def test_the_client_sends_what_the_gateway_sends(request_: dict[str, Any]) -> None:
    given = {"model": "m", "input": "Go", **request_}
    sent = json.loads(chat_body(read_request(json.dumps(given).encode())))
    expected = body(given, GENERIC)
    for name in ("messages", "tools", "tool_choice", "response_format"):
        assert sent.get(name) == expected.get(name)
