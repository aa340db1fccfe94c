"""What goes wrong upstream, in our words: one place from a status, a body or a broken connection to an error.

The upstream's 401 is never the client's own, and no key ever stands in a message.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from antiphon.providers.base import UpstreamError
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import (
    CONTENT_FILTER,
    CONTEXT_LENGTH_EXCEEDED,
    INSUFFICIENT_QUOTA,
    MODEL_OVERLOADED,
    RATE_LIMIT_EXCEEDED,
    TIMEOUT,
    ErrorPayload,
)
from antiphon.spec.errors import UNSUPPORTED_CONTENT as UNSUPPORTED_CONTENT
from antiphon.wires.retry_after import retry_after

FORBIDDEN_ADDRESS = "forbidden_address"
UPSTREAM_AUTH = "upstream_auth"
UPSTREAM_CLOSED = "upstream_closed"
UPSTREAM_ERROR = "upstream_error"
UPSTREAM_INVALID = "upstream_invalid"
UPSTREAM_UNREACHABLE = "upstream_unreachable"
MODEL_NOT_FOUND = "model_not_found"
REQUEST_TOO_LARGE = "request_too_large"

_LONGEST_MESSAGE = 600
_LONGEST_NAME = 64
_REQUEST_IDS = (
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-ms-request-id",
    "cf-ray",
)

# How servers of this wire say it; some of them have no code for it and only words.
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|maximum context length"
    r"|context (length|window|size)|max_model_len|(prompt|input) (is|was) too long"
    r"|too[ _]many[ _]((input|prompt)[ _])?tokens"
    r"|reduce the length of (the messages|your prompt)|context the overflows"
    r"|max_new_tokens` must be|larger than the max.{0,20}context"
    r"|exceeds? (the )?context limit|too many total text bytes|input tokens exceed|input token count"
)
# The window is passed by the answer that was asked for, beside whatever input.
_LIMIT_TOO_LARGE = re.compile(r"max_(new_|completion_)?tokens\b[^.]{0,60}\btoo large")
_QUOTA = re.compile(
    r"insufficient_quota|insufficient[ _](balance|credits|funds)|exceeded your current quota"
    r"|billing_hard_limit|credit balance|out of credits|payment required|billing_error|spend[ _]limit"
    r"|(weekly|monthly) usage limit"
)
_RATE = re.compile(r"rate[ _-]?limit|too many requests|tokens per (minute|day)|requests per (minute|day)")
_FILTER = re.compile(
    r"content_filter|content_policy|responsibleaipolicy|content management policy|moderation|\bflagged\b"
    r"|content filtering"
)
_OVERLOADED = re.compile(
    r"overloaded|over capacity|no capacity|capacity exceeded|server is busy|loading model|insufficient_system"
)
_MODEL = re.compile(r"model|deploymentnotfound|no endpoints found for")
# Servers that call an unknown model a bad request have these words for it.
_UNKNOWN_MODEL = re.compile(
    r"\b(model_not_found|invalid_model|model_not_available)\b|\bis not a valid model\b|\bunknown model\b"
    r"|\binvalid model( name\b|: | ['`\"])|\bmodel (identifier is invalid|not found\b|not exist\b)"
    r"|\bmodel (\S{1,200} )?does not exist\b"
)
_NO_PATH = re.compile(r"unexpected endpoint or method")
_AUTH = re.compile(r"authentication|invalid[ _]api[ _]key|unauthori[sz]ed|permission")
_BAD_KEY = re.compile(r"api[ _]key[ _](not[ _]valid|invalid|expired|not[ _]found)|incorrect api[ _]key")
_BAD = re.compile(r"invalid_request|badrequest|bad request|invalid value|validation")
_KEYS = re.compile(r"(?i)\b(bearer\s+|(sk|gsk|pk|xai|tgp|nvapi|key)[-_]|AIza|ya29\.)[\w.*-]{6,}")
# Where Anthropic says that a request is wrong: `messages.3.content.0: …`.
_PLACE = re.compile(
    r"(model|system|messages|tools|tool_choice|thinking|output_config|max_tokens|stop_sequences|metadata"
    r"|temperature|top_p|top_k)[\w.]*(?=: )"
)
_DELAY = re.compile(r"(?:try again in|retry after) (\d{1,6}(?:\.\d+)?) ?(ms|m|s)(?:ec|in|\b)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{1,63}")

# AWS names its errors in a header, and these mean something else than their status.
_NAMED_STATUSES = {
    "ModelErrorException": 502,
    "ModelNotReadyException": 503,
    "ModelStreamErrorException": 502,
    "ServiceQuotaExceededException": 402,
}

# Their parameters under the names that our client used.
_PARAMS = {
    "messages": "input",
    "prompt": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "logprobs": "top_logprobs",
    "functions": "tools",
    "stop_sequences": "stop",
    "system": "instructions",
    "thinking": "reasoning",
    "function_call": "tool_choice",
    "user": "safety_identifier",
}


class AddressNotFound(UpstreamError):
    """The upstream has nothing at this address; it may speak another wire."""


@dataclass(frozen=True, slots=True)
class _ErrorBody:
    """What an error body says, whatever its shape."""

    message: str = ""
    code: str = ""
    type: str = ""
    param: str = ""
    status: int | None = None
    retry_after: float | None = None
    own_code: str = ""
    """The code alone, also where it is a number; `code` may be the type."""

    @property
    def names_itself(self) -> bool:
        return bool(self.type or self.own_code)

    @property
    def words(self) -> str:
        return f"{self.code} {self.type} {self.message}".lower()


class ForbiddenAddress(UpstreamError):
    """An address outside the public internet, where only public ones may be fetched."""


def from_response(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, *, secrets: Collection[str] = ()
) -> UpstreamError:
    """The error for an answer whose status is not a success."""
    if 300 <= status < 400:
        message = f"it redirects to another address (HTTP {status}); set base_url to that address"
        return _error(provider, "server_error", UPSTREAM_ERROR, message, 502)
    parsed = _with_aws_name(_read(body), headers)
    error = _classify(provider, status, parsed, secrets)
    add_request_id(error.payload, headers)
    error.payload.message = _mask_secrets(secrets, error.payload.message)
    if error.status in (429, 503):
        said = (retry_after(headers), parsed.retry_after, _delay_in(parsed.message))
        error.retry_after = next((seconds for seconds in said if seconds is not None), None)
    return error


def add_request_id(error: ErrorPayload, headers: Mapping[str, str]) -> None:
    """So that the upstream's own support can find what went wrong there."""
    if found := request_id(headers):
        error.message += f" (upstream request id {found})"


