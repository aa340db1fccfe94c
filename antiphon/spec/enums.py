"""The fixed words of the specification as enumerations, for programs that compare with names.

Each member is a string: `ItemStatus.COMPLETED == "completed"`, and it is written to JSON as that string.
"""

from enum import StrEnum

from antiphon.spec import errors
from antiphon.spec.items import TERMINAL_STATUSES


class ItemStatus(StrEnum):
    """How far an item is. Only a vendor's item can be `failed`: the others end completed or incomplete."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"

    def is_terminal(self) -> bool:
        """Has it ended? A status that says so never changes again."""
        return self in TERMINAL_STATUSES

    def is_success(self) -> bool:
        """Did it end as it should?"""
        return self is ItemStatus.COMPLETED

    def is_failure(self) -> bool:
        """Did it end before it was whole?"""
        return self.is_terminal() and not self.is_success()


class ItemType(StrEnum):
    """The kinds of items; vendors have more, named `slug:name`."""

    MESSAGE = "message"
    FUNCTION_CALL = "function_call"
    FUNCTION_CALL_OUTPUT = "function_call_output"
    REASONING = "reasoning"


class MessageRole(StrEnum):
    """Who a message is from."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"


class FinishReason(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    ERROR = "error"


class ResponseStatus(StrEnum):
    """How far a response is."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


class ErrorType(StrEnum):
    """The kinds of errors; `antiphon.ErrorPayload` knows the HTTP status of each."""

    SERVER_ERROR = "server_error"
    MODEL_ERROR = "model_error"
    INVALID_REQUEST = "invalid_request"
    NOT_FOUND = "not_found"
    TOO_MANY_REQUESTS = "too_many_requests"


class ErrorCode(StrEnum):
    """Common codes of errors; any other text may stand there, too."""

    INVALID_API_KEY = errors.INVALID_API_KEY
    INSUFFICIENT_QUOTA = errors.INSUFFICIENT_QUOTA
    CONTEXT_LENGTH_EXCEEDED = errors.CONTEXT_LENGTH_EXCEEDED
    INVALID_MODEL = errors.INVALID_MODEL
    CONTENT_FILTER = errors.CONTENT_FILTER
    TOOL_EXECUTION_FAILED = errors.TOOL_EXECUTION_FAILED
    TIMEOUT = errors.TIMEOUT
    RATE_LIMIT_EXCEEDED = errors.RATE_LIMIT_EXCEEDED
