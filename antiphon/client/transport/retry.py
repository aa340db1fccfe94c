"""Decides which failures are worth another try, and after how long."""

from collections.abc import Callable

from antiphon.client.errors import AntiphonError, ConnectionFailed, StatusError, TimedOut
from antiphon.client.settings import Retries
from antiphon.spec.errors import ERROR_TYPE_ALIASES, INSUFFICIENT_QUOTA
from antiphon.spec.random_numbers import random_numbers

# Statuses of the 500s that no repetition changes.
_FINAL = frozenset({501, 505, 511})
# An earlier try under the same idempotency key is still answered.
_IN_PROGRESS = "request_in_progress"


def is_worth_it(error: AntiphonError, attempt: int, *, repeatable: bool) -> bool:
    """May this call be made again?

    `repeatable` calls change nothing when made twice, or have an idempotency key. Other calls, which make a
    response, are repeated only if the server cannot have begun: there was no connection, or it has refused.
    """
    match error:
        case ConnectionFailed():
            return repeatable or not error.sent
        case TimedOut(limit="connect"):
            return True
        case TimedOut(limit="read" | "idle"):
            return repeatable
        case StatusError(should_retry=bool(should_retry)):
            return should_retry
        case StatusError(status=409):
            return error.code == _IN_PROGRESS
        case StatusError(status=429):
            return error.code != INSUFFICIENT_QUOTA
        case StatusError() if error.status >= 500 and error.status not in _FINAL:
            kind = ERROR_TYPE_ALIASES.get(error.type, error.type)
            return kind != "model_error" or attempt == 0
    return False


def pause_before_next(
    error: AntiphonError,
    attempt: int,
    retries: Retries,
    *,
    repeatable: bool,
    remaining: float | None = None,
    draw: Callable[[], float] = random_numbers.random,
) -> float | None:
    """Returns the seconds to wait before another try; None if there should be none.

    `attempt` counts from 0, `remaining` is the rest of the total time.
    """
    if attempt >= retries.times or not is_worth_it(error, attempt, repeatable=repeatable):
        return None
    wanted = error.retry_after if isinstance(error, StatusError) else None
    if wanted is None:
        pause = min(retries.cap, retries.base * 2.0**attempt) * (0.5 + draw() / 2)
    elif wanted > retries.longest:
        return None
    else:
        # A little later than the server asks, and not all clients at once.
        pause = wanted + draw() * min(1.0, retries.base)
    return pause if remaining is None or pause < remaining else None
