"""The SQL of vector stores: files cut into chunks, found by their words (FTS5) and by their vectors.

The texts stand in an index of FTS5. Each tenant has one of its own: how rare a word is decides the order of
what is found, and nobody may learn from that what others have written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from antiphon.store.base import StoreError, UnknownCursor
from antiphon.store.file_values import (
    FileChunk,
    FoundChunk,
    IndexedFile,
    IndexedPage,
    Vectors,
    VectorStore,
    VectorStorePage,
)
from antiphon.store.sqlite.chat_texts import has_fts5

NO_FTS5 = "This Python's SQLite has no FTS5, so that files cannot be searched."

STORE = """
    SELECT id, tenant, name, metadata, created_at, last_active_at, days, expires_at,
        (SELECT count(*) FROM indexed_files WHERE store = vector_stores.key AND error_code IS NULL),
        (SELECT count(*) FROM indexed_files WHERE store = vector_stores.key AND error_code IS NOT NULL),
        (SELECT coalesce(sum(usage_bytes), 0) FROM indexed_files WHERE store = vector_stores.key)
    FROM vector_stores
"""
INDEXED = """
    SELECT files.id, files.filename, indexed.attributes, indexed.created_at, indexed.chunk_size,
        indexed.overlap, indexed.usage_bytes, indexed.error_code, indexed.error, indexed.embedding
    FROM indexed_files AS indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
    WHERE stores.tenant = ? AND stores.id = ?
"""
# The chunks of some files in a store, and the id of each one's file.
AMONG = """
    FROM chunks
    JOIN indexed_files AS indexed ON indexed.key = chunks.indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
