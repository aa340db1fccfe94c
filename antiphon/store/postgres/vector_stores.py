"""The SQL of vector stores: files cut into chunks, found by their words and by their vectors.

The order of what is found is that of BM25, which PostgreSQL does not have: it is worked out here over the
chunks of one vector store, so that nobody learns from it what others have written.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.base import UnknownCursor
from antiphon.store.file_values import (
    FileChunk,
    FoundChunk,
    IndexedFile,
    IndexedPage,
    Vectors,
    VectorStore,
    VectorStorePage,
)
from antiphon.store.postgres.chat_texts import words_of
from antiphon.store.postgres.connection import Connection, execute, key_of, one, rows

STORE = """
    SELECT id, tenant, name, metadata, created_at, last_active_at, days, expires_at,
        (SELECT count(*) FROM indexed_files WHERE store = vector_stores.key AND error_code IS NULL),
        (SELECT count(*) FROM indexed_files WHERE store = vector_stores.key AND error_code IS NOT NULL),
        (SELECT coalesce(sum(usage_bytes), 0)::int8 FROM indexed_files WHERE store = vector_stores.key)
    FROM vector_stores
"""
INDEXED = """
    SELECT files.id, files.filename, indexed.attributes, indexed.created_at, indexed.chunk_size,
        indexed.overlap, indexed.usage_bytes, indexed.error_code, indexed.error, indexed.embedding
    FROM indexed_files AS indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
    WHERE stores.tenant = %s AND stores.id = %s
"""
# The chunks of a store, and the id of each one's file.
AMONG = """
    FROM chunks
    JOIN indexed_files AS indexed ON indexed.key = chunks.indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
    WHERE stores.tenant = %(tenant)s AND stores.id = %(store)s
"""
CHUNKS = """
    INSERT INTO chunks (indexed, text, words, length, vector)
    SELECT %s, given.text, to_tsvector('antiphon_words', given.words), given.length, given.vector
    FROM unnest(%s::text[], %s::text[], %s::int4[], %b::bytea[])
        WITH ORDINALITY AS given (text, words, length, vector, n) ORDER BY n
"""
# BM25 with the usual k1 = 1.2 and b = 0.75; a word that most chunks have still counts a little.
MATCH = f"""
    WITH asked AS MATERIALIZED (
        SELECT lexeme FROM unnest(to_tsvector('antiphon_words', %(words)s))
    ), total AS MATERIALIZED (
        SELECT count(*)::float8 AS count, greatest(avg(chunks.length), 1)::float8 AS length {AMONG}
    ), matching AS MATERIALIZED (
        SELECT chunks.key, files.id AS file, chunks.text, chunks.words, chunks.length::float8 AS length
        {AMONG}
        AND chunks.words @@ (SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery FROM asked)
    ), hits AS (
        SELECT matching.key, matching.length, cardinality(found.positions)::float8 AS times,
            count(*) OVER (PARTITION BY found.lexeme)::float8 AS chunks
        FROM matching, unnest(matching.words) AS found JOIN asked ON asked.lexeme = found.lexeme
    ), ranked AS (
        SELECT hits.key, sum(
            greatest(ln((total.count - hits.chunks + 0.5) / (hits.chunks + 0.5)), 0.000001)
            * hits.times * 2.2 / (hits.times + 1.2 * (0.25 + 0.75 * hits.length / total.length))) AS rank
        FROM hits, total GROUP BY hits.key
    )
    SELECT matching.key, matching.file, matching.text FROM ranked JOIN matching USING (key)
    WHERE matching.file = ANY(%(files)s) ORDER BY ranked.rank DESC, matching.key LIMIT %(limit)s
