"""The SQL of uploaded files: what is known of each; its bytes are in a folder, under their digest."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from antiphon.store.file_values import FilePage, UploadedFile
from antiphon.store.sqlite import vector_stores

FILE = "SELECT id, tenant, filename, purpose, bytes, digest, created_at, expires_at FROM files"


def add(db: sqlite3.Connection, file: UploadedFile, quota: int) -> bool:
    (taken,) = db.execute(
        "SELECT coalesce(sum(bytes), 0) FROM files WHERE tenant = ?", (file.tenant,)
    ).fetchone()
    if taken + file.bytes > quota:
        return False
    db.execute(
        "INSERT INTO files (id, tenant, filename, purpose, bytes, digest, created_at, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            file.id,
            file.tenant,
            file.filename,
            file.purpose,
            file.bytes,
            file.digest,
            file.created_at,
            file.expires_at,
        ),
    )
    return True


def get(db: sqlite3.Connection, tenant: str, id: str) -> UploadedFile | None:
    row = db.execute(f"{FILE} WHERE tenant = ? AND id = ?", (tenant, id)).fetchone()
    return None if row is None else UploadedFile(*row)


def page(
    db: sqlite3.Connection, tenant: str, purpose: str | None, after: str | None, limit: int, newest: bool
) -> FilePage:
    sql, values = f"{FILE} WHERE tenant = ?", [tenant]
    if purpose is not None:
        sql, values = f"{sql} AND purpose = ?", [*values, purpose]
    more, order = vector_stores.beyond(db, "files", tenant, after, newest)
    rows = db.execute(f"{sql} {more} {order} LIMIT ?", (*values, limit + 1)).fetchall()
    return FilePage(tuple(UploadedFile(*row) for row in rows[:limit]), len(rows) > limit)


def delete(db: sqlite3.Connection, tenant: str, id: str) -> bool:
    row = db.execute("SELECT key FROM files WHERE tenant = ? AND id = ?", (tenant, id)).fetchone()
    if row is None:
        return False
    vector_stores.forget_file(db, tenant, row[0])
    db.execute("DELETE FROM files WHERE key = ?", row)
    return True


def used(db: sqlite3.Connection, digests: Sequence[str]) -> set[str]:
    which = msgspec.json.encode(list(digests)).decode()
    rows = db.execute(
        "SELECT DISTINCT digest FROM files WHERE digest IN (SELECT value FROM json_each(?))", (which,)
    )
    return {digest for (digest,) in rows}


def prune(db: sqlite3.Connection, since: float, until: float, at_once: int) -> int:
    doomed = db.execute(
        "SELECT tenant, id FROM files WHERE expires_at > ? AND expires_at <= ? LIMIT ?",
        (since, until, at_once),
    ).fetchall()
    for tenant, id in doomed:
        delete(db, tenant, id)
    return len(doomed)
