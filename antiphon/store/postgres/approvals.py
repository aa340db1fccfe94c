"""The SQL of approvals: of each call that waits for one, only a digest of what would be run."""

from __future__ import annotations

from antiphon.store.base import Approval
from antiphon.store.postgres.connection import Connection, execute


async def add(db: Connection, approval: Approval) -> None:
    await execute(
        db,
        "INSERT INTO approvals (tenant, id, digest, expires_at) VALUES (%s, %s, %s, %s)",
        (approval.tenant, approval.id, approval.digest, approval.expires_at),
    )


async def take(db: Connection, tenant: str, id: str, digest: str) -> bool:
    """One statement, so that of two who answer at the same time only one finds it."""
    taken = "DELETE FROM approvals WHERE tenant = %s AND id = %s AND digest = %s"
    return await execute(db, taken, (tenant, id, digest)) == 1
