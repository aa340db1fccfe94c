"""Statements that are written once and carried out by both databases.

An operation on records is a generator: it yields each `Query`, is sent the `Answer`, and returns what it
has found. So it knows neither threads nor an event loop: SQLite's driver runs it inside a job of a thread,
and PostgreSQL's driver awaits each answer. The text is PostgreSQL's, with `?` for a value and a list for an
array; `SQLITE_WORDS` has what SQLite says in another way, and a `Backend` what takes other statements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from antiphon.store.file_values import FileChunk, FoundChunk

T = TypeVar("T")

StatementRow = tuple[Any, ...]

SQLITE_WORDS = (
    # One transaction writes at a time, so there is nothing to lock.
    (" FOR UPDATE SKIP LOCKED", ""),
    (" FOR NO KEY UPDATE", ""),
    (" FOR UPDATE", ""),
    (" FOR SHARE", ""),
    ("pg_advisory_xact_lock(hashtextextended(?, 0))", "?"),
    ("= ANY(?)", "IN (SELECT value FROM json_each(?))"),
    ("string_agg(data, ','::bytea)", "CAST(group_concat(data, ',') AS BLOB)"),
    ("greatest(", "max("),
    ("::int8", ""),
    # The key of a new row: the next number there, a number that grows with time here.
    ("(DEFAULT, ", "(new_key(), "),
)


class Query(NamedTuple):
    """A statement and its values. Without a text nothing is asked: the answer only names the backend."""

    sql: str
    values: Sequence[Any] = ()


class Answer(NamedTuple):
    """`changed` is how many rows a statement has changed."""

    rows: list[StatementRow]
    changed: int
    backend: Backend


Steps = Generator[Query, Answer, T]


@dataclass(frozen=True, slots=True)
class Backend:
    """What takes other statements in each database: its search of texts, and the removal of responses."""

    keep_text: Callable[[int, int, str, str], Steps[None]]
    """Puts a text of a chat into the search, in place of what had the same key: key, chat, tenant, text."""
    forget_texts: Callable[[Sequence[int]], Steps[None]]
    """Takes the texts with these keys out of the search."""
    text_condition: Callable[[str, str], tuple[str, list[Any]]]
    """Which `chats` of a tenant have all words of a search, as SQL; a word may be the beginning of one."""
    keep_chunks: Callable[[str, int, Sequence[FileChunk]], Steps[None]]
    """Stores the chunks of a file of a tenant, given by its key in `indexed_files`."""
    forget_chunks: Callable[[str, list[int]], Steps[None]]
    """Removes the chunks of files of a tenant, given by their keys in `indexed_files`."""
    match_chunks: Callable[[str, str, Sequence[str], Sequence[str], int], Steps[list[FoundChunk]]]
    """Finds chunks: tenant, vector store, words, files, limit."""
    read_chunks: Callable[[str, str, Sequence[int]], Steps[list[FoundChunk]]]
    """The chunks with these keys in a vector store of a tenant, in any order."""
    remove_responses: Callable[[Sequence[StatementRow]], Steps[int]]
    """Removes responses given as (key, chain), and the turns that no response needs without them."""


@lru_cache(maxsize=512)
def sqlite_text(sql: str) -> str:
    for word, said in SQLITE_WORDS:
        sql = sql.replace(word, said)
    return sql


@lru_cache(maxsize=512)
def postgres_text(sql: str) -> str:
    return sql.replace("?", "%s")


def this_backend() -> Steps[Backend]:
    return (yield Query("")).backend


def rows(sql: str, *values: Any) -> Steps[list[StatementRow]]:
    return (yield Query(sql, values)).rows


def one(sql: str, *values: Any) -> Steps[StatementRow | None]:
    found = (yield Query(sql, values)).rows
    return found[0] if found else None


def execute(sql: str, *values: Any) -> Steps[int]:
    """How many rows it has changed."""
    return (yield Query(sql, values)).changed


def insert(table: str, columns: str, given: object, **more: Any) -> Steps[int]:
    """Writes a row that has the fields of a value, and more."""
    values = [*more.values(), *(getattr(given, name) for name in columns.split(", "))]
    names = ", ".join([*more, columns])
    return (
        yield Query(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})", values)
    ).changed


def key_of(table: str, tenant: str, id: str, *, lock: bool = False) -> Steps[int | None]:
    """The key of a row. With `lock` no other transaction changes the row until this one ends."""
    sql = f"SELECT key FROM {table} WHERE id = ? AND tenant = ?"
    row = yield from one(sql + (" FOR NO KEY UPDATE" if lock else ""), id, tenant)
    return None if row is None else int(row[0])


def page(
    make: Callable[[StatementRow], T], sql: str, values: Sequence[Any], limit: int
) -> Steps[tuple[tuple[T, ...], bool]]:
    """The first rows of a statement, and whether there are more."""
    found = yield from rows(f"{sql} LIMIT ?", *values, limit + 1)
    return tuple(make(row) for row in found[:limit]), len(found) > limit
