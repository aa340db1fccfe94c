"""The SQL of approvals: of each call that waits for one, only a digest of what would be run."""

from __future__ import annotations

import sqlite3

from antiphon.store.base import Approval


def add(db: sqlite3.Connection, approval: Approval) -> None:
    db.execute(
        "INSERT INTO approvals (tenant, id, digest, expires_at) VALUES (?, ?, ?, ?)",
        (approval.tenant, approval.id, approval.digest, approval.expires_at),
    )


def take(db: sqlite3.Connection, tenant: str, id: str, digest: str) -> bool:
    """One statement, so that of two who answer at the same time only one finds it."""
    taken = "DELETE FROM approvals WHERE tenant = ? AND id = ? AND digest = ?"
    return db.execute(taken, (tenant, id, digest)).rowcount == 1


def prune(db: sqlite3.Connection, since: float, until: float, at_once: int) -> int:
    doomed = "SELECT tenant, id FROM approvals WHERE expires_at > ? AND expires_at <= ? LIMIT ?"
    return db.execute(
        f"DELETE FROM approvals WHERE (tenant, id) IN ({doomed})", (since, until, at_once)
    ).rowcount
