"""The part of the SQLite store that keeps the event logs and owners of background responses."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from antiphon.store.base import LoggedEvent, StoredResponse
from antiphon.store.changes import Changes
from antiphon.store.sqlite import background
from antiphon.store.sqlite.access import DatabaseAccess


class SqliteBackground(DatabaseAccess):
    """Logs, owners and takeovers."""

    changes: Changes

    async def append_events(
        self,
        id: str,
        owner: str,
        first: int,
        events: Sequence[bytes],
        *,
        attempt: int = 0,
        job: bytes | None = None,
    ) -> bool:
        def append(db: sqlite3.Connection) -> bool:
            return background.append_events(db, id, owner, first, events, attempt, job)

        is_done = await self._write(append)
        self.changes.notify(id)
        return is_done

    async def job(self, tenant: str, id: str) -> bytes | None:
        return await self._read(lambda db: background.job(db, tenant, id))

    async def events_after(self, tenant: str, id: str, after: int, limit: int) -> list[LoggedEvent] | None:
        return await self._read(lambda db: background.events_after(db, tenant, id, after, limit))

    async def request_cancel(self, tenant: str, id: str) -> StoredResponse | None:
        return await self._remove(lambda db: background.request_cancel(db, tenant, id))

    async def heartbeat(self, owner: str, now: float) -> list[str]:
        return await self._remove(lambda db: background.heartbeat(db, owner, now))

    async def claim_orphans(self, me: str, now: float, stale_before: float) -> list[StoredResponse]:
        return await self._remove(lambda db: background.claim_orphans(db, me, now, stale_before))

    async def release(self, owner: str) -> None:
        await self._remove(lambda db: background.release(db, owner))
