"""The SQL of approvals and of browsers' sessions: of each only digests, and when it ends."""

from __future__ import annotations

from antiphon.store.base import Approval, BrowserSession
from antiphon.store.postgres.connection import Connection, execute, one


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


async def create_session(db: Connection, session: BrowserSession) -> None:
    await execute(
        db,
        "INSERT INTO sessions (digest, key_name, key_digest, expires_at) VALUES (%s, %s, %s, %s)",
        (session.digest, session.key_name, session.key_digest, session.expires_at),
    )


async def session(db: Connection, digest: str) -> BrowserSession | None:
    row = await one(
        db, "SELECT digest, key_name, key_digest, expires_at FROM sessions WHERE digest = %s", (digest,)
    )
    return None if row is None else BrowserSession(*row)


async def delete_session(db: Connection, digest: str) -> bool:
    return await execute(db, "DELETE FROM sessions WHERE digest = %s", (digest,)) == 1


async def prune(db: Connection, now: float, at_once: int) -> int:
    approvals = "SELECT tenant, id FROM approvals WHERE expires_at <= %s LIMIT %s FOR UPDATE SKIP LOCKED"
    sessions = "SELECT digest FROM sessions WHERE expires_at <= %s LIMIT %s FOR UPDATE SKIP LOCKED"
    gone = await execute(db, f"DELETE FROM approvals WHERE (tenant, id) IN ({approvals})", (now, at_once))
    return gone + await execute(db, f"DELETE FROM sessions WHERE digest IN ({sessions})", (now, at_once))
