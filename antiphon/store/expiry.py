"""How what has expired is removed: with a clock that can be believed, and never all of it in a moment."""

import logging
import time
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

HOUR = 3600.0
PORTION = 200
"""So many things that expired long ago are removed at a time, or a hundredth of all that is stored."""

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_time() -> float:
    """Seconds since this machine has started, also while it slept; setting the clock does not change them."""
    return time.clock_gettime(_STEADY)


async def prune_portion(remove: Callable[[float, float], Awaitable[int]], now: float, stored: int) -> int:
    """Remove all that expired in the last hour, and a portion of what expired earlier.

    A gateway that runs removes everything within minutes. So what expired long ago tells of a gateway that
    was not there, or of a clock that is wrong, and then a person has time to notice. `remove` removes some of
    what expired between two times, and gives how much that was; 0 when nothing is left.
    """
    removed = 0
    while some := await remove(now - HOUR, now):
        removed += some
    most, old = max(PORTION, stored // 100), 0
    while old < most and (some := await remove(-1.0, now - HOUR)):
        old += some
    if old >= most:
        log.warning(
            "removed %d things that had expired more than an hour ago; the next of them go in some minutes",
            old,
        )
    return removed + old
