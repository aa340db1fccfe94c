"""Maps exceptions to an HTTP status and an error object, for routes, WebSockets and background work."""

import logging

from msgspec import Struct

from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import MODEL_UNAVAILABLE, STORE_FAILED, STORE_FULL, ErrorPayload, SpecError
from antiphon.store.base import StoreError, StoreFull
from antiphon.stream.answer_limit import AnswerTooLong
from antiphon.wires.run_gate import RunStopped
from antiphon.wires.run_listener import Spent

log = logging.getLogger(__name__)

CLOSED = ErrorPayload(
    "server_error", "the upstream closed the connection in the middle of its answer", code="upstream_closed"
)
SHUTDOWN = ErrorPayload(
    "server_error", "the gateway is shutting down; send the request again", code="server_shutdown"
)
INTERNAL = ErrorPayload(
    "server_error", "the gateway failed; its log has the details under this request id", code="internal_error"
)


class Problem(Struct, frozen=True):
    """The error object that a client gets, and its HTTP status."""

    payload: ErrorPayload
    status: int
    retry_after: float | None = None
    is_final: bool = False
    """The same request would be refused again, however long its client waits."""


def note_failure(spent: Spent, error: BaseException) -> None:
    """Note in `spent` how an attempt or a run has ended that raises this."""
    if isinstance(error, UpstreamError | SpecError | RunStopped):
        spent.fail(error.payload, error.status)
    elif isinstance(error, Exception) and not isinstance(error, AnswerTooLong):
        spent.fail(INTERNAL, 500)
    else:
        spent.outcome = "cancelled"


def problem_of(error: Exception, request_id: str) -> Problem:
    """The problem for this exception; what neither the client nor the upstream caused is logged."""
    if isinstance(error, SpecError):
        if error.payload.code == MODEL_UNAVAILABLE:
            return Problem(error.payload, error.status, is_final=True)
        return Problem(error.payload, error.status, 1.0 if error.status == 503 else None)
    if isinstance(error, RunStopped):
        return Problem(error.payload, error.status, is_final=True)
    if isinstance(error, UpstreamError):
        return Problem(error.payload, error.status, error.retry_after)
    if isinstance(error, StoreError):
        log.error("request %s: the store failed: %s", request_id, error)
        code = STORE_FULL if isinstance(error, StoreFull) else STORE_FAILED
        payload = ErrorPayload("server_error", str(error), code=code)
        return Problem(payload, payload.status, 1.0 if payload.status == 503 else None)
    log.error("request %s failed", request_id, exc_info=error)
    return Problem(INTERNAL, 500)
