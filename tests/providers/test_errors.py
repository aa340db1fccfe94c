"""What upstreams say when they refuse, in their own words, and what our client is told."""

import json
from email.utils import formatdate
from time import time
from typing import Any

import pytest

from antiphon.providers import errors
from antiphon.spec.codec import encode
from tests.providers.chat.wire import error


def body(message: str, **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


@pytest.mark.parametrize(
    ("status", "told"),
    [
        # Mistral
        (
            400,
            b'{"object": "error", "message": "Invalid model: m", "type": "invalid_model", "param": null,'
            b' "code": "1500"}',
        ),
        # OpenRouter
        (400, b'{"error": {"message": "m is not a valid model ID", "code": 400}, "user_id": "user_1"}'),
        (404, b'{"error": {"message": "No endpoints found for maker/m.", "code": 404}}'),
        # xAI
        (400, b'{"code": "Client specified an invalid argument", "error": "Model not found: m"}'),
        (404, b'{"code": "Some entity was not found", "error": "The model m does not exist"}'),
        # DeepSeek
        (400, error("Model Not Exist", code="invalid_request_error")),
        # Perplexity
        (400, body("Invalid model 'm'. Permitted models are in the documentation.", type="invalid_model")),
        # Together
        (400, error("Unable to access non-serverless model m.", code="model_not_available")),
        # Z.ai
        (400, error("Unknown Model, please check the model code.", code="1211")),
        # LiteLLM
        (400, body("400: {'error': 'Invalid model name passed in model=m'}", code=400)),
        # Bedrock
        (400, b'{"message": "The provided model identifier is invalid."}'),
        (422, body("The model `m` does not exist")),
    ],
)
def test_an_unknown_model_is_not_found_however_the_server_says_it(status: int, told: bytes) -> None:
    found = errors.from_response("up", status, {}, told)
    assert (found.status, found.payload.type, found.payload.code, found.payload.param) == (
        404,
        "not_found",
        "model_not_found",
        "model",
    )


@pytest.mark.parametrize(
    "message",
    [
        "This model does not support the parameter 'stop'.",
        "Invalid model output for tool 'find'.",
        "tools[0]: the field model_name is unknown",
        "The file does not exist; this model needs one",
    ],
)
def test_a_bad_request_that_mentions_a_model_stays_one(message: str) -> None:
    found = errors.from_response("up", 400, {}, body(message))
    assert (found.status, found.payload.type) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("status", "told", "expected"),
    [
        # authentication: never the client's own 401
        (
            401,
            error("Incorrect API key provided: sk-abc.", code="invalid_api_key"),
            (502, "server_error", "upstream_auth"),
        ),
        (403, b"Forbidden", (502, "server_error", "upstream_auth")),
        (
            400,
            b'{"code": "invalid-argument", "error": "Incorrect API key provided. Get one at the console."}',
            (502, "server_error", "upstream_auth"),
        ),
        # a model that is not there, also where it is a bad request
        (
            400,
            error("The requested model 'x' does not exist.", code="model_not_found", param="model"),
            (404, "not_found", "model_not_found"),
        ),
        # context overflow, with a code or only in words
        (
            400,
            b'{"error": {"message": "Too big.", "type": "too_many_prompt_tokens", "code": 400}}',
            (400, "invalid_request", "context_length_exceeded"),
        ),
        (
            400,
            error("too long", code="context_length_exceeded"),
            (400, "invalid_request", "context_length_exceeded"),
        ),
        (
            400,
            body(
                "the request exceeds the available context size",
                type="exceed_context_size_error",
                code=400,
                n_ctx=4096,
            ),
            (400, "invalid_request", "context_length_exceeded"),
        ),
        (
            400,
            b'{"object":"error","message":"maximum context length is 9","type":"BadRequest","code":400}',
            (400, "invalid_request", "context_length_exceeded"),
        ),
        (
            400,
            error(
                "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context "
                "length is 8192 tokens and your request has 20 input tokens (9000 > 8192 - 20)."
            ),
            (400, "invalid_request", "context_length_exceeded"),
        ),
        (413, body("Prompt is too long"), (400, "invalid_request", "context_length_exceeded")),
        (500, b"the context window is full", (400, "invalid_request", "context_length_exceeded")),
        # rates and quotas
        (
            429,
            error("Rate limit reached", code="rate_limit_exceeded"),
            (429, "too_many_requests", "rate_limit_exceeded"),
        ),
        (429, b"", (429, "too_many_requests", "rate_limit_exceeded")),
        (
            429,
            error("You exceeded your current quota", code="insufficient_quota"),
            (429, "too_many_requests", "insufficient_quota"),
        ),
        (402, body("Insufficient Balance"), (429, "too_many_requests", "insufficient_quota")),
        (
            413,
            error("Request too large: tokens per minute, context length", code="rate_limit_exceeded"),
            (429, "too_many_requests", "rate_limit_exceeded"),
        ),
        # what is asked for
        (
            404,
            error("The model `x` does not exist", code="model_not_found"),
            (404, "not_found", "model_not_found"),
        ),
        (404, b'{"detail":"Not Found"}', (502, "server_error", "upstream_error")),
        (400, body("flagged by moderation"), (400, "invalid_request", "content_filter")),
        (403, body("Input was flagged", code=403), (400, "invalid_request", "content_filter")),
        (
            400,
            error("bad", code="content_policy_violation"),
            (400, "invalid_request", "content_filter"),
        ),
        (
            400,
            error("Unknown parameter", code="unknown_parameter"),
            (400, "invalid_request", "unknown_parameter"),
        ),
        (
            422,
            b'{"detail":[{"loc":["body","messages"],"msg":"field required"}]}',
            (400, "invalid_request", "upstream_rejected"),
        ),
        (413, b"", (413, "invalid_request", "request_too_large")),
        # the server's own trouble
        (500, body("boom"), (500, "model_error", "upstream_error")),
        (502, b"<html>Bad gateway</html>", (500, "model_error", "upstream_error")),
        (503, body("Loading model"), (503, "server_error", "model_overloaded")),
        (529, body("x"), (503, "server_error", "model_overloaded")),
        (500, body("The model is overloaded"), (503, "server_error", "model_overloaded")),
        (504, b"", (504, "server_error", "timeout")),
        (408, b"", (504, "server_error", "timeout")),
        (302, b"", (502, "server_error", "upstream_error")),
    ],
)
def test_refusals(status: int, told: bytes, expected: tuple[int, str, str]) -> None:
    found = errors.from_response("groq", status, {}, told)
    assert (found.status, found.payload.type, found.payload.code) == expected
    assert found.payload.message.startswith("groq: ")