def from_error_object(provider: str, error: object, *, secrets: Collection[str] = ()) -> UpstreamError:
    """The error for an error object that the upstream sent after it had answered with success."""
    parsed = _parse(error)
    return _classify(provider, parsed.status or _implied_status(parsed.words), parsed, secrets)


def unreachable(provider: str, why: str) -> UpstreamError:
    return _error(provider, "server_error", UPSTREAM_UNREACHABLE, why, 502)


def timed_out(provider: str, what: str, seconds: float) -> UpstreamError:
    return _error(provider, "server_error", TIMEOUT, f"{what} within {seconds:g} s", 504)


def closed(provider: str, when: str) -> UpstreamError:
    return _error(provider, "server_error", UPSTREAM_CLOSED, f"the connection was closed {when}", 502)


def invalid(provider: str, why: str) -> UpstreamError:
    return _error(provider, "server_error", UPSTREAM_INVALID, why, 502)


def forbidden(provider: str, host: str) -> ForbiddenAddress:
    """The error for an address of a caller, who may name only public ones, that is not public."""
    payload = ErrorPayload(
        "invalid_request",
        f"{provider}: {host} does not lead to a public address, and no other may be fetched",
        FORBIDDEN_ADDRESS,
    )
    return ForbiddenAddress(payload, 400)


