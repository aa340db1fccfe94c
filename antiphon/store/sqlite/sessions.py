"""The SQL of browsers' sessions: of each only the digest of its id, and the key that it stands for."""

from __future__ import annotations

import sqlite3

from antiphon.store.base import BrowserSession


def create(db: sqlite3.Connection, session: BrowserSession) -> None:
    db.execute(
        "INSERT INTO sessions (digest, key_name, key_digest, expires_at) VALUES (?, ?, ?, ?)",
        (session.digest, session.key_name, session.key_digest, session.expires_at),
    )


def get(db: sqlite3.Connection, digest: str) -> BrowserSession | None:
    row = db.execute(
        "SELECT digest, key_name, key_digest, expires_at FROM sessions WHERE digest = ?", (digest,)
    ).fetchone()
    return None if row is None else BrowserSession(*row)


def delete(db: sqlite3.Connection, digest: str) -> bool:
    return db.execute("DELETE FROM sessions WHERE digest = ?", (digest,)).rowcount == 1


def prune(db: sqlite3.Connection, since: float, until: float, at_once: int) -> int:
    doomed = "SELECT digest FROM sessions WHERE expires_at > ? AND expires_at <= ? LIMIT ?"
    return db.execute(f"DELETE FROM sessions WHERE digest IN ({doomed})", (since, until, at_once)).rowcount