"""


def add(db: sqlite3.Connection, store: VectorStore) -> None:
    db.execute(
        "INSERT INTO vector_stores (id, tenant, name, metadata, created_at, last_active_at, days, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            store.id,
            store.tenant,
            store.name,
            store.metadata,
            store.created_at,
            store.last_active_at,
            store.days,
            store.expires_at,
        ),
    )


def get(db: sqlite3.Connection, tenant: str, id: str) -> VectorStore | None:
    row = db.execute(f"{STORE} WHERE tenant = ? AND id = ?", (tenant, id)).fetchone()
    return None if row is None else VectorStore(*row)


def page(db: sqlite3.Connection, tenant: str, after: str | None, limit: int, newest: bool) -> VectorStorePage:
    more, order = beyond(db, "vector_stores", tenant, after, newest)
    rows = db.execute(f"{STORE} WHERE tenant = ? {more} {order} LIMIT ?", (tenant, limit + 1)).fetchall()
    return VectorStorePage(tuple(VectorStore(*row) for row in rows[:limit]), len(rows) > limit)


def beyond(
    db: sqlite3.Connection, table: str, tenant: str, after: str | None, newest: bool
) -> tuple[str, str]:
    """Which rows of a table come after the one with this id, as SQL, and in which order."""
    order = f"ORDER BY key {'DESC' if newest else 'ASC'}"
    if after is None:
        return "", order
    row = db.execute(f"SELECT key FROM {table} WHERE id = ? AND tenant = ?", (after, tenant)).fetchone()
    if row is None:
        raise UnknownCursor(f"There is nothing {after!r} to continue after.")
    return f"AND key {'<' if newest else '>'} {row[0]:d}", order


def edit(db: sqlite3.Connection, store: VectorStore) -> bool:
    return bool(
        db.execute(
            "UPDATE vector_stores SET name = ?, metadata = ?, last_active_at = ?, days = ?, expires_at = ? "
            "WHERE tenant = ? AND id = ?",
            (
                store.name,
                store.metadata,
                store.last_active_at,
                store.days,
                store.expires_at,
                store.tenant,
                store.id,
            ),
        ).rowcount
    )


def touch(db: sqlite3.Connection, tenant: str, id: str, at: int) -> bool:
    touched = "UPDATE vector_stores SET last_active_at = :at, expires_at = :at + days * 86400"
    where = "WHERE tenant = :tenant AND id = :id"
    return bool(db.execute(f"{touched} {where}", {"at": at, "tenant": tenant, "id": id}).rowcount)


def delete(db: sqlite3.Connection, tenant: str, id: str) -> bool:
    key = _key(db, tenant, id)
    if key is None:
        return False
    _forget(db, tenant, "store = ?", key)
    db.execute("DELETE FROM vector_stores WHERE key = ?", (key,))
    return True


def prune(db: sqlite3.Connection, since: float, until: float, at_once: int) -> int:
    doomed = db.execute(
        "SELECT tenant, id FROM vector_stores WHERE expires_at > ? AND expires_at <= ? LIMIT ?",
        (since, until, at_once),
    ).fetchall()
    for tenant, id in doomed:
        delete(db, tenant, id)
    return len(doomed)


# --- files in a vector store ------------------------------------------------------------------------------


def index(
    db: sqlite3.Connection, tenant: str, store: str, indexed: IndexedFile, chunks: Sequence[FileChunk]
) -> bool:
    key = _key(db, tenant, store)
    file = db.execute("SELECT key FROM files WHERE tenant = ? AND id = ?", (tenant, indexed.file)).fetchone()
    if key is None or file is None:
        return False
    _forget(db, tenant, "store = ? AND file = ?", key, file[0])
    made = db.execute(
        "INSERT INTO indexed_files (store, file, attributes, created_at, chunk_size, overlap, usage_bytes, "
        "error_code, error, embedding) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            key,
            file[0],
            indexed.attributes,
            indexed.created_at,
            indexed.chunk_size,
            indexed.overlap,
            indexed.usage_bytes,
            indexed.error_code,
            indexed.error,
            indexed.embedding,
        ),
    ).lastrowid
    if chunks:
        texts = _index_of(db, tenant, make=True)
        for chunk in chunks:
            at = db.execute("INSERT INTO chunks (indexed, vector) VALUES (?, ?)", (made, chunk.vector))
            db.execute(f"INSERT INTO {texts} (rowid, text) VALUES (?, ?)", (at.lastrowid, chunk.text))
    return True


def indexed_file(db: sqlite3.Connection, tenant: str, store: str, file: str) -> IndexedFile | None:
    row = db.execute(f"{INDEXED} AND files.id = ?", (tenant, store, file)).fetchone()
    return None if row is None else IndexedFile(*row)


def indexed_page(
    db: sqlite3.Connection,
    tenant: str,
    store: str,
    status: str | None,
    after: str | None,
    limit: int,
    newest: bool,
) -> IndexedPage:
    sql = INDEXED
    if status is not None:
        sql += f" AND indexed.error_code IS {'NULL' if status == 'completed' else 'NOT NULL'}"
    if after is not None:
        row = db.execute(
            "SELECT indexed.key FROM indexed_files AS indexed JOIN files ON files.key = indexed.file "
            "WHERE indexed.store = ? AND files.id = ?",
            (_key(db, tenant, store), after),
        ).fetchone()
        if row is None:
            raise UnknownCursor(f"There is no file {after!r} in {store!r} to continue after.")
        sql += f" AND indexed.key {'<' if newest else '>'} {row[0]:d}"
    order = "DESC" if newest else "ASC"
    rows = db.execute(f"{sql} ORDER BY indexed.key {order} LIMIT ?", (tenant, store, limit + 1)).fetchall()
    return IndexedPage(tuple(IndexedFile(*row) for row in rows[:limit]), len(rows) > limit)


def remove(db: sqlite3.Connection, tenant: str, store: str, file: str) -> bool:
    row = db.execute("SELECT key FROM files WHERE tenant = ? AND id = ?", (tenant, file)).fetchone()
    key = _key(db, tenant, store)
    return row is not None and key is not None and _forget(db, tenant, "store = ? AND file = ?", key, row[0])


def forget_file(db: sqlite3.Connection, tenant: str, key: int) -> None:
    """Takes a file out of all vector stores."""
    _forget(db, tenant, "file = ?", key)


# --- search -----------------------------------------------------------------------------------------------


def attributes(db: sqlite3.Connection, tenant: str, store: str) -> dict[str, tuple[str, bytes]]:
    rows = db.execute(f"{INDEXED} AND indexed.error_code IS NULL", (tenant, store))
    return {row[0]: (row[1], row[2]) for row in rows}


def match(
    db: sqlite3.Connection, tenant: str, store: str, words: Sequence[str], files: Sequence[str], limit: int
) -> list[FoundChunk]:
    texts = _index_of(db, tenant)
    # Each word as a string of FTS5's own language, so that nothing in it is an operator.
    asked = " OR ".join('"{}"'.format(word.replace("\0", "").replace('"', '""')) for word in words)
    if texts is None or not asked:
        return []
    rows = db.execute(
        f"SELECT chunks.key, files.id, found.text {AMONG} JOIN {texts} AS found ON found.rowid = chunks.key "
        "WHERE found.text MATCH ? AND stores.tenant = ? AND stores.id = ? "
        "AND files.id IN (SELECT value FROM json_each(?)) ORDER BY found.rank, chunks.key LIMIT ?",
        (asked, tenant, store, _json(files), limit),
    )
    return [FoundChunk(*row) for row in rows.fetchall()]


def vectors(db: sqlite3.Connection, tenant: str, store: str, model: str, files: Sequence[str]) -> Vectors:
    rows = db.execute(
        f"SELECT chunks.key, chunks.vector {AMONG} WHERE stores.tenant = ? AND stores.id = ? "
        "AND indexed.embedding = ? AND files.id IN (SELECT value FROM json_each(?)) ORDER BY chunks.key",
        (tenant, store, model, _json(files)),
    ).fetchall()
    return Vectors(tuple(key for key, _ in rows), b"".join(vector for _, vector in rows))


def chunks(db: sqlite3.Connection, tenant: str, store: str, keys: Sequence[int]) -> list[FoundChunk]:
    texts = _index_of(db, tenant)
    if texts is None:
        return []
    rows = db.execute(
        f"SELECT chunks.key, files.id, found.text {AMONG} JOIN {texts} AS found ON found.rowid = chunks.key "
        "WHERE stores.tenant = ? AND stores.id = ? AND chunks.key IN (SELECT value FROM json_each(?))",
        (tenant, store, _json(keys)),
    )
    found = {row[0]: FoundChunk(*row) for row in rows}
    return [found[key] for key in keys if key in found]


def _key(db: sqlite3.Connection, tenant: str, id: str) -> int | None:
    row = db.execute("SELECT key FROM vector_stores WHERE tenant = ? AND id = ?", (tenant, id)).fetchone()
    return None if row is None else int(row[0])


def _index_of(db: sqlite3.Connection, tenant: str, *, make: bool = False) -> str | None:
    """The name of the tenant's index."""
    row = db.execute("SELECT key FROM chunk_searches WHERE tenant = ?", (tenant,)).fetchone()
    if row is None and make:
        if not has_fts5():
            raise StoreError(NO_FTS5)
        row = (db.execute("INSERT INTO chunk_searches (tenant) VALUES (?)", (tenant,)).lastrowid,)
        db.execute(
            f"CREATE VIRTUAL TABLE chunk_search_{row[0]:d} USING fts5 "
            "(text, tokenize='porter unicode61 remove_diacritics 2')"
        )
    return None if row is None else f"chunk_search_{row[0]:d}"


def _forget(db: sqlite3.Connection, tenant: str, condition: str, *values: int) -> bool:
    """Removes files from vector stores, with their chunks. Were there any?"""
    doomed = f"SELECT key FROM indexed_files WHERE {condition}"
    texts = _index_of(db, tenant)
    if texts is not None:
        gone = f"SELECT key FROM chunks WHERE indexed IN ({doomed})"
        db.execute(f"DELETE FROM {texts} WHERE rowid IN ({gone})", values)
        db.execute(f"DELETE FROM chunks WHERE indexed IN ({doomed})", values)
    return bool(db.execute(f"DELETE FROM indexed_files WHERE {condition}", values).rowcount)


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(list(values)).decode()
