"""Errors in the shape and the words of the Messages API, on which its clients act."""

import re

from msgspec import UNSET, Struct, UnsetType

from antiphon.spec import errors
from antiphon.spec.codec import encode

OVERLOADED = 529

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
THREAD_NOT_FOUND = "thread_not_found"
THREAD_UNSUPPORTED = "thread_unsupported_request"
THREAD_MISMATCH = "thread_fingerprint_mismatch"
NOTHING_TO_SUMMARIZE = "compaction_nothing_to_summarize"
# Codes that clients look for in `details`: on the first two, an SDK sends the whole conversation again.
_DETAILED = frozenset({THREAD_NOT_FOUND, THREAD_UNSUPPORTED, THREAD_MISMATCH, NOTHING_TO_SUMMARIZE})
_NUMBER = re.compile(r"(?<![\w.-])\d{1,3}(?:,\d{3})+(?![\w-])|(?<![\w.,-])\d{3,8}(?![\w-])")
_TOO_LONG = "prompt is too long"
_OWN_WORDS = re.compile(rf"{_TOO_LONG}: \d+ tokens > \d+ maximum", re.IGNORECASE)
# Fewer tokens than this are no window: such a number counts something else.
_SMALLEST = 100


def request_id_header(request_id: str) -> tuple[bytes, bytes]:
    """The header in which clients of this API look for the id of a request."""
    return b"request-id", request_id.encode("latin-1", "replace")


class MessagesErrorDetails(Struct):
    """What a client of this API acts on, where there is such a thing."""

    error_code: str


class MessagesError(Struct):
    type: str
    message: str
    code: str = ""
    param: str = ""
    details: MessagesErrorDetails | UnsetType = UNSET


class MessagesErrorBody(Struct, tag_field="type", tag="error"):
    """The JSON body of an HTTP error, and the data of an `error` event."""

    error: MessagesError
    request_id: str = ""


def encode_error(error: errors.ErrorPayload, status: int, request_id: str) -> tuple[bytes, int]:
    """An error of the gateway as this API's body, and its status there."""
    status = _status(error, status)
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    body = MessagesError(kind, _message(error), error.code or error.type, error.param or "")
    if body.code in _DETAILED:
        body.details = MessagesErrorDetails(body.code)
    return encode(MessagesErrorBody(body, request_id)), status


def _status(error: errors.ErrorPayload, status: int) -> int:
    if error.code == errors.MODEL_OVERLOADED:
        return OVERLOADED
    if error.code == errors.INSUFFICIENT_QUOTA:
        return 402
    if error.code == errors.TIMEOUT and status >= 500:
        return 504
    if error.code == errors.CONTEXT_LENGTH_EXCEEDED:
        return 400
    known = errors.ERROR_TYPE_ALIASES.get(error.type, error.type)
    return 400 if known == "invalid_request" and status >= 500 else status


def _message(error: errors.ErrorPayload) -> str:
    message = error.message
    if error.code == errors.CONTEXT_LENGTH_EXCEEDED:
        return overflow(message)
    if error.code == errors.INVALID_ENCRYPTED_CONTENT:
        message = f"Invalid `signature` in `thinking` block: {message}"
    if not error.param:
        return message
    # As this API names places: `messages.0.content.1.text: …`.
    place = re.sub(r"\[(\w+)\]", r".\1", error.param)
    return message if message.startswith(place) else f"{place}: {message}"


def overflow(message: str) -> str:
    """That a prompt is too long, in the words that make agents compact their context and go on.

    >>> overflow("The maximum context length is 8192 tokens. However, you requested 9001 tokens.")
    'prompt is too long: 9001 tokens > 8192 maximum'
    """
    if own := _OWN_WORDS.search(message):
        return own[0]
    numbers = {int(found.replace(",", "")) for found in _NUMBER.findall(message)}
    sizes = sorted(number for number in numbers if number >= _SMALLEST)
    if len(sizes) < 2:
        return f"{_TOO_LONG}: {message}"
    # A sum of prompt and answer, if one is told, is the largest; the window is the next below it.
    return f"{_TOO_LONG}: {sizes[-1]} tokens > {sizes[-2]} maximum"
