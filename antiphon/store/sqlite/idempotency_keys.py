"""The SQL of idempotency keys: of each the digests of key and body, who holds it, and its response."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from antiphon.store.coordination import KeyClaim, TakenKey

# A response that was deleted, or has expired, leaves its key to the next request.
TAKEN = """
    SELECT body, response, expires_at FROM idempotency_keys
    WHERE tenant = ? AND key = ? AND expires_at > ? AND (response IS NULL OR EXISTS (
        SELECT 1 FROM responses WHERE responses.id = response AND responses.tenant = idempotency_keys.tenant))
"""
CLAIM = """
    INSERT OR REPLACE INTO idempotency_keys (tenant, key, body, holder, expires_at) VALUES (?, ?, ?, ?, ?)
"""
MINE = "tenant = ? AND key = ? AND holder = ? AND response IS NULL"


def claim(db: sqlite3.Connection, claim: KeyClaim, now: float) -> TakenKey | None:
    row = db.execute(TAKEN, (claim.tenant, claim.key, now)).fetchone()
    if row is not None:
        return TakenKey(*row)
    db.execute(CLAIM, (claim.tenant, claim.key, claim.body, claim.holder, claim.expires_at))
    return None


def renew(db: sqlite3.Connection, holders: Sequence[str], expires_at: float) -> None:
    db.execute(
        "UPDATE idempotency_keys SET expires_at = ? "
        "WHERE response IS NULL AND holder IN (SELECT value FROM json_each(?))",
        (expires_at, msgspec.json.encode(holders).decode()),
    )


def release(db: sqlite3.Connection, claim: KeyClaim) -> bool:
    mine = (claim.tenant, claim.key, claim.holder)
    return db.execute(f"DELETE FROM idempotency_keys WHERE {MINE}", mine).rowcount == 1


def keep(db: sqlite3.Connection, claim: KeyClaim, response: str) -> None:
    """The key has a response from now on; one whose lease another request has taken over stays that one's."""
    db.execute(
        f"UPDATE idempotency_keys SET response = ?, expires_at = ? WHERE {MINE}",
        (response, claim.expires_at, claim.tenant, claim.key, claim.holder),
    )


def prune(db: sqlite3.Connection, since: float, until: float, at_once: int) -> int:
    doomed = "SELECT tenant, key FROM idempotency_keys WHERE expires_at > ? AND expires_at <= ? LIMIT ?"
    return db.execute(
        f"DELETE FROM idempotency_keys WHERE (tenant, key) IN ({doomed})", (since, until, at_once)
    ).rowcount
