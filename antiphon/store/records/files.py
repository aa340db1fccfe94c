"""Uploaded files and vector stores: files cut into chunks, found by their words and by their vectors.

The bytes of a file are not here but in a folder, under their digest.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.base import UnknownCursor
from antiphon.store.file_values import (
    FileChunk,
    FilePage,
    FoundChunk,
    IndexedFile,
    IndexedPage,
    UploadedFile,
    Vectors,
    VectorStore,
    VectorStorePage,
)
from antiphon.store.statements import Steps, execute, get_backend, insert, key_of, one, page, rows

FILE = "id, tenant, filename, purpose, bytes, digest, created_at, expires_at"
# Two uploads of one tenant must not both find the room that is left.
HOLD = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"
STORE = "id, tenant, name, metadata, created_at, last_active_at, days, expires_at"
STORES = f"""
    SELECT {STORE},
        (SELECT count(*) FROM indexed_files WHERE store = vector_stores.key AND error_code IS NULL),
        (SELECT count(*) FROM indexed_files WHERE store = vector_stores.key AND error_code IS NOT NULL),
        (SELECT coalesce(sum(usage_bytes), 0)::int8 FROM indexed_files WHERE store = vector_stores.key)
    FROM vector_stores
"""
INDEXED = "attributes, created_at, chunk_size, overlap, usage_bytes, error_code, error, embedding"
INDEXED_FILES = """
    SELECT files.id, files.filename, indexed.attributes, indexed.created_at, indexed.chunk_size,
        indexed.overlap, indexed.usage_bytes, indexed.error_code, indexed.error, indexed.embedding
    FROM indexed_files AS indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
    WHERE stores.tenant = ? AND stores.id = ?
"""
VECTORS = """
    SELECT chunks.key, chunks.vector FROM chunks
    JOIN indexed_files AS indexed ON indexed.key = chunks.indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
    WHERE stores.tenant = ? AND stores.id = ? AND indexed.embedding = ? AND files.id = ANY(?)
    ORDER BY chunks.key
