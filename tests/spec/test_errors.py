"""Error objects and where they travel."""

import json

import msgspec
import pytest

from antiphon.spec import SpecError, encode
from antiphon.spec import errors as er
from antiphon.spec.error_paths import decode_error, describe
from tests.spec.validators import assert_valid


@pytest.mark.parametrize(
    ("made", "kind", "status"),
    [
        (er.server_error("m"), "server_error", 500),
        (er.invalid_request("m"), "invalid_request", 400),
        (er.invalid_param("p", "m"), "invalid_request", 400),
        (er.model_error("m"), "model_error", 500),
        (er.not_found("m"), "not_found", 404),
        (er.rate_limit("m"), "too_many_requests", 429),
    ],
    ids=["server_error", "invalid_request", "invalid_param", "model_error", "not_found", "rate_limit"],
)
def test_constructors(made: er.ErrorPayload, kind: str, status: int) -> None:
    """The type decides the status."""
    assert (made.type, made.message, made.status) == (kind, "m", status)
    assert_valid("ErrorPayload", json.loads(encode(made)))


def test_types_have_statuses() -> None:
    assert er.STATUS == {
        "server_error": 500,
        "invalid_request": 400,
        "not_found": 404,
        "model_error": 500,
        "too_many_requests": 429,
        "authentication_error": 401,
        "permission_denied": 403,
    }
    assert er.ErrorPayload("something_new", "m").status == 500


def test_any_code_is_allowed_and_the_known_ones_are_named() -> None:
    known = {
        er.INVALID_API_KEY,
        er.INSUFFICIENT_QUOTA,
        er.CONTEXT_LENGTH_EXCEEDED,
        er.INVALID_MODEL,
        er.CONTENT_FILTER,
        er.TOOL_EXECUTION_FAILED,
        er.TIMEOUT,
        er.RATE_LIMIT_EXCEEDED,
    }
    assert known == {
        "invalid_api_key",
        "insufficient_quota",
        "context_length_exceeded",
        "invalid_model",
        "content_filter",
        "tool_execution_failed",
        "timeout",
        "rate_limit_exceeded",
    }
    assert er.model_error("m").with_code("made_up").code == "made_up"


def test_code_and_param_chain() -> None:
    made = er.invalid_param("model", "Invalid model ID").with_code(er.INVALID_MODEL)
    assert json.loads(encode(made)) == {
        "type": "invalid_request",
        "message": "Invalid model ID",
        "code": "invalid_model",
        "param": "model",
    }
    assert er.invalid_request("m").with_param("p").param == "p"


def test_an_error_travels_in_its_envelopes() -> None:
    payload = er.not_found("gone").with_code("previous_response_not_found")
    body = json.loads(encode(er.ErrorBody(payload)))
    assert body["error"]["code"] == "previous_response_not_found"
    envelope = json.loads(encode(er.WebSocketError.of(payload)))
    assert_valid("WebSocketErrorEvent", envelope)
    assert (envelope["type"], envelope["status"]) == ("error", 404)
    nameless = json.loads(encode(er.WebSocketError.of(er.server_error("it broke"))))
    assert_valid("WebSocketErrorEvent", nameless)
    assert (nameless["status"], nameless["error"]["code"]) == (500, "server_error")
    with_headers = er.ErrorPayload("too_many_requests", "m", headers={"retry-after": "1"})
    assert_valid("ErrorPayload", json.loads(encode(with_headers)))


def test_a_spec_error_carries_its_payload_and_status() -> None:
    error = SpecError(er.not_found("gone"))
    assert (str(error), error.status, error.payload.type) == ("gone", 404, "not_found")
    assert SpecError(er.invalid_request("too large"), 413).status == 413


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (-2.5, "-2.5"),
        (10**50, "a very long number"),
        ("Hi", "'Hi'"),
        ("x" * 60, repr("x" * 60)),
        ("x" * 61, "a string of 61 characters"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "an object of 1 fields"),
    ],
    ids=str,
)
def test_what_came_is_described_in_a_few_words(value: object, words: str) -> None:
    assert describe(value) == words


def test_a_spec_error_can_always_be_encoded() -> None:
    odd = er.ErrorPayload("\ud800", "a \udfff é", "b\ud83d", None)
    payload = er.SpecError(odd).payload
    assert msgspec.json.decode(msgspec.json.encode(payload)) == {
        "type": "\\ud800",
        "message": "a \\udfff é",
        "code": "b\\ud83d",
        "param": None,
    }


@pytest.mark.parametrize(
    "words",
    [
        "Wanted an integer",
        "Expected `int` >= lots",
        "Expected something - at `$[0]`",
        "Invalid enum value 5",
        "Expected `decimal` <= 5",
        "Expected `set` of length >= 2",
        "",
    ],
)
def test_words_of_msgspec_that_we_do_not_know_are_no_reason_to_fail(words: str) -> None:
    payload = decode_error(msgspec.ValidationError(words), int, b"[7]", "x").payload
    assert payload.param in ("x", "x[0]")
    assert payload.code == "invalid_value"
    assert payload.message.startswith("expected ")
    assert ", got " in payload.message


def test_an_unknown_complaint_is_a_plain_sentence() -> None:
    error = decode_error(msgspec.ValidationError("Wanted an integer"), int, b"7", "x")
    assert error.payload.message == "expected another value, got 7"