"""


async def add(db: Connection, store: VectorStore) -> None:
    await execute(
        db,
        "INSERT INTO vector_stores (id, tenant, name, metadata, created_at, last_active_at, days, expires_at)"
        " VALUES (%s, %s, %s, %b, %s, %s, %s, %s)",
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


async def get(db: Connection, tenant: str, id: str) -> VectorStore | None:
    row = await one(db, f"{STORE} WHERE tenant = %s AND id = %s", (tenant, id))
    return None if row is None else VectorStore(*row)


async def page(db: Connection, tenant: str, after: str | None, limit: int, newest: bool) -> VectorStorePage:
    more, order = await beyond(db, "vector_stores", tenant, after, newest)
    found = await rows(db, f"{STORE} WHERE tenant = %s {more} {order} LIMIT %s", (tenant, limit + 1))
    return VectorStorePage(tuple(VectorStore(*row) for row in found[:limit]), len(found) > limit)


async def beyond(db: Connection, table: str, tenant: str, after: str | None, newest: bool) -> tuple[str, str]:
    """Which rows of a table come after the one with this id, as SQL, and in which order."""
    order = f"ORDER BY key {'DESC' if newest else 'ASC'}"
    if after is None:
        return "", order
    key = await key_of(db, table, tenant, after)
    if key is None:
        raise UnknownCursor(f"There is nothing {after!r} to continue after.")
    return f"AND key {'<' if newest else '>'} {key:d}", order


async def edit(db: Connection, store: VectorStore) -> bool:
    changed = await execute(
        db,
        "UPDATE vector_stores SET name = %s, metadata = %b, last_active_at = %s, days = %s, expires_at = %s "
        "WHERE tenant = %s AND id = %s",
        (
            store.name,
            store.metadata,
            store.last_active_at,
            store.days,
            store.expires_at,
            store.tenant,
            store.id,
        ),
    )
    return bool(changed)


async def touch(db: Connection, tenant: str, id: str, at: int) -> bool:
    touched = (
        "UPDATE vector_stores SET last_active_at = %(at)s, expires_at = %(at)s + days * 86400 "
        "WHERE tenant = %(tenant)s AND id = %(id)s"
    )
    return bool(await execute(db, touched, {"at": at, "tenant": tenant, "id": id}))


async def delete(db: Connection, tenant: str, id: str) -> bool:
    key = await key_of(db, "vector_stores", tenant, id, lock=True)
    if key is None:
        return False
    await forget(db, "store = %s", key)
    await execute(db, "DELETE FROM vector_stores WHERE key = %s", (key,))
    return True


# --- files in a vector store ------------------------------------------------------------------------------


async def index(
    db: Connection, tenant: str, store: str, indexed: IndexedFile, chunks: Sequence[FileChunk]
) -> bool:
    key = await key_of(db, "vector_stores", tenant, store, lock=True)
    file = await one(
        db, "SELECT key FROM files WHERE tenant = %s AND id = %s FOR SHARE", (tenant, indexed.file)
    )
    if key is None or file is None:
        return False
    await forget(db, "store = %s AND file = %s", key, *file)
    ((made,),) = await rows(
        db,
        "INSERT INTO indexed_files (store, file, attributes, created_at, chunk_size, overlap, usage_bytes, "
        "error_code, error, embedding) VALUES (%s, %s, %b, %s, %s, %s, %s, %s, %s, %s) RETURNING key",
        (
            key,
            *file,
            indexed.attributes,
            indexed.created_at,
            indexed.chunk_size,
            indexed.overlap,
            indexed.usage_bytes,
            indexed.error_code,
            indexed.error,
            indexed.embedding,
        ),
    )
    if chunks:
        words = [words_of(chunk.text) for chunk in chunks]
        texts, vectors = [chunk.text for chunk in chunks], [chunk.vector for chunk in chunks]
        await execute(
            db, CHUNKS, (made, texts, [" ".join(one) for one in words], [*map(len, words)], vectors)
        )
    return True


async def indexed_file(db: Connection, tenant: str, store: str, file: str) -> IndexedFile | None:
    row = await one(db, f"{INDEXED} AND files.id = %s", (tenant, store, file))
    return None if row is None else IndexedFile(*row)


async def indexed_page(
    db: Connection,
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
        row = await one(
            db,
            "SELECT indexed.key FROM indexed_files AS indexed JOIN files ON files.key = indexed.file "
            "WHERE indexed.store = %s AND files.id = %s",
            (await key_of(db, "vector_stores", tenant, store), after),
        )
        if row is None:
            raise UnknownCursor(f"There is no file {after!r} in {store!r} to continue after.")
        sql += f" AND indexed.key {'<' if newest else '>'} {row[0]:d}"
    order = "DESC" if newest else "ASC"
    found = await rows(db, f"{sql} ORDER BY indexed.key {order} LIMIT %s", (tenant, store, limit + 1))
    return IndexedPage(tuple(IndexedFile(*row) for row in found[:limit]), len(found) > limit)


async def remove(db: Connection, tenant: str, store: str, file: str) -> bool:
    removed = await key_of(db, "files", tenant, file)
    key = await key_of(db, "vector_stores", tenant, store, lock=True)
    if removed is None or key is None:
        return False
    return await forget(db, "store = %s AND file = %s", key, removed)


async def forget(db: Connection, condition: str, *values: int) -> bool:
    """Removes files from vector stores, with their chunks. Were there any?"""
    gone = await rows(db, f"DELETE FROM indexed_files WHERE {condition} RETURNING key", values)
    await execute(db, "DELETE FROM chunks WHERE indexed = ANY(%s)", ([key for (key,) in gone],))
    return bool(gone)


# --- search -----------------------------------------------------------------------------------------------


async def attributes(db: Connection, tenant: str, store: str) -> dict[str, tuple[str, bytes]]:
    found = await rows(db, f"{INDEXED} AND indexed.error_code IS NULL", (tenant, store))
    return {row[0]: (row[1], row[2]) for row in found}


async def match(
    db: Connection, tenant: str, store: str, words: Sequence[str], files: Sequence[str], limit: int
) -> list[FoundChunk]:
    asked = " ".join(one for word in words for one in words_of(word))
    if not asked or not files:
        return []
    given = {"tenant": tenant, "store": store, "words": asked, "files": list(files), "limit": limit}
    return [FoundChunk(*row) for row in await rows(db, MATCH, given)]


async def vectors(db: Connection, tenant: str, store: str, model: str, files: Sequence[str]) -> Vectors:
    found = await rows(
        db,
        f"SELECT chunks.key, chunks.vector {AMONG} AND indexed.embedding = %(model)s "
        "AND files.id = ANY(%(files)s) ORDER BY chunks.key",
        {"tenant": tenant, "store": store, "model": model, "files": list(files)},
    )
    return Vectors(tuple(key for key, _ in found), b"".join(vector for _, vector in found))


async def chunks(db: Connection, tenant: str, store: str, keys: Sequence[int]) -> list[FoundChunk]:
    found = await rows(
        db,
        f"SELECT chunks.key, files.id, chunks.text {AMONG} AND chunks.key = ANY(%(keys)s)",
        {"tenant": tenant, "store": store, "keys": list(keys)},
    )
    by_key = {row[0]: FoundChunk(*row) for row in found}
    return [by_key[key] for key in keys if key in by_key]