def test_the_upstreams_words_are_kept() -> None:
    found = errors.from_response("p", 400, {}, body("temperature must be at most 2", param="temperature"))
    assert found.payload.message == "p: temperature must be at most 2"
    assert found.payload.param == "temperature"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("messages[2].content", "input"),
        ("max_tokens", "max_output_tokens"),
        ("response_format", "text.format"),
        ("tools[0].function.name", "tools[0].function.name"),
        ("", None),
    ],
)
def test_parameters_have_our_names(theirs: str, ours: str | None) -> None:
    assert errors.from_response("p", 400, {}, body("no", param=theirs)).payload.param == ours


def test_a_wrapped_error_is_unwrapped() -> None:
    raw = '{"error":{"message":"tokens exceed the context window"}}'
    told = body("Provider returned error", code=400, metadata={"raw": raw, "provider_name": "X"})
    assert errors.from_response("p", 400, {}, told).payload.code == "context_length_exceeded"


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_no_key_is_ever_told(status: int) -> None:
    told = body("bad key hunter2222, Bearer abcdef123456, gsk_abcdef123456 and sk-proj-abcdef123456")
    message = errors.from_response("p", status, {}, told, secrets=["hunter2222"]).payload.message
    assert "hunter2222" not in message
    assert "abcdef" not in message


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500])
@pytest.mark.parametrize("field", ["message", "code", "type", "param", "x-request-id"])
def test_no_key_is_told_wherever_it_stands(status: int, field: str) -> None:
    """The code, the parameter and the id of the request were passed on as they came."""
    told = json.dumps(
        {"error": {"message": "no", "type": "x", "code": "x", field: "the.key-of-ours"}}
    ).encode()
    refused = errors.from_response("p", status, {field: "the.key-of-ours"}, told, secrets=["the.key-of-ours"])
    assert "the.key-of-ours" not in encode(refused.payload).decode()
    assert "the.key-of-ours" not in encode(refused.payload.original).decode()


def test_a_long_answer_is_cut() -> None:
    message = errors.from_response("p", 500, {}, b"x" * 100_000).payload.message
    assert len(message) < 700


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "0", "retry-after": "20"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert errors.from_response("p", 429, headers, b"").retry_after == seconds
    assert errors.from_response("p", 400, headers, b"").retry_after is None


def test_a_retry_after_of_nothing_wins_over_what_the_body_says() -> None:
    body = b'{"error": {"message": "Please try again in 20s"}}'
    assert errors.from_response("p", 429, {"retry-after": "0"}, body).retry_after == 0
    assert errors.from_response("p", 429, {}, body).retry_after == 20
    now = b'{"error": {"message": "Please try again in 20s", "details": [{"retryDelay": "0s"}]}}'
    assert errors.from_response("p", 429, {}, now).retry_after == 0


def test_retry_after_as_a_date() -> None:
    seconds = errors.from_response(
        "p", 503, {"retry-after": formatdate(time() + 60, usegmt=True)}, b""
    ).retry_after
    assert seconds is not None
    assert 50 < seconds <= 60


def test_the_upstreams_request_id_is_kept() -> None:
    found = errors.from_response("p", 500, {"x-request-id": "req_7"}, b"boom")
    assert found.payload.message == "p: boom (upstream request id req_7)"
    assert "id" not in errors.from_response("p", 500, {"x-request-id": "two words"}, b"boom").payload.message


@pytest.mark.parametrize("told", [b"[]", b"null", b"7", b'{"error":[]}', b'{"error":{"message":7}}', b"\xff"])
def test_strange_bodies_are_survived(told: bytes) -> None:
    assert errors.from_response("p", 500, {}, told).payload.code == "upstream_error"
