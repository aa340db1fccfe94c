"""The part of the SQLite store by which processes agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antiphon.store.coordination import KeyClaim, SharedRow, TakenKey
from antiphon.store.sqlite import idempotency_keys, shared_state
from antiphon.store.sqlite.access import DatabaseAccess


class SqliteCoordination(DatabaseAccess):
    """Idempotency keys, and numbers that processes share."""

    spans_machines = False

    async def claim_key(self, claim: KeyClaim, now: float) -> TakenKey | None:
        return await self._write(lambda db: idempotency_keys.claim(db, claim, now))

    async def renew_keys(self, holders: Sequence[str], expires_at: float) -> None:
        await self._remove(lambda db: idempotency_keys.renew(db, holders, expires_at))

    async def release_key(self, claim: KeyClaim) -> bool:
        return await self._remove(lambda db: idempotency_keys.release(db, claim))

    async def share(
        self, writer: str, rows: Mapping[str, Sequence[float]], now: float, heard_since: float
    ) -> list[SharedRow]:
        return await self._remove(lambda db: shared_state.share(db, writer, rows, now, heard_since))
