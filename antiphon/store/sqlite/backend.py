"""Runs the statements of records on SQLite, with the operations for which SQLite needs statements of its own.

Chats are searched with FTS5 where SQLite has it, else by reading all their texts. The texts are in
`chat_texts`; the index `chat_search` only refers to them. A process without FTS5 leaves the index unchanged,
and the next process with FTS5 finds that the numbers of texts differ and builds the index again.

The texts of chunks are in an index of FTS5, one for each tenant: the frequency of a word decides the order of
results, and must not show a tenant what others have written.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from typing import Any

import msgspec

from antiphon.store.base import StoreError
from antiphon.store.chat_words import WITHOUT_SPACES, like_pattern, split_search
from antiphon.store.file_values import FileChunk, FoundChunk
from antiphon.store.statements import Answer, Backend, StatementRow, Steps, T, execute, one, rows, sqlite_text

_INDEX = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS chat_search USING fts5 "
    "(text, content='chat_texts', content_rowid='key', tokenize='unicode61 remove_diacritics 2')"
)
_REBUILD = "INSERT INTO chat_search (chat_search) VALUES ('rebuild')"
_ADD = "INSERT INTO chat_search (rowid, text) VALUES (?, ?)"
_TAKE_OUT = "INSERT INTO chat_search (chat_search, rowid, text) VALUES ('delete', ?, ?)"
_COUNTS = "SELECT (SELECT count(*) FROM chat_texts) = (SELECT count(*) FROM chat_search_docsize)"
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'chat_search'"

_WITH_INDEX = (
    "key IN (SELECT chat FROM chat_texts WHERE key IN (SELECT rowid FROM chat_search WHERE text MATCH ?))"
)
# Chat by chat, so that no request reads the texts of all tenants.
_BY_LOOKING = "EXISTS (SELECT 1 FROM chat_texts WHERE chat = chats.key AND text LIKE ? ESCAPE '\\')"
_WORD = re.compile(r"[^\W_]")  # an underscore is no part of a word to FTS5

_NO_FTS5 = "This Python's SQLite has no FTS5, so that files cannot be searched."
_CHUNKS = """
    SELECT chunks.key, files.id, found.text FROM chunks
    JOIN indexed_files AS indexed ON indexed.key = chunks.indexed
    JOIN files ON files.key = indexed.file
    JOIN vector_stores AS stores ON stores.key = indexed.store
    JOIN {texts} AS found ON found.rowid = chunks.key
    WHERE stores.tenant = ? AND stores.id = ?
"""

_FORGET = """
    UPDATE responses SET id = NULL, model = '', items = '[]', body = NULL, spliced = NULL, owner = NULL,
                         expires_at = NULL, conversation = NULL, conversation_from = NULL,
                         chat = NULL, previous = NULL, job = NULL
    WHERE key = ANY(?)
"""
# No response needs a row that comes after the last remaining response of its chain.
_TRIM = """
    DELETE FROM responses WHERE key IN (
        SELECT needless.key FROM (
            SELECT value AS chain, coalesce(
                (SELECT position FROM responses
                 WHERE chain = value AND id IS NOT NULL AND key NOT IN (SELECT value FROM json_each(?))
                 ORDER BY position DESC LIMIT 1), -1) AS last
            FROM json_each(?)) AS shortened
        JOIN responses AS needless ON needless.chain = shortened.chain AND needless.position > shortened.last)
