"""Runs the statements of records on PostgreSQL, with the operations that need statements of their own.

Chats are searched by a `tsvector` that this module makes: it splits and folds the words itself, so that they
are the same in any locale of the database: letters and digits, without case and without marks on letters.
PostgreSQL counts positions up to 16,383: behind that, a search does not find terms of several words, such as
`well-known`.

Found chunks are ordered by BM25, which PostgreSQL does not have: a statement computes it over the chunks of
one vector store, so that the order does not show a tenant what others have written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from antiphon.store.chat_words import WITHOUT_SPACES, like_pattern, split_search
from antiphon.store.file_values import FileChunk, FoundChunk
from antiphon.store.postgres.connection import Connection, ask
from antiphon.store.statements import Answer, Backend, StatementRow, Steps, T, execute, postgres_text, rows

_WITH_INDEX = "key IN (SELECT chat FROM chat_texts WHERE tenant = ? AND words @@ ?::tsquery)"
# Chat by chat, so that no request reads the texts of all tenants.
_BY_LOOKING = "EXISTS (SELECT 1 FROM chat_texts WHERE chat = chats.key AND tenant = ? AND text ILIKE ?)"
_KEEP = """
    INSERT INTO chat_texts (key, chat, tenant, text, words) VALUES (?, ?, ?, ?, ?::tsvector)
    ON CONFLICT (key) DO UPDATE SET chat = excluded.chat, tenant = excluded.tenant, text = excluded.text,
        words = excluded.words
"""
_WORD = re.compile(r"[^\W_]+")
_LONGEST = 500
"""The number of characters of a word that count; PostgreSQL allows 2,046 bytes."""
_LAST = 16_383

# The chunks of a store, and the id of each one's file.
_AMONG = """
    FROM chunks
    JOIN indexed_files AS indexed ON indexed.key = chunks.indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
    WHERE stores.tenant = ? AND stores.id = ?
"""
_CHUNKS = """
    INSERT INTO chunks (indexed, text, words, length, vector)
    SELECT ?, given.text, to_tsvector('antiphon_words', given.words), given.length, given.vector
    FROM unnest(?::text[], ?::text[], ?::int4[], %b::bytea[])
        WITH ORDINALITY AS given (text, words, length, vector, n) ORDER BY n