def unsupported(provider: str, param: str, why: str) -> UpstreamError:
    """The error for a part of the request that this provider cannot take."""
    return _error(provider, "invalid_request", UNSUPPORTED_CONTENT, why, 400, param)


def _error(
    provider: str, type_: str, code: str, message: str, status: int, param: str | None = None
) -> UpstreamError:
    return UpstreamError(ErrorPayload(type_, f"{provider}: {message}", code, param), status)


def _classify(provider: str, status: int, parsed: _ErrorBody, secrets: Collection[str]) -> UpstreamError:
    """The error in our words, with the provider's own beside them."""
    parsed = replace(
        parsed, code=_mask_secrets(secrets, parsed.code), param=_mask_secrets(secrets, parsed.param)
    )
    error = _in_our_words(provider, status, parsed, secrets)
    is_secret = error.payload.code == UPSTREAM_AUTH
    message = error.payload.message if is_secret else scrub(parsed.message, secrets)
    error.payload.original = ErrorPayload(
        scrub(parsed.type, secrets)[:_LONGEST_NAME] or error.payload.type,
        message or error.payload.message,
        scrub(parsed.own_code, secrets)[:_LONGEST_NAME] or None
        if parsed.names_itself
        else error.payload.code,
        error.payload.param,
    )
    return error


def _in_our_words(provider: str, status: int, parsed: _ErrorBody, secrets: Collection[str]) -> UpstreamError:
    status = _NAMED_STATUSES.get(parsed.type, status)
    words = parsed.words
    said = scrub(parsed.message, secrets) or "it gave no reason"

    def error(type_: str, code: str, as_status: int, text: str = said) -> UpstreamError:
        return _error(provider, type_, code, text, as_status, _param(parsed.param))

    limited = status == 429 or parsed.code == RATE_LIMIT_EXCEEDED
    if not limited and _OVERFLOW.search(words):
        found = error("invalid_request", CONTEXT_LENGTH_EXCEEDED, 400)
        found.payload.param = "max_output_tokens" if _LIMIT_TOO_LARGE.search(words) else "input"
        return found
    # Google speaks of a quota also where it says when to come back.
    if status == 402 or (_QUOTA.search(words) and parsed.retry_after is None):
        return error("too_many_requests", INSUFFICIENT_QUOTA, 429)
    if limited or (status >= 500 and _RATE.search(words)):
        return error("too_many_requests", RATE_LIMIT_EXCEEDED, 429)
    if status in (400, 403) and _FILTER.search(words):
        return error("invalid_request", CONTENT_FILTER, 400)
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(words)):
        # Their words are left out: they like to quote a part of the key.
        text = f"it did not accept the gateway's credentials (HTTP {status}); check its api_key"
        return _error(provider, "server_error", UPSTREAM_AUTH, text, 502)
    unknown = status in (400, 422) and _UNKNOWN_MODEL.search(words)
    if unknown or (status == 404 and _MODEL.search(words)):
        found = error("not_found", MODEL_NOT_FOUND, 404)
        found.payload.param = "model"
        return found
    if status == 404 or _NO_PATH.search(words):
        text = f"not found (HTTP 404): {said}; check its base_url"
        found = error("server_error", UPSTREAM_ERROR, 502, text)
        return AddressNotFound(found.payload, found.status)
    if status in (498, 503, 529) or (status >= 500 and _OVERLOADED.search(words)):
        return error("server_error", MODEL_OVERLOADED, 503)
    if status in (408, 504, 524):
        return error("server_error", TIMEOUT, 504, f"it stopped waiting (HTTP {status}): {said}")
    if status == 413:
        return error("invalid_request", REQUEST_TOO_LARGE, 413)
    if 400 <= status < 500:
        return error("invalid_request", parsed.code or "upstream_rejected", 400)
    return error("model_error", UPSTREAM_ERROR, 500)


def _implied_status(words: str) -> int:
    if _RATE.search(words):
        return 429
    if _AUTH.search(words):
        return 401
    return 400 if _BAD.search(words) else 500


