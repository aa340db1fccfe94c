"""What goes wrong upstream, in our words: one place from a status, a body or a broken connection to an error.

The upstream's 401 is never the client's own, and no key ever stands in a message.
"""

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import (
    CONTENT_FILTER,
    CONTEXT_LENGTH_EXCEEDED,
    INSUFFICIENT_QUOTA,
    RATE_LIMIT_EXCEEDED,
    TIMEOUT,
    ErrorPayload,
)

UPSTREAM_AUTH = "upstream_auth"
UPSTREAM_CLOSED = "upstream_closed"
UPSTREAM_ERROR = "upstream_error"
UPSTREAM_INVALID = "upstream_invalid"
UPSTREAM_UNREACHABLE = "upstream_unreachable"
MODEL_NOT_FOUND = "model_not_found"
MODEL_OVERLOADED = "model_overloaded"
REQUEST_TOO_LARGE = "request_too_large"
UNSUPPORTED_CONTENT = "unsupported_content"

_LONGEST_MESSAGE = 600
_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")

# How servers of this wire say it; some of them have no code for it and only words.
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|maximum context length"
    r"|context (length|window|size)|max_model_len|(prompt|input) (is|was) too long|too many (input )?tokens"
    r"|reduce the length of (the messages|your prompt)|context the overflows"
    r"|max_new_tokens` must be|larger than the max.{0,20}context"
)
_QUOTA = re.compile(
    r"insufficient_quota|insufficient[ _](balance|credits|funds)|exceeded your current quota"
    r"|billing_hard_limit|credit balance|out of credits|payment required"
)
_RATE = re.compile(r"rate[ _-]?limit|too many requests|tokens per (minute|day)|requests per (minute|day)")
_FILTER = re.compile(
    r"content_filter|content_policy|responsibleaipolicy|content management policy|moderation|\bflagged\b"
)
_OVERLOADED = re.compile(
    r"overloaded|over capacity|no capacity|capacity exceeded|server is busy|loading model|insufficient_system"
)
_AUTH = re.compile(r"authentication|invalid[ _]api[ _]key|unauthori[sz]ed|permission")
_BAD = re.compile(r"invalid_request|badrequest|bad request|invalid value|validation")
_KEYS = re.compile(r"(?i)\b(bearer\s+|(sk|gsk|pk|xai|tgp|nvapi|key)[-_])[\w.*-]{6,}")
_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{1,63}")

# Their parameters under the names that our client used.
_PARAMS = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "logprobs": "top_logprobs",
    "functions": "tools",
    "function_call": "tool_choice",
    "user": "safety_identifier",
}


@dataclass(frozen=True, slots=True)
class _Told:
    """What an error body says, whatever its shape."""

    message: str = ""
    code: str = ""
    type: str = ""
    param: str = ""
    status: int | None = None

    @property
    def words(self) -> str:
        return f"{self.code} {self.type} {self.message}".lower()


def refused(
    provider: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Collection[str] = (),
) -> UpstreamError:
    """The upstream answered with something other than success."""
    if 300 <= status < 400:
        message = f"it redirects to another address (HTTP {status}); set base_url to that address"
        return _error(provider, "server_error", UPSTREAM_ERROR, message, 502)
    error = _classify(provider, status, _read(body), secrets)
    if request_id := _request_id(headers):
        error.payload.message += f" (upstream request id {request_id})"
    if error.status in (429, 503):
        error.retry_after = _retry_after(headers)
    return error


def reported(provider: str, error: object, *, secrets: Collection[str] = ()) -> UpstreamError:
    """The upstream said that something broke after it had answered with success."""
    told = _told(error)
    return _classify(provider, told.status or _implied_status(told.words), told, secrets)


def unreachable(provider: str, why: str) -> UpstreamError:
    return _error(provider, "server_error", UPSTREAM_UNREACHABLE, why, 502)


def timed_out(provider: str, what: str, seconds: float) -> UpstreamError:
    return _error(provider, "server_error", TIMEOUT, f"{what} within {seconds:g} s", 504)


def closed(provider: str, when: str) -> UpstreamError:
    return _error(provider, "server_error", UPSTREAM_CLOSED, f"the connection was closed {when}", 502)


def invalid(provider: str, why: str) -> UpstreamError:
    return _error(provider, "server_error", UPSTREAM_INVALID, why, 502)


def unsupported(provider: str, param: str, why: str) -> UpstreamError:
    """The request holds something that this provider cannot be given."""
    return _error(provider, "invalid_request", UNSUPPORTED_CONTENT, why, 400, param)


