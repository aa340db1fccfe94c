"""What each provider says when it refuses, and what our client is told.

Shapes and codes are those that the providers document. The words of a message are theirs where they, or the
reports of their users, could be found; the others are plain ones, and only the status or the code counts.
"""

import json
from typing import Any, NamedTuple

import pytest

from antiphon.providers import errors
from antiphon.providers.registry import OURS


class Case(NamedTuple):
    provider: str
    code: str
    status: int
    body: Any
    headers: dict[str, str] | None = None
    retry_after: float | None = None


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(code: int, status: str, message: str, *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def writer(description: str, tpe: str = "BadRequest") -> dict[str, Any]:
    return {"tpe": tpe, "errors": [{"description": description, "key": "fail.message"}], "extras": {}}


def aws(name: str) -> dict[str, str]:
    return {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/"}


LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
SOON = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000. Please try again in 1.5s."
BROKE = "You exceeded your current quota, please check your plan and billing details."
AZURE_RATE = (
    "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have "
    "exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds."
)
AZURE_FILTER = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
)
GOOGLE_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}
AWS_LONG = "The model returned the following errors: prompt is too long: 227255 tokens > 200000 maximum"

_OPENAI: list[tuple[str, int, Any, dict[str, str], float | None]] = [
    ("context_length_exceeded", 400, openai(LONG, "context_length_exceeded"), {}, None),
    ("rate_limit_exceeded", 429, openai(SOON, "rate_limit_exceeded", "tokens"), {}, 1.5),
    ("rate_limit_exceeded", 429, openai(SOON, "rate_limit_exceeded"), {"retry-after": "20"}, 20.0),
    ("insufficient_quota", 429, openai(BROKE, "insufficient_quota", "insufficient_quota"), {}, None),
    ("content_filter", 400, openai("Your request was rejected.", "content_policy_violation"), {}, None),
    ("model_overloaded", 503, openai("The engine is currently overloaded.", None, "server_error"), {}, None),
]
_GOOGLE: list[tuple[str, int, Any, dict[str, str], float | None]] = [
    ("context_length_exceeded", 400, google(400, "INVALID_ARGUMENT", GOOGLE_LONG), {}, None),
    ("rate_limit_exceeded", 429, google(429, "RESOURCE_EXHAUSTED", BROKE, RETRY), {}, 37.0),
    ("rate_limit_exceeded", 429, google(429, "RESOURCE_EXHAUSTED", "Resource exhausted."), {}, None),
    ("insufficient_quota", 429, google(429, "RESOURCE_EXHAUSTED", BROKE), {}, None),
    ("model_overloaded", 503, google(503, "UNAVAILABLE", "The model is overloaded."), {}, None),
]
CASES = [
    *(Case(provider, *case) for provider in ("chat", "responses") for case in _OPENAI),
    *(Case(provider, *case) for provider in ("gemini", "vertex") for case in _GOOGLE),
    Case("azure", "context_length_exceeded", 400, openai(LONG, "context_length_exceeded")),
    Case("azure", "rate_limit_exceeded", 429, openai(AZURE_RATE, "429"), {"retry-after-ms": "1500"}, 1.5),
    Case("azure", "rate_limit_exceeded", 429, openai(AZURE_RATE, "429"), {}, 26.0),
    Case("azure", "insufficient_quota", 429, openai(BROKE, "insufficient_quota")),
    Case("azure", "content_filter", 400, openai(AZURE_FILTER, "content_filter")),
    Case("azure", "model_overloaded", 503, openai("The service is temporarily unable to process it.", "503")),
    Case(
        "anthropic",
        "context_length_exceeded",
        400,
        anthropic("invalid_request_error", "prompt is too long: 209303 tokens > 200000 maximum"),
    ),
    Case(
        "anthropic",
        "rate_limit_exceeded",
        429,
        anthropic("rate_limit_error", "This request would exceed your organization's rate limit."),
        {"retry-after": "12"},
        12.0,
    ),
    Case("anthropic", "insufficient_quota", 402, anthropic("billing_error", "Your billing needs attention.")),
    Case(
        "anthropic",
        "insufficient_quota",
        400,
        anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    ),
    Case(
        "anthropic",
        "content_filter",
        400,
        anthropic("invalid_request_error", "Output blocked by content filtering policy"),
    ),
    Case("anthropic", "model_overloaded", 529, anthropic("overloaded_error", "Overloaded")),
    Case("bedrock", "context_length_exceeded", 400, {"message": AWS_LONG}, aws("ValidationException")),
    Case(
        "bedrock",
        "context_length_exceeded",
        400,
        {"message": "Input is too long for requested model."},
        aws("ValidationException"),
    ),
    Case(
        "bedrock",
        "rate_limit_exceeded",
        429,
        {"message": "Too many tokens, please wait before trying again."},
        aws("ThrottlingException") | {"retry-after": "3"},
        3.0,
    ),
    Case(
        "bedrock",
        "insufficient_quota",
        400,
        {"message": "Your request exceeds the service quota for your account."},
        aws("ServiceQuotaExceededException"),
    ),
    Case("bedrock", "model_overloaded", 429, {"message": "Not ready."}, aws("ModelNotReadyException")),
    Case("bedrock", "model_overloaded", 503, {"message": "Busy."}, aws("ServiceUnavailableException")),
    Case("ollama", "context_length_exceeded", 400, {"error": "the input length exceeds the context length"}),
    Case("ollama", "rate_limit_exceeded", 429, {"error": "too many requests"}, {"retry-after": "5"}, 5.0),
    Case(
        "ollama",
        "insufficient_quota",
        429,
        {"error": "you (me) have reached your weekly usage limit, upgrade for higher limits"},
    ),
    Case(
        "ollama",
        "model_overloaded",
        503,
        {"error": "server busy, please try again.  maximum pending requests exceeded"},
    ),
    Case("writer", "context_length_exceeded", 400, writer("Input exceeds the context window of the model")),
    Case(
        "writer",
        "rate_limit_exceeded",
        429,
        writer("Slow down", "TooManyRequests"),
        {"retry-after": "2"},
        2.0,
    ),
    Case("writer", "model_overloaded", 503, writer("Try again later", "ServiceUnavailable")),
]
STATUSES = {
    "context_length_exceeded": 400,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "content_filter": 400,
    "model_overloaded": 503,
}
SILENT = {
    # Their filters end an answer, as the scenario `filter` shows, and refuse no request.
    ("bedrock", "content_filter"),
    ("gemini", "content_filter"),
    ("vertex", "content_filter"),
    # It has no filter.
    ("ollama", "content_filter"),
    # Its documentation names neither.
    ("writer", "content_filter"),
    ("writer", "insufficient_quota"),
}


IDS = [f"{n}-{case.provider}-{case.code}" for n, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_refusal_is_recognised(case: Case) -> None:
    found = errors.from_response(
        case.provider, case.status, case.headers or {}, json.dumps(case.body).encode()
    )
    assert (found.payload.code, found.status) == (case.code, STATUSES[case.code])
    assert found.retry_after == case.retry_after
    assert found.payload.message.startswith(f"{case.provider}: ")


def test_every_provider_has_every_refusal() -> None:
    there = {(case.provider, case.code) for case in CASES} | SILENT
    wanted = {(kind, code) for kind in set(OURS) - {"llama", "script"} for code in STATUSES}
    assert wanted <= there


@pytest.mark.parametrize("provider", sorted(set(OURS) - {"llama", "script"}))
@pytest.mark.parametrize("status", [401, 403])
def test_the_upstreams_401_is_never_the_clients_own(provider: str, status: int) -> None:
    body = openai("Incorrect API key provided: sk-very-secret", "invalid_api_key")
    found = errors.from_response(provider, status, {"x-request-id": "req_7"}, json.dumps(body).encode())
    assert (found.status, found.payload.code) == (502, "upstream_auth")
    assert "secret" not in found.payload.message
    assert "req_7" in found.payload.message