"""
# BM25 with the usual k1 = 1.2 and b = 0.75; a word that most chunks have still counts a little.
_MATCH = f"""
    WITH asked AS MATERIALIZED (
        SELECT lexeme FROM unnest(to_tsvector('antiphon_words', ?))
    ), total AS MATERIALIZED (
        SELECT count(*)::float8 AS count, greatest(avg(chunks.length), 1)::float8 AS length {_AMONG}
    ), matching AS MATERIALIZED (
        SELECT chunks.key, files.id AS file, chunks.text, chunks.words, chunks.length::float8 AS length
        {_AMONG}
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
    WHERE matching.file = ANY(?) ORDER BY ranked.rank DESC, matching.key LIMIT ?
"""

# Only one transaction at a time removes rows of a chain: two would each keep rows for a response that the
# other removes.
_HOLD_CHAINS = """
    SELECT 1 FROM responses WHERE chain = ANY(?) AND position = 0 ORDER BY chain FOR NO KEY UPDATE
"""
# Waits for transactions that continue one of the responses; the next statement sees their rows.
_HOLD = "SELECT key, chain FROM responses WHERE key = ANY(?) AND id IS NOT NULL ORDER BY key FOR UPDATE"
_UNNAME = """
    DELETE FROM items USING (SELECT key, unnest(items) AS id FROM responses WHERE key = ANY(?)) AS gone
    WHERE items.id = gone.id AND items.response = gone.key
"""
_FORGET = """
    UPDATE responses SET id = NULL, model = '', items = '{}', body = NULL, spliced = NULL, owner = NULL,
                         expires_at = NULL, conversation = NULL, conversation_from = NULL,
                         chat = NULL, previous = NULL, job = NULL
    WHERE key = ANY(?)
"""
# No response needs a row that comes after the last remaining response of its chain.
_TRIM = """
    DELETE FROM responses USING (
        SELECT given.chain, coalesce(
            (SELECT position FROM responses AS kept
             WHERE kept.chain = given.chain AND id IS NOT NULL AND NOT key = ANY(?)
             ORDER BY position DESC LIMIT 1), -1) AS last
        FROM unnest(?::int8[]) AS given (chain)) AS shortened
    WHERE responses.chain = shortened.chain AND responses.position > shortened.last
"""


def words_of(text: str) -> list[str]:
    """Splits a text into folded words.

    >>> words_of("Ångström's 100%_sure")
    ['angstrom', 's', '100', 'sure']
    """
    plain = unicodedata.normalize("NFKD", text).casefold()
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return [word[:_LONGEST] for word in _WORD.findall(letters)]


def vector_of(text: str) -> str:
    """Writes the words of a text with their positions as a `tsvector` of PostgreSQL."""
    return " ".join(f"'{word}':{min(n, _LAST)}" for n, word in enumerate(words_of(text), 1))


def store_text(key: int, chat: int, tenant: str, text: str) -> Steps[None]:
    if text:
        yield from execute(_KEEP, key, chat, tenant, text, vector_of(text))
    else:
        yield from remove_texts([key])


def remove_texts(keys: Sequence[int]) -> Steps[None]:
    yield from execute("DELETE FROM chat_texts WHERE key = ANY(?)", list(keys))


def text_condition(tenant: str, search: str) -> tuple[str, list[Any]]:
    found = [_word_condition(word.replace("\0", "")) for word in split_search(search)]
    return "".join(f" AND {sql}" for sql, _ in found), [value for _, one in found for value in (tenant, one)]


def _word_condition(word: str) -> tuple[str, str]:
    words = words_of(word)
    if WITHOUT_SPACES.search(word) or not words:
        return _BY_LOOKING, like_pattern(word)
    return _WITH_INDEX, " <-> ".join(f"'{one}'" for one in words) + ":*"


def store_chunks(tenant: str, indexed: int, chunks: Sequence[FileChunk]) -> Steps[None]:
    words = [words_of(chunk.text) for chunk in chunks]
    texts, vectors = [chunk.text for chunk in chunks], [chunk.vector for chunk in chunks]
    joined, lengths = [" ".join(one) for one in words], [*map(len, words)]
    yield from execute(_CHUNKS, indexed, texts, joined, lengths, vectors)


def remove_chunks(tenant: str, indexed: list[int]) -> Steps[None]:
    yield from execute("DELETE FROM chunks WHERE indexed = ANY(?)", indexed)


def match_chunks(
    tenant: str, store: str, words: Sequence[str], files: Sequence[str], limit: int
) -> Steps[list[FoundChunk]]:
    asked = " ".join(one for word in words for one in words_of(word))
    if not asked or not files:
        return []
    place = (tenant, store)
    found = yield from rows(_MATCH, asked, *place, *place, list(files), limit)
    return [FoundChunk(*row) for row in found]


def read_chunks(tenant: str, store: str, keys: Sequence[int]) -> Steps[list[FoundChunk]]:
    sql = f"SELECT chunks.key, files.id, chunks.text {_AMONG} AND chunks.key = ANY(?)"
    return [FoundChunk(*row) for row in (yield from rows(sql, tenant, store, list(keys)))]


def remove_responses(doomed: Sequence[StatementRow]) -> Steps[int]:
    yield from rows(_HOLD_CHAINS, sorted({chain for _, chain in doomed}))
    held = yield from rows(_HOLD, [key for key, _ in doomed])
    keys, chains = [key for key, _ in held], sorted({chain for _, chain in held})
    yield from remove_texts(keys)
    yield from execute("DELETE FROM events WHERE response = ANY(?)", keys)
    yield from execute(_UNNAME, keys)
    yield from execute(_TRIM, keys, chains)
    yield from execute(_FORGET, keys)
    return len(keys)


BACKEND = Backend(
    store_text,
    remove_texts,
    text_condition,
    store_chunks,
    remove_chunks,
    match_chunks,
    read_chunks,
    remove_responses,
)
NO_ROWS = Answer([], 0, BACKEND)


async def carry_out(db: Connection, steps: Steps[T]) -> T:
    """Runs an operation in the transaction that the caller has begun, or as a reader."""
    try:
        query = next(steps)
        while True:
            if not query.sql:
                query = steps.send(NO_ROWS)
                continue
            cursor = await ask(db, postgres_text(query.sql), query.values)
            found = await cursor.fetchall() if cursor.description else []
            query = steps.send(Answer(found, cursor.rowcount, BACKEND))
    except StopIteration as ended:
        result: T = ended.value
        return result
