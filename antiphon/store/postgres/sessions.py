"""The SQL of browsers' sessions: of each only the digest of its id, and the key that it stands for."""

from __future__ import annotations

from antiphon.store.base import BrowserSession
from antiphon.store.postgres.connection import Connection, execute, one


async def create(db: Connection, session: BrowserSession) -> None:
    await execute(
        db,
        "INSERT INTO sessions (digest, key_name, key_digest, expires_at) VALUES (%s, %s, %s, %s)",
        (session.digest, session.key_name, session.key_digest, session.expires_at),
    )


async def get(db: Connection, digest: str) -> BrowserSession | None:
    row = await one(
        db, "SELECT digest, key_name, key_digest, expires_at FROM sessions WHERE digest = %s", (digest,)
    )
    return None if row is None else BrowserSession(*row)


async def delete(db: Connection, digest: str) -> bool:
    return await execute(db, "DELETE FROM sessions WHERE digest = %s", (digest,)) == 1