"""

_encode = msgspec.json.Encoder().encode


@cache
def has_fts5() -> bool:
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE probe USING fts5 (text)")
        except sqlite3.OperationalError:
            return False
    return True


def prepare_index(db: sqlite3.Connection) -> None:
    """Makes the index of chats, or makes it anew where it differs from the texts."""
    if not has_fts5():
        return
    if db.execute(_IS_THERE).fetchone() and db.execute(_COUNTS).fetchone()[0]:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_INDEX)
        db.execute(_REBUILD)
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def store_text(key: int, chat: int, tenant: str, text: str) -> Steps[None]:
    yield from remove_texts([key])
    if text:
        yield from execute("INSERT INTO chat_texts (key, chat, text) VALUES (?, ?, ?)", key, chat, text)
        if has_fts5():
            yield from execute(_ADD, key, text)


def remove_texts(keys: Sequence[int]) -> Steps[None]:
    which = list(keys)
    if has_fts5():
        for kept in (yield from rows("SELECT key, text FROM chat_texts WHERE key = ANY(?)", which)):
            yield from execute(_TAKE_OUT, *kept)
    yield from execute("DELETE FROM chat_texts WHERE key = ANY(?)", which)


def text_condition(tenant: str, search: str) -> tuple[str, list[Any]]:
    found = [_word_condition(word) for word in split_search(search)]
    return "".join(f" AND {sql}" for sql, _ in found), [value for _, value in found]


def _word_condition(word: str) -> tuple[str, str]:
    word = word.replace("\0", "")
    if not has_fts5() or WITHOUT_SPACES.search(word) or not _WORD.search(word):
        return _BY_LOOKING, like_pattern(word)
    quoted = word.replace('"', '""')
    return _WITH_INDEX, f'"{quoted}"*'


def store_chunks(tenant: str, indexed: int, chunks: Sequence[FileChunk]) -> Steps[None]:
    texts = yield from _chunk_index(tenant)
    if texts is None:
        if not has_fts5():
            raise StoreError(_NO_FTS5)
        yield from execute("INSERT INTO chunk_searches (tenant) VALUES (?)", tenant)
        texts = yield from _chunk_index(tenant)
        yield from execute(
            f"CREATE VIRTUAL TABLE {texts} USING fts5 (text, tokenize='porter unicode61 remove_diacritics 2')"
        )
    for chunk in chunks:
        yield from execute("INSERT INTO chunks (indexed, vector) VALUES (?, ?)", indexed, chunk.vector)
        yield from execute(f"INSERT INTO {texts} (rowid, text) VALUES (last_insert_rowid(), ?)", chunk.text)


def remove_chunks(tenant: str, indexed: list[int]) -> Steps[None]:
    texts = yield from _chunk_index(tenant)
    if texts is not None:
        gone = "SELECT key FROM chunks WHERE indexed = ANY(?)"
        yield from execute(f"DELETE FROM {texts} WHERE rowid IN ({gone})", indexed)
        yield from execute("DELETE FROM chunks WHERE indexed = ANY(?)", indexed)


def match_chunks(
    tenant: str, store: str, words: Sequence[str], files: Sequence[str], limit: int
) -> Steps[list[FoundChunk]]:
    texts = yield from _chunk_index(tenant)
    # Each word as a quoted string of FTS5's query language, so that nothing in it is an operator.
    asked = " OR ".join('"{}"'.format(word.replace("\0", "").replace('"', '""')) for word in words)
    if texts is None or not asked:
        return []
    found = yield from rows(
        f"{_CHUNKS.format(texts=texts)} AND found.text MATCH ? AND files.id = ANY(?) "
        "ORDER BY found.rank, chunks.key LIMIT ?",
        tenant,
        store,
        asked,
        list(files),
        limit,
    )
    return [FoundChunk(*row) for row in found]


def read_chunks(tenant: str, store: str, keys: Sequence[int]) -> Steps[list[FoundChunk]]:
    texts = yield from _chunk_index(tenant)
    if texts is None:
        return []
    sql = f"{_CHUNKS.format(texts=texts)} AND chunks.key = ANY(?)"
    return [FoundChunk(*row) for row in (yield from rows(sql, tenant, store, list(keys)))]


def _chunk_index(tenant: str) -> Steps[str | None]:
    """Returns the name of the tenant's index, or None before its first chunk."""
    row = yield from one("SELECT key FROM chunk_searches WHERE tenant = ?", tenant)
    return None if row is None else f"chunk_search_{row[0]:d}"


def remove_responses(doomed: Sequence[StatementRow]) -> Steps[int]:
    keys, chains = [key for key, _ in doomed], sorted({chain for _, chain in doomed})
    yield from remove_texts(keys)
    yield from execute("DELETE FROM events WHERE response = ANY(?)", keys)
    # First, because it needs no space and the next statement may need some.
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


def carry_out(db: sqlite3.Connection, steps: Steps[T]) -> T:
    """Runs an operation in the transaction that the caller has begun, or as a reader."""
    try:
        query = next(steps)
        while True:
            if not query.sql:
                query = steps.send(NO_ROWS)
                continue
            values = [_encode(value).decode() if type(value) is list else value for value in query.values]
            cursor = db.execute(sqlite_text(query.sql), values)
            query = steps.send(Answer(cursor.fetchall(), cursor.rowcount, BACKEND))
    except StopIteration as ended:
        found: T = ended.value
        return found
