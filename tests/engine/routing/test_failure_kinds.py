"""What kind of failure an error is: what an upstream answered, and what is known of an error without it."""

import pytest

from antiphon.engine.failures import CLOSED
from antiphon.engine.routing.failure_kinds import kind_of
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import UNSUPPORTED_CONTENT, UNSUPPORTED_PARAMETER, ErrorPayload


def kind(error: UpstreamError) -> str:
    return kind_of(error.payload, error.status)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (408, "", "timeout"),
        (504, "", "timeout"),
        (524, "", "timeout"),
        (429, "", "rate_limit"),
        (429, "insufficient_quota", "rate_limit"),
        (400, "your credit balance is too low", "rate_limit"),
        (402, "", "rate_limit"),
        (500, "rate limit reached", "rate_limit"),
        (498, "", "overloaded"),
        (503, "", "overloaded"),
        (529, "", "overloaded"),
        (500, "the engine is overloaded", "overloaded"),
        (500, "", "server_error"),
        (502, "", "server_error"),
        (307, "", "server_error"),
        (404, "", "server_error"),
        (404, "the model x does not exist", "server_error"),
        (401, "", "auth"),
        (403, "", "auth"),
        (400, "API key not valid", "auth"),
        (400, "this is wrong", "request"),
        (413, "", "request"),
        (422, "", "request"),
        (400, "content_filter", "request"),
        (400, "maximum context length is 8192 tokens", "too_long"),
    ],
)
def test_what_an_upstream_answers(status: int, message: str, expected: str) -> None:
    body = b'{"error": {"message": "%b"}}' % message.encode()
    assert kind(errors.from_response("p", status, {}, body)) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.unreachable("p", "no route to host"), "connection"),
        (errors.closed("p", "before it had answered"), "connection"),
        (UpstreamError(CLOSED, 502), "connection"),
        (errors.timed_out("p", "no answer came", 30), "timeout"),
        (errors.invalid("p", "its answer is no JSON"), "server_error"),
        (errors.unsupported("p", "input", "it takes no pictures"), "unsupported"),
        (errors.forbidden("p", "localhost"), "request"),
    ],
)
def test_what_goes_wrong_without_an_answer(error: UpstreamError, expected: str) -> None:
    assert kind(error) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("upstream_unreachable", "connection"),
        ("upstream_closed", "connection"),
        ("timeout", "timeout"),
        ("rate_limit_exceeded", "rate_limit"),
        ("insufficient_quota", "rate_limit"),
        ("model_overloaded", "overloaded"),
        ("upstream_auth", "auth"),
        ("model_not_found", "server_error"),
        ("upstream_error", "server_error"),
        ("upstream_invalid", "server_error"),
        ("context_length_exceeded", "too_long"),
    ],
)
def test_a_code_says_more_than_a_status(code: str, expected: str) -> None:
    for status in (0, 400, 404, 418, 500):
        assert kind_of(ErrorPayload("any", "no", code), status) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "request"),
        (401, "request"),
        (404, "request"),
        (408, "timeout"),
        (429, "rate_limit"),
        (499, "request"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "overloaded"),
        (504, "timeout"),
        (529, "overloaded"),
        (599, "server_error"),
    ],
)
def test_a_status_decides_where_the_code_says_nothing(status: int, expected: str) -> None:
    for code in (None, "a_code_of_tomorrow"):
        assert kind_of(ErrorPayload("any", "no", code), status) == expected


def test_an_error_at_the_end_of_an_answer_has_the_status_of_its_type() -> None:
    assert kind_of(ErrorPayload("invalid_request", "no")) == "request"
    assert kind_of(ErrorPayload("too_many_requests", "no")) == "rate_limit"
    assert kind_of(ErrorPayload("server_error", "no")) == "server_error"


@pytest.mark.parametrize("code", [UNSUPPORTED_CONTENT, UNSUPPORTED_PARAMETER])
def test_only_what_was_refused_before_it_was_sent_is_asked_of_another(code: str) -> None:
    ours = ErrorPayload("invalid_request", "no", code)
    assert kind_of(ours, 400) == "unsupported"
    theirs = ErrorPayload("invalid_request", "no", code)
    theirs.original = ErrorPayload("invalid_request", "no", code)
    assert kind_of(theirs, 400) == "request"
