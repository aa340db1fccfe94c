"""What kind of failure an error is, and so whether another target could do better."""

from typing import Literal

from antiphon.config import FailureKind
from antiphon.providers import errors
from antiphon.spec.errors import (
    CONTEXT_LENGTH_EXCEEDED,
    INSUFFICIENT_QUOTA,
    MODEL_OVERLOADED,
    RATE_LIMIT_EXCEEDED,
    TIMEOUT,
    UNSUPPORTED_CONTENT,
    UNSUPPORTED_PARAMETER,
    ErrorPayload,
    SpecError,
)

AttemptFailure = FailureKind | Literal["too_long", "unsupported", "request"]
"""Beyond the failures of a target: the context is too long for it, it cannot take what the request has, or
the request itself is at fault."""

_BY_CODE: dict[str, AttemptFailure] = {
    errors.UPSTREAM_UNREACHABLE: "connection",
    errors.UPSTREAM_CLOSED: "connection",
    TIMEOUT: "timeout",
    RATE_LIMIT_EXCEEDED: "rate_limit",
    INSUFFICIENT_QUOTA: "rate_limit",
    MODEL_OVERLOADED: "overloaded",
    errors.UPSTREAM_AUTH: "auth",
    # The client named the route; that a target of it does not exist is not the client's mistake.
    errors.MODEL_NOT_FOUND: "server_error",
    errors.UPSTREAM_ERROR: "server_error",
    errors.UPSTREAM_INVALID: "server_error",
    CONTEXT_LENGTH_EXCEEDED: "too_long",
}
_REFUSALS = frozenset({UNSUPPORTED_CONTENT, UNSUPPORTED_PARAMETER})


def kind_of(error: ErrorPayload, status: int = 0) -> AttemptFailure:
    """The kind of an error that a provider raised with this status, or put as the end of its answer."""
    if (kind := _BY_CODE.get(error.code or "")) is not None:
        return kind
    # Said by us before anything was sent; what an upstream refuses itself is the request's own fault.
    if error.code in _REFUSALS and error.original is error:
        return "unsupported"
    status = status or error.status
    if status == 429:
        return "rate_limit"
    if status in (503, 529):
        return "overloaded"
    if status in (408, 504):
        return "timeout"
    return "server_error" if status >= 500 else "request"


def is_due_to_target(error: ErrorPayload, status: int, upstream_status: int) -> bool:
    """Would every tenant meet this failure? A refusal or a 500 may be due to what one of them sends.

    `status` is that of the error; `upstream_status` what the upstream answered with, 0 if it gave none.
    """
    if upstream_status < 400 and error.code not in _BY_CODE:
        upstream_status = status
    if upstream_status >= 400:
        return upstream_status == 429 or upstream_status > 500
    return kind_of(error, status) in ("connection", "timeout", "rate_limit", "overloaded")


def too_long_for_all(targets: str) -> SpecError:
    """The error for the client when no window is large enough; `targets` says whose."""
    message = f"the input is too long for {targets}; shorten it"
    return SpecError(ErrorPayload("invalid_request", message, CONTEXT_LENGTH_EXCEEDED, "input"), 400)
