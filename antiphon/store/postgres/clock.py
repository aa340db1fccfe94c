"""The clock of PostgreSQL: all machines on one database go by it, whatever their own clocks say."""

from __future__ import annotations

from antiphon.store.expiry import steady_time
from antiphon.store.postgres.connection import Connection, one


class DatabaseClock:
    """Gives the time of the database without asking it: `read` finds how far the two are apart."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return steady_time() + self._ahead

    async def read(self, db: Connection) -> float:
        """What the database's clock says now; kept to go on from."""
        asked = steady_time()
        row = await one(db, "SELECT extract(epoch FROM clock_timestamp())::float8")
        assert row is not None
        self._ahead = float(row[0]) - (asked + steady_time()) / 2
        return self()
