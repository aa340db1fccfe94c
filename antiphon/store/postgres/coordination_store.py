"""The part of the PostgreSQL store that lets processes agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antiphon.store.coordination import KeyClaim, SharedRow, TakenKey
from antiphon.store.postgres import idempotency_keys, shared_state
from antiphon.store.postgres.access import PostgresAccess


class PostgresCoordination(PostgresAccess):
    """Idempotency keys, and numbers that processes share."""

    spans_machines = True

    async def claim_key(self, claim: KeyClaim, now: float) -> TakenKey | None:
        return await self.database.write(lambda db: idempotency_keys.claim(db, claim, now))

    async def renew_keys(self, holders: Sequence[str], expires_at: float) -> None:
        await self.database.write(lambda db: idempotency_keys.renew(db, holders, expires_at))

    async def release_key(self, claim: KeyClaim) -> bool:
        return await self.database.write(lambda db: idempotency_keys.release(db, claim))

    async def share(
        self, writer: str, rows: Mapping[str, Sequence[float]], now: float, heard_since: float
    ) -> list[SharedRow]:
        return await self.database.write(lambda db: shared_state.share(db, writer, rows, now, heard_since))