"""


def add_file(file: UploadedFile, quota: int) -> Steps[bool]:
    """False, and nothing is stored, if all files of the tenant would have more bytes than the quota."""
    yield from rows(HOLD, f"antiphon files of {file.tenant}")
    taken = "SELECT coalesce(sum(bytes), 0)::int8 FROM files WHERE tenant = ?"
    ((used,),) = yield from rows(taken, file.tenant)
    if used + file.bytes > quota:
        return False
    yield from insert("files", FILE, file)
    return True


def file(tenant: str, id: str) -> Steps[UploadedFile | None]:
    row = yield from one(f"SELECT {FILE} FROM files WHERE tenant = ? AND id = ?", tenant, id)
    return None if row is None else UploadedFile(*row)


def page_files(
    tenant: str,
    *,
    purpose: str | None = None,
    after: str | None = None,
    limit: int = 20,
    newest_first: bool = True,
) -> Steps[FilePage]:
    sql, values = f"SELECT {FILE} FROM files WHERE tenant = ?", [tenant]
    if purpose is not None:
        sql, values = f"{sql} AND purpose = ?", [*values, purpose]
    beyond = yield from _beyond("files", tenant, after, newest_first)
    return FilePage(*(yield from page(lambda row: UploadedFile(*row), f"{sql} {beyond}", values, limit)))


def _beyond(table: str, tenant: str, after: str | None, newest: bool) -> Steps[str]:
    """Returns the order of a table, and the condition for rows after the one with this id, as SQL."""
    order = f"ORDER BY key {'DESC' if newest else 'ASC'}"
    if after is None:
        return order
    key = yield from key_of(table, tenant, after)
    if key is None:
        raise UnknownCursor(f"There is nothing {after!r} to continue after.")
    return f"AND key {'<' if newest else '>'} {key:d} {order}"


def delete_file(tenant: str, id: str) -> Steps[bool]:
    """Removes a file, and takes it out of all vector stores."""
    row = yield from one("SELECT key FROM files WHERE tenant = ? AND id = ? FOR UPDATE", tenant, id)
    if row is None:
        return False
    yield from _forget(tenant, "file = ?", *row)
    yield from execute("DELETE FROM files WHERE key = ?", *row)
    return True


def used_contents(digests: Sequence[str]) -> Steps[set[str]]:
    """Returns the digests that a file of any tenant has."""
    found = yield from rows("SELECT DISTINCT digest FROM files WHERE digest = ANY(?)", list(digests))
    return {digest for (digest,) in found}


# --- vector stores ----------------------------------------------------------------------------------------


def add_vector_store(store: VectorStore) -> Steps[None]:
    yield from insert("vector_stores", STORE, store)


def vector_store(tenant: str, id: str) -> Steps[VectorStore | None]:
    row = yield from one(f"{STORES} WHERE tenant = ? AND id = ?", tenant, id)
    return None if row is None else VectorStore(*row)


def page_vector_stores(
    tenant: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
) -> Steps[VectorStorePage]:
    beyond = yield from _beyond("vector_stores", tenant, after, newest_first)
    sql = f"{STORES} WHERE tenant = ? {beyond}"
    return VectorStorePage(*(yield from page(lambda row: VectorStore(*row), sql, [tenant], limit)))


def edit_vector_store(store: VectorStore) -> Steps[bool]:
    """Sets the name, the metadata, the last use and the expiry."""
    edited = yield from execute(
        "UPDATE vector_stores SET name = ?, metadata = ?, last_active_at = ?, days = ?, expires_at = ? "
        "WHERE tenant = ? AND id = ?",
        store.name,
        store.metadata,
        store.last_active_at,
        store.days,
        store.expires_at,
        store.tenant,
        store.id,
    )
    return edited == 1


def touch_vector_store(tenant: str, id: str, at: int) -> Steps[bool]:
    """Records a use at this time, which moves the expiry."""
    touched = (
        "UPDATE vector_stores SET last_active_at = ?, expires_at = ?::int8 + days * 86400 "
        "WHERE tenant = ? AND id = ?"
    )
    return (yield from execute(touched, at, at, tenant, id)) == 1


def delete_vector_store(tenant: str, id: str) -> Steps[bool]:
    key = yield from key_of("vector_stores", tenant, id, lock=True)
    if key is None:
        return False
    yield from _forget(tenant, "store = ?", key)
    yield from execute("DELETE FROM vector_stores WHERE key = ?", key)
    return True


# --- files in a vector store ------------------------------------------------------------------------------


def index_file(tenant: str, store: str, indexed: IndexedFile, chunks: Sequence[FileChunk]) -> Steps[bool]:
    """Puts a file with its chunks into a vector store, in place of its earlier chunks there.

    False if the tenant has no such store or no such file.
    """
    key = yield from key_of("vector_stores", tenant, store, lock=True)
    file = yield from one("SELECT key FROM files WHERE tenant = ? AND id = ? FOR SHARE", tenant, indexed.file)
    if key is None or file is None:
        return False
    yield from _forget(tenant, "store = ? AND file = ?", key, *file)
    yield from insert("indexed_files", INDEXED, indexed, store=key, file=file[0])
    if chunks:
        made = "SELECT key FROM indexed_files WHERE store = ? AND file = ?"
        ((own,),) = yield from rows(made, key, *file)
        yield from (yield from get_backend()).store_chunks(tenant, own, chunks)
    return True


def indexed_file(tenant: str, store: str, file: str) -> Steps[IndexedFile | None]:
    row = yield from one(f"{INDEXED_FILES} AND files.id = ?", tenant, store, file)
    return None if row is None else IndexedFile(*row)


def page_indexed_files(
    tenant: str,
    store: str,
    *,
    status: str | None = None,
    after: str | None = None,
    limit: int = 20,
    newest_first: bool = True,
) -> Steps[IndexedPage]:
    sql = INDEXED_FILES
    if status is not None:
        sql += f" AND indexed.error_code IS {'NULL' if status == 'completed' else 'NOT NULL'}"
    if after is not None:
        row = yield from one(
            "SELECT indexed.key FROM indexed_files AS indexed JOIN files ON files.key = indexed.file "
            "WHERE indexed.store = ? AND files.id = ?",
            (yield from key_of("vector_stores", tenant, store)),
            after,
        )
        if row is None:
            raise UnknownCursor(f"There is no file {after!r} in {store!r} to continue after.")
        sql += f" AND indexed.key {'<' if newest_first else '>'} {row[0]:d}"
    sql += f" ORDER BY indexed.key {'DESC' if newest_first else 'ASC'}"
    return IndexedPage(*(yield from page(lambda row: IndexedFile(*row), sql, (tenant, store), limit)))


def remove_indexed_file(tenant: str, store: str, file: str) -> Steps[bool]:
    removed = yield from key_of("files", tenant, file)
    key = yield from key_of("vector_stores", tenant, store, lock=True)
    if removed is None or key is None:
        return False
    return (yield from _forget(tenant, "store = ? AND file = ?", key, removed))


def _forget(tenant: str, condition: str, *values: int) -> Steps[bool]:
    """Removes files with their chunks from vector stores, and returns whether there were any."""
    found = yield from rows(f"SELECT key FROM indexed_files WHERE {condition} FOR UPDATE", *values)
    keys = [key for (key,) in found]
    if keys:
        yield from (yield from get_backend()).remove_chunks(tenant, keys)
        yield from execute("DELETE FROM indexed_files WHERE key = ANY(?)", keys)
    return bool(keys)


# --- search -----------------------------------------------------------------------------------------------


def file_attributes(tenant: str, store: str) -> Steps[dict[str, tuple[str, bytes]]]:
    """Returns the name and the attributes of each indexed file of a vector store."""
    found = yield from rows(f"{INDEXED_FILES} AND indexed.error_code IS NULL", tenant, store)
    return {row[0]: (row[1], row[2]) for row in found}


def match_chunks(
    tenant: str, store: str, words: Sequence[str], files: Sequence[str], limit: int
) -> Steps[list[FoundChunk]]:
    """Finds chunks of these files with any of the words, the most relevant first (BM25)."""
    return (yield from (yield from get_backend()).match_chunks(tenant, store, words, files, limit))


def chunk_vectors(tenant: str, store: str, model: str, files: Sequence[str]) -> Steps[Vectors]:
    """Returns the vectors of these files that this model has made."""
    found = yield from rows(VECTORS, tenant, store, model, list(files))
    return Vectors(tuple(key for key, _ in found), b"".join(vector for _, vector in found))


def chunks(tenant: str, store: str, keys: Sequence[int]) -> Steps[list[FoundChunk]]:
    """Returns the chunks with these keys, in this order; skips chunks that are gone."""
    found = yield from (yield from get_backend()).read_chunks(tenant, store, keys)
    by_key = {chunk.key: chunk for chunk in found}
    return [by_key[key] for key in keys if key in by_key]
