"""The errors of the client, all of them under `AntiphonError`.

Each says what happened and what to do. A request that is cancelled raises the language's own
`CancelledError` or `KeyboardInterrupt`, and nothing else ever comes out of a call.
"""

from typing import Literal

from antiphon.spec.response import Response

Limit = Literal["connect", "read", "idle", "total"]

_LIMITS: dict[Limit, str] = {
    "connect": "no connection within {seconds:g} seconds; check the address, or raise `Timeouts.connect`",
    "read": "no answer within {seconds:g} seconds; try again, or raise `Timeouts.read`",
    "idle": "no data for {seconds:g} seconds in the middle of an answer; raise `Timeouts.idle` if "
    "the model may think for longer",
    "total": "not done within {seconds:g} seconds in all; raise `Timeouts.total` if it may take longer",
}

_STOPPED = {
    "steps": "the limit of steps was reached; raise `Limits.steps`, or ask for less",
    "tokens": "the limit of tokens was reached; raise `Limits.tokens`, or ask for less",
    "time": "the time limit was reached; raise `Limits.seconds`, or ask for less",
    "cancelled": "it was cancelled",
}


class AntiphonError(Exception):
    """The family of all errors of the client."""


class UsageError(AntiphonError):
    """The program asked for something that cannot be done: a closed client, an input that is no JSON."""


class ConnectionFailed(AntiphonError):
    """There was no connection, or it broke before the answer was complete.

    `sent` tells whether the request may have reached the server.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class TimedOut(AntiphonError):
    """A time limit has passed; `limit` is its name in `Timeouts`."""

    def __init__(self, limit: Limit, seconds: float) -> None:
        super().__init__(_LIMITS[limit].format(seconds=seconds))
        self.limit: Limit = limit
        self.seconds = seconds


class StatusError(AntiphonError):
    """The server refused: an HTTP status other than success, or an error in the place of an answer.

    `retry_after` is how many seconds the server wants us to wait, when it said so, and `should_retry` whether
    the same call can succeed at all.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "",
        code: str = "",
        param: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.request_id = request_id
        self.retry_after = retry_after
        self.should_retry = should_retry
        named = " ".join(word for word in (str(status), code or type) if word)
        where = f" at {param}" if param else ""
        request = f" [request {request_id}]" if request_id else ""
        super().__init__(f"the server refused with {named}{where}: {message}{request}")


class UnexpectedAnswer(AntiphonError):
    """The server answered with something that is not Open Responses; mostly the address is wrong."""


class StreamBroken(AntiphonError):
    """A stream ended before its response did. `response` has what came until then."""

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message)
        self.response = response


class ResponseFailed(AntiphonError):
    """The response came to its end and that end is `failed`. `response` has what was said before."""

    def __init__(self, response: Response) -> None:
        error = response.error
        self.response = response
        self.code = error.code if error else ""
        self.message = error.message if error else "the server gave no reason"
        super().__init__(f"the response {response.id} failed: {self.message} ({self.code or 'no code'})")


class ParseFailed(AntiphonError):
    """`parse` got a response, but not the value that was asked for."""

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message)
        self.response = response


class Refused(ParseFailed):
    """The model refused; `refusal` has its words."""

    def __init__(self, refusal: str, response: Response) -> None:
        super().__init__(f"the model refused: {refusal}", response)
        self.refusal = refusal


class Incomplete(ParseFailed):
    """The response was cut short; `reason` says why. Raise `max_output_tokens`, or ask for less."""

    def __init__(self, reason: str, response: Response) -> None:
        super().__init__(f"the response is incomplete: {reason}; its output cannot be parsed", response)
        self.reason = reason


class Mismatch(ParseFailed):
    """The text of the model is not a value of the type in the request; `text` has it."""

    def __init__(self, text: str, why: str, response: Response) -> None:
        super().__init__(f"the output does not fit the type: {why}", response)
        self.text = text


class NoAnswer(AntiphonError):
    """A run of an agent ended before the model had answered; `stopped` says why, as in the result."""

    def __init__(self, stopped: str) -> None:
        super().__init__(f"the run has no answer: {_STOPPED.get(stopped, stopped)}")
        self.stopped = stopped


def without_traceback(cause: BaseException) -> BaseException:
    """The cause of one of our errors without the way to it, which leads through other packages alone."""
    cause.__cause__ = cause.__context__ = None
    return cause.with_traceback(None)