def _error(
    provider: str, type_: str, code: str, message: str, status: int, param: str | None = None
) -> UpstreamError:
    return UpstreamError(ErrorPayload(type_, f"{provider}: {message}", code, param), status)


def _classify(provider: str, status: int, told: _Told, secrets: Collection[str]) -> UpstreamError:
    words = told.words
    said = scrub(told.message, secrets) or "it gave no reason"

    def error(type_: str, code: str, as_status: int, text: str = said) -> UpstreamError:
        return _error(provider, type_, code, text, as_status, _param(told.param))

    limited = status == 429 or told.code == RATE_LIMIT_EXCEEDED
    if not limited and _OVERFLOW.search(words):
        found = error("invalid_request", CONTEXT_LENGTH_EXCEEDED, 400)
        found.payload.param = "input"
        return found
    if status == 402 or _QUOTA.search(words):
        return error("too_many_requests", INSUFFICIENT_QUOTA, 429)
    if limited or (status >= 500 and _RATE.search(words)):
        return error("too_many_requests", RATE_LIMIT_EXCEEDED, 429)
    if status in (400, 403) and _FILTER.search(words):
        return error("invalid_request", CONTENT_FILTER, 400)
    if status in (401, 403):
        # Their words are left out: they like to quote a part of the key.
        text = f"it did not accept the gateway's credentials (HTTP {status}); check its api_key"
        return _error(provider, "server_error", UPSTREAM_AUTH, text, 502)
    if status == 404 and "model" in words:
        found = error("not_found", MODEL_NOT_FOUND, 404)
        found.payload.param = "model"
        return found
    if status == 404:
        return error("server_error", UPSTREAM_ERROR, 502, f"not found (HTTP 404): {said}; check its base_url")
    if status in (498, 503, 529) or (status >= 500 and _OVERLOADED.search(words)):
        return error("server_error", MODEL_OVERLOADED, 503)
    if status in (408, 504, 524):
        return error("server_error", TIMEOUT, 504, f"it gave up waiting (HTTP {status}): {said}")
    if status == 413:
        return error("invalid_request", REQUEST_TOO_LARGE, 413)
    if 400 <= status < 500:
        return error("invalid_request", told.code or "upstream_rejected", 400)
    return error("model_error", UPSTREAM_ERROR, 502)


def _implied_status(words: str) -> int:
    if _RATE.search(words):
        return 429
    if _AUTH.search(words):
        return 401
    return 400 if _BAD.search(words) else 500


def _read(body: bytes) -> _Told:
    try:
        return _told(msgspec.json.decode(body))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        text = body.decode("utf-8", "replace").strip()
        return _Told("" if text.startswith("<") else text)


def _told(value: Any) -> _Told:
    if isinstance(value, list) and value:
        return _told(value[0])
    if isinstance(value, str):
        return _Told(value)
    if not isinstance(value, dict):
        return _Told()
    for name in ("error", "errors", "detail"):
        if isinstance(inner := value.get(name), dict | list | str) and inner:
            return _told(inner)
    raw_code, raw_type = value.get("code"), value.get("type")
    message = next((text for name in ("message", "msg") if isinstance(text := value.get(name), str)), "")
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        message = f"{message}: {metadata['raw']}"
    status = raw_code if isinstance(raw_code, int) and 400 <= raw_code < 600 else None
    code = next((one for one in (raw_code, raw_type) if isinstance(one, str) and _CODE.fullmatch(one)), "")
    param = value.get("param")
    return _Told(
        message=message,
        code=code,
        type=raw_type if isinstance(raw_type, str) else "",
        param=param if isinstance(param, str) else "",
        status=status,
    )


def scrub(text: str, secrets: Collection[str]) -> str:
    """The text on one line, not too long, and without anything that looks like a key."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "********")
    text = _KEYS.sub(r"\1********", " ".join(text.split()))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def _param(name: str) -> str | None:
    root = re.split(r"[.\[]", name, maxsplit=1)[0]
    if not root:
        return None
    return _PARAMS.get(root, name[:200])


def _request_id(headers: Mapping[str, str]) -> str:
    found = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), "")
    return found if re.fullmatch(r"[\x21-\x7e]{1,100}", found) else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from any of the three ways to say it."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        if value := headers.get("retry-after"):
            if re.fullmatch(r"[\d.]+", value):
                return float(value)
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
    return None
