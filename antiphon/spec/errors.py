"""Error objects, the one exception that carries them, and the status each type has over HTTP."""

from functools import cached_property
from typing import Self

import msgspec
from msgspec import Struct

STATUS: dict[str, int] = {
    "invalid_request": 400,
    "authentication_error": 401,
    "permission_denied": 403,
    "not_found": 404,
    "too_many_requests": 429,
    "server_error": 500,
    "model_error": 500,
}

STORE_FULL = "store_full"
STORE_FAILED = "store_failed"
# A code that says more than its type.
STATUS_OF_CODE: dict[str, int] = {STORE_FULL: 507, STORE_FAILED: 503}

# What other servers and older documents call the same things.
ERROR_TYPE_ALIASES: dict[str, str] = {
    "invalid_request_error": "invalid_request",
    "not_found_error": "not_found",
    "rate_limit_error": "too_many_requests",
    "rate_limit_exceeded": "too_many_requests",
    "permission_error": "permission_denied",
    "permission_denied_error": "permission_denied",
    "api_error": "server_error",
    "internal_server_error": "server_error",
}

INVALID_API_KEY = "invalid_api_key"
INSUFFICIENT_QUOTA = "insufficient_quota"
CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
INVALID_MODEL = "invalid_model"
CONTENT_FILTER = "content_filter"
TOOL_EXECUTION_FAILED = "tool_execution_failed"
TIMEOUT = "timeout"
MODEL_UNAVAILABLE = "model_unavailable"
MODEL_OVERLOADED = "model_overloaded"
INVALID_ENCRYPTED_CONTENT = "invalid_encrypted_content"
RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
# What a server cannot do: `param` says which parameter or which part of the input; an operation is its path.
UNSUPPORTED_PARAMETER = "unsupported_parameter"
UNSUPPORTED_CONTENT = "unsupported_content"
UNSUPPORTED_OPERATION = "unsupported_operation"


class ErrorPayload(Struct, forbid_unknown_fields=True, dict=True):
    """What an `error` event, an HTTP error body and the library's exceptions all carry."""

    type: str
    message: str
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET

    @cached_property
    def original(self) -> "ErrorPayload":
        """The error as the provider itself put it, where one did; it is set beside the wire's fields."""
        return self

    def with_code(self, code: str) -> Self:
        return msgspec.structs.replace(self, code=code)

    def with_param(self, param: str) -> Self:
        return msgspec.structs.replace(self, param=param)

    @property
    def status(self) -> int:
        of_type = STATUS.get(ERROR_TYPE_ALIASES.get(self.type, self.type), 500)
        return STATUS_OF_CODE.get(self.code or "", of_type)


class ErrorBody(Struct):
    """The JSON body of an HTTP error."""

    error: ErrorPayload

    @classmethod
    def encode(cls, error: ErrorPayload) -> bytes:
        """Some clients drop a message whose `code` or `param` is null, so neither is."""
        named = msgspec.structs.replace(error, code=error.code or error.type, param=error.param or "")
        return msgspec.json.encode(cls(named))


class ResponseError(Struct, forbid_unknown_fields=True):
    """The `error` of a failed response."""

    code: str
    message: str


class WebSocketError(Struct, tag_field="type", tag="error"):
    """The envelope that ends a WebSocket turn which never became a response."""

    status: int
    error: ErrorPayload

    @classmethod
    def of(cls, error: ErrorPayload) -> "WebSocketError":
        """The envelope always has a code; without a better one it is the type."""
        return cls(error.status, error.with_code(error.code or error.type))


class SpecError(Exception):
    """A request or an object that breaks the specification; `payload` is the error object for the client."""

    def __init__(self, payload: ErrorPayload, status: int | None = None) -> None:
        self.payload = payload = _encodable(payload)
        super().__init__(payload.message)
        self.status = payload.status if status is None else status


def _encodable(payload: ErrorPayload) -> ErrorPayload:
    """A payload may quote a name that holds half of a surrogate pair, which no JSON encoder takes."""
    try:
        msgspec.json.encode(payload)
    except UnicodeEncodeError:
        texts = {name: getattr(payload, name) for name in ("type", "message", "code", "param")}
        said = {n: t.encode(errors="backslashreplace").decode() for n, t in texts.items() if t is not None}
        return msgspec.structs.replace(payload, **said)
    return payload


def server_error(message: str) -> ErrorPayload:
    return ErrorPayload("server_error", message)


def invalid_request(message: str) -> ErrorPayload:
    return ErrorPayload("invalid_request", message)


def invalid_param(param: str, message: str) -> ErrorPayload:
    return ErrorPayload("invalid_request", message, param=param)


def model_error(message: str) -> ErrorPayload:
    return ErrorPayload("model_error", message)


def not_found(message: str) -> ErrorPayload:
    return ErrorPayload("not_found", message)


def rate_limit(message: str) -> ErrorPayload:
    return ErrorPayload("too_many_requests", message, code=RATE_LIMIT_EXCEEDED)