def _read(body: bytes) -> _ErrorBody:
    try:
        return _parse(msgspec.json.decode(body))
    except UNREADABLE:
        text = body.decode("utf-8", "replace").strip()
        return _ErrorBody("" if text.startswith("<") else text)


def _parse(value: Any) -> _ErrorBody:
    if isinstance(value, list) and value:
        return _parse(value[0])
    if isinstance(value, str):
        return _ErrorBody(value)
    if not isinstance(value, dict):
        return _ErrorBody()
    for name in ("error", "detail") if "message" in value else ("error", "errors", "detail"):
        if isinstance(inner := value.get(name), dict | list | str) and inner:
            return _parse(inner)
    raw_code, raw_type = value.get("code"), value.get("type") or value.get("status")
    messages = (value.get(name) for name in ("message", "msg", "Message", "description"))
    message = next((text for text in messages if isinstance(text, str)), "")
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        message = f"{message}: {metadata['raw']}"
    if filtered := _describe_filter(value.get("innererror")):
        message = f"{message} ({filtered})"
    status = raw_code if isinstance(raw_code, int) and 400 <= raw_code < 600 else None
    code = next((one for one in (raw_code, raw_type) if isinstance(one, str) and _CODE.fullmatch(one)), "")
    param = value.get("param")
    if raw_type == "invalid_request_error" and param is None and (place := _PLACE.match(message)):
        param = place[0]
    return _ErrorBody(
        message=message,
        code=code,
        type=raw_type if isinstance(raw_type, str) else "",
        param=param if isinstance(param, str) else "",
        status=status,
        retry_after=_retry_delay(value.get("details")),
        own_code=str(raw_code) if isinstance(raw_code, str | int) and raw_code else "",
    )


def _retry_delay(details: object) -> float | None:
    """Google's `RetryInfo`: `{"retryDelay": "37s"}`."""
    for one in details if isinstance(details, list) else ():
        delay = one.get("retryDelay") if isinstance(one, dict) else None
        if isinstance(delay, str) and re.fullmatch(r"\d{1,6}(\.\d+)?s", delay):
            return float(delay[:-1])
    return None


def _delay_in(message: str) -> float | None:
    """OpenAI's `Please try again in 1.5s`, Azure's `Please retry after 26 seconds`."""
    found = _DELAY.search(message.lower())
    return float(found[1]) * _UNITS[found[2]] if found else None


def _describe_filter(inner: object) -> str:
    """Say what Azure's filter found in a prompt: `hate: high`."""
    results = inner.get("content_filter_result") if isinstance(inner, dict) else None
    if not isinstance(results, dict):
        return ""
    return ", ".join(
        f"{category}: {verdict.get('severity', 'detected')}"
        for category, verdict in results.items()
        if isinstance(verdict, dict) and (verdict.get("filtered") or verdict.get("detected"))
    )


def _with_aws_name(parsed: _ErrorBody, headers: Mapping[str, str]) -> _ErrorBody:
    """Take the name of an AWS error from its header, where a colon and an address may follow it."""
    name = headers.get("x-amzn-errortype", "").partition(":")[0]
    return replace(parsed, code=name, type=name, own_code="") if _CODE.fullmatch(name) else parsed


def scrub(text: str, secrets: Collection[str]) -> str:
    """The text on one line, not too long, and without anything that looks like a key."""
    text = _KEYS.sub(r"\1********", " ".join(_mask_secrets(secrets, text).split()))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def _mask_secrets(secrets: Collection[str], text: str) -> str:
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "********")
    return text


def _param(name: str) -> str | None:
    root = re.split(r"[.\[]", name, maxsplit=1)[0]
    if not root:
        return None
    return _PARAMS.get(root, name[:200])


def request_id(headers: Mapping[str, str]) -> str:
    """The upstream's own id for a request, if its answer has one."""
    found = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), "")
    return found if re.fullmatch(r"[\x21-\x7e]{1,100}", found) else ""
