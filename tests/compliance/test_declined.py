"""What counts as a server's word that it cannot do something, and what does not."""

import json
from typing import Any

import pytest

from antiphon.compliance.http_exchange import Arrival, RecordedExchange
from antiphon.compliance.runner import find_declined

PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
ASKED: dict[str, Any] = {
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}, PICTURE]}],
    "tools": [{"type": "function", "name": "f"}],
    "text": {"format": {"type": "json_schema"}},
    "temperature": 1,
    "tool_choice": None,
}


def exchange(
    code: str | None, param: object, *, status: int = 400, path: str = "/responses", message: str = "no"
) -> RecordedExchange:
    error = {"type": "invalid_request", "code": code, "param": param, "message": message}
    return RecordedExchange(
        "json",
        "POST",
        path,
        json.dumps(ASKED).encode(),
        status=status,
        headers={"content-type": "application/json"},
        body=json.dumps({"error": error}).encode(),
    )


@pytest.mark.parametrize(
    ("code", "param", "path", "what"),
    [
        ("unsupported_parameter", "tools", "/responses", "tools"),
        ("unsupported_parameter", "text.format", "/responses", "text.format"),
        ("unsupported_content", "input[0].content[1]", "/responses", "input_image"),
        ("unsupported_operation", None, "/responses/compact", "/responses/compact"),
    ],
)
def test_a_code_at_a_place_that_was_sent_is_one(code: str, param: object, path: str, what: str) -> None:
    assert find_declined(exchange(code, param, path=path)) == f"`{what}` is declined (HTTP 400: no)"


@pytest.mark.parametrize(
    "other",
    [
        exchange("invalid_value", "tools"),
        exchange(None, "tools"),
        exchange("unsupported_parameter", None),
        exchange("unsupported_parameter", "previous_response_id"),
        exchange("unsupported_parameter", "tool_choice"),
        exchange("unsupported_parameter", "input"),
        exchange("unsupported_parameter", "temperature"),
        exchange("unsupported_content", "input[0].content[0]"),
        exchange("unsupported_content", "input[9].content[0]"),
        exchange("unsupported_content", "tools"),
        exchange("unsupported_operation", None),
        exchange("unsupported_parameter", "tools", status=500),
        exchange("unsupported_parameter", "tools", status=200),
        exchange("unsupported_parameter", "tools", message=""),
    ],
    ids=[
        "another code",
        "no code",
        "no place",
        "not sent",
        "null was sent",
        "the input",
        "what is not optional",
        "a text",
        "a place that is not there",
        "no part",
        "the operation that all have",
        "the server's fault",
        "carried out",
        "no sentence",
    ],
)
def test_nothing_else_is(other: RecordedExchange) -> None:
    assert find_declined(other) is None


def test_over_a_websocket_it_is_one_error_alone() -> None:
    error = {"type": "error", "status": 400, "error": exchange("unsupported_parameter", "tools").error}
    turn = RecordedExchange("websocket", "WEBSOCKET", "/responses", json.dumps(ASKED).encode())
    turn.arrivals.append(Arrival(0, json.dumps(error)))
    assert find_declined(turn) == "`tools` is declined (a message: no)"
    turn.arrivals.insert(0, Arrival(0, '{"type": "response.created"}'))
    assert find_declined(turn) is None
