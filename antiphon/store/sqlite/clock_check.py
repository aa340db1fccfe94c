"""Can the clock be believed, so that what has expired by it may be removed?

A clock that is set forward makes everything look expired. What was stored shows that: there is a gap between
the newest row of before and the oldest of after, or now. A gateway that nobody used for a while has the same
gap, so one that has run for a day, and saw nobody set the clock, is believed too.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime

from antiphon.store.base import StoreError
from antiphon.store.records.retention import HOUR, steady_time

DAY = 86400.0
_TABLES = {
    "responses": "created_at",
    "conversations": "created_at",
    "chats": "created_at",
    "files": "created_at",
    "vector_stores": "last_active_at",
}
"""With the column that says when a row was written; later rows have later times, or nearly so."""


class ClockJumped(StoreError):
    """The clock stands so far after what was stored last that it may be wrong."""


class ClockCheck:
    """Made when the store is opened."""

    def __init__(
        self, clock: Callable[[], float] = time.time, steady: Callable[[], float] = steady_time
    ) -> None:
        self._steady = steady
        self._opened, self._opened_at = steady(), clock()

    def check(self, db: sqlite3.Connection, now: float) -> None:
        """A `ClockJumped` if the clock has gone forward by more than a day since something was stored."""
        elapsed = self._steady() - self._opened
        if elapsed >= DAY and abs(now - self._opened_at - elapsed) < HOUR:
            return
        around = [_around(db, table, column, now - DAY) for table, column in _TABLES.items()]
        before = max((before for before, _ in around if before is not None), default=None)
        if before is None:
            return
        after = min([now, *(after for _, after in around if after is not None)])
        if after - before > DAY:
            stands = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")
            raise ClockJumped(
                f"the clock stands at {stands}, and went forward by {(after - before) / DAY:.0f} days since "
                "something was stored. Set it right; if it is right, run `antiphon store prune`, or "
                "wait: a gateway that has run for a day removes what has expired by itself"
            )


def _around(
    db: sqlite3.Connection, table: str, column: str, moment: float
) -> tuple[float | None, float | None]:
    """When the last row before this moment was made, and the first one after it.

    Rows are made one after another, so a few of them say where that is, however many there are.
    """
    at = f"SELECT key, {column} FROM {table} WHERE key <= ? ORDER BY key DESC LIMIT 1"
    (low, high) = db.execute(
        f"SELECT (SELECT min(key) FROM {table}) - 1, (SELECT max(key) FROM {table})"
    ).fetchone()
    if high is None:
        return None, None
    before: float | None = None
    while low < high:
        middle = (low + high + 1) // 2
        row = db.execute(at, (middle,)).fetchone()
        if row is not None and row[1] >= moment:
            high = row[0] - 1
        else:
            low = middle
            before = before if row is None else row[1]
    after = db.execute(f"SELECT {column} FROM {table} WHERE key > ? ORDER BY key LIMIT 1", (low,)).fetchone()
    return before, None if after is None else after[0]
