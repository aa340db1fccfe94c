"""Checks whether the clock is right, before the store removes what has expired by it.

A clock that was set forward makes everything look expired. The stored rows show that: there is a gap between
the newest row before the change and the oldest one after it, or now. A gateway without requests has the same
gap, so the check also trusts the clock of a process that has run for a day in which the clock was not set.
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
"""The column with the time at which a row was written; later rows have later times, or nearly so."""


class ClockJumped(StoreError):
    """The clock is so far ahead of the last stored row that it may be wrong."""


class ClockCheck:
    """The check of one store; make it when the store is opened."""

    def __init__(
        self, clock: Callable[[], float] = time.time, steady: Callable[[], float] = steady_time
    ) -> None:
        self._steady = steady
        self._opened_steady, self._opened_at = steady(), clock()

    def check(self, db: sqlite3.Connection, now: float) -> None:
        """Raises `ClockJumped` if the clock has gone forward by more than a day since something was
        stored.
        """
        elapsed = self._steady() - self._opened_steady
        if elapsed >= DAY and abs(now - self._opened_at - elapsed) < HOUR:
            return
        around = [_rows_around(db, table, column, now - DAY) for table, column in _TABLES.items()]
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


def _rows_around(
    db: sqlite3.Connection, table: str, column: str, moment: float
) -> tuple[float | None, float | None]:
    """Returns the times of the last row before this moment and of the first row after it.

    Keys grow with time, so a binary search finds them.
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
