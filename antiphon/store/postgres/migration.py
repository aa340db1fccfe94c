"""Prepares a PostgreSQL database for gateways: migrates its schema, and copies a SQLite store into it.

A copy goes table by table, in batches in the order of their keys. Where a batch ends is written in the same
transaction, so that a copy that was stopped continues there. At the end both sides are read once more and
compared, by the number of rows and by a hash of their contents. No gateway may use either side meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from antiphon.store.base import StoreError
from antiphon.store.postgres.backend import vector_of, words_of
from antiphon.store.postgres.connection import Connection, Row, execute, one, replace_nul, rows
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.schema import MIGRATIONS, check_version, list_missing, migrate, read_version
from antiphon.store.sqlite.journal import is_in_use
from antiphon.store.sqlite.opening import FILE
from antiphon.store.sqlite.store import SqliteStore

BATCH = 500
PROGRESS = """
    CREATE TABLE IF NOT EXISTS antiphon_copy (
        name TEXT PRIMARY KEY, last BYTEA, is_done BOOLEAN NOT NULL DEFAULT false)
"""
WRITE_PROGRESS = """
    INSERT INTO antiphon_copy (name, last, is_done) VALUES (%s, %b, %s)
    ON CONFLICT (name) DO UPDATE SET last = excluded.last, is_done = excluded.is_done
"""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode
_ids = msgspec.json.Decoder(list[str]).decode

CopyReport = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that both stores have. `key` are the columns that order it, which are copied first."""

    name: str
    key: Sequence[str]
    columns: Sequence[str]
    booleans: frozenset[str] = frozenset()
    identity: str | None = None
    """The column whose numbers continue after the copied ones."""

    @property
    def all_columns(self) -> list[str]:
        return [*self.key, *self.columns]


def _table(name: str, key: str, columns: str, booleans: str = "", identity: str | None = None) -> CopiedTable:
    return CopiedTable(name, key.split(), columns.split(), frozenset(booleans.split()), identity)


TABLES = (
    _table("conversations", "key", "id tenant metadata created_at expires_at removed", identity="key"),
    _table("conversation_items", "conversation n", "id data"),
    _table(
        "chats",
        "key",
        "id tenant title current pinned created_at updated_at expires_at",
        booleans="pinned",
        identity="key",
    ),
    _table(
        "responses",
        "key",
        "id tenant chain position status model created_at expires_at background cancel_requested "
        "conversation conversation_from items input output body spliced dialect chat previous attempt",
        booleans="background cancel_requested",
        identity="key",
    ),
    _table("items", "id response", ""),
    _table("events", "response seq", "last data"),
    _table("chat_texts", "key", "chat text"),
    _table("sessions", "digest", "key_name key_digest expires_at"),
    _table("approvals", "tenant id", "digest expires_at"),
    _table("idempotency_keys", "tenant key", "body holder response expires_at"),
    _table("changed_settings", "base", "version data"),
    _table("settlements", "key", "run kind tenant settled_at data", identity="key"),
    _table("files", "key", "id tenant filename purpose bytes digest created_at expires_at", identity="key"),
    _table(
        "vector_stores",
        "key",
        "id tenant name metadata created_at last_active_at days expires_at",
        identity="key",
    ),
    _table(
        "indexed_files",
        "key",
        "store file attributes created_at chunk_size overlap usage_bytes error_code error embedding",
        identity="key",
    ),
    _table("chunks", "key", "indexed text vector", identity="key"),
)
# Columns that are computed anew instead of being copied.
DERIVED: Mapping[str, tuple[str, str]] = {
    "chat_texts": ("tenant, words", "(SELECT tenant FROM chats WHERE key = %s), %s::tsvector"),
    "chunks": ("words, length", "to_tsvector('antiphon_words', %s), %s"),
}


async def pending_migrations(url: str) -> list[str]:
    """Returns the names of the migrations that a database has not had."""
    async with _open_database(url) as database:
        version, needs = await database.read(read_version)
    check_version(version, needs, len(MIGRATIONS))
    return list_missing(version)


async def migrate_store(url: str) -> list[str]:
    """Migrates a database, and returns the names of the migrations."""
    async with _open_database(url) as database:
        return await database.write(migrate)


async def copy_into(folder: Path, url: str, report: CopyReport) -> None:
    """Migrates a database, and copies a SQLite store into it."""
    async with _open_database(url) as database:
        await database.write(migrate)
        await copy_store(folder, database, report)


@asynccontextmanager
async def _open_database(url: str) -> AsyncIterator[Database]:
    database = Database(url, connections=2)
    try:
        await database.open()
        yield database
    finally:
        await database.close()


async def copy_store(folder: Path, database: Database, report: CopyReport) -> None:
    """Copies the SQLite store in a folder; calls `report` with each table and its number of rows."""
    if is_in_use(folder / FILE):
        raise StoreError(
            f"The SQLite store in {folder} is open in another process. Stop the gateways on it, and copy "
            "then."
        )
    # Opening the store puts the rows in journals of processes that died into its database.
    await (await SqliteStore.open(folder)).close()
    with closing(sqlite3.connect(f"file:{folder / FILE}?mode=ro", uri=True)) as source:
        _check_idle(source)
        where = _source_path(source)
        await database.write(lambda db: _check_target(db, where))
        for table in TABLES:
            await _copy_table(source, database, table)
        for table in TABLES:
            report(table.name, await _verify(source, database, table))
    await database.write(lambda db: execute(db, "DROP TABLE antiphon_copy"))


def _source_path(source: sqlite3.Connection) -> bytes:
    """Returns the path of the source database, which identifies a copy."""
    ((_, _, path),) = source.execute("PRAGMA database_list").fetchall()
    return os.path.realpath(str(path)).encode()


def _check_idle(source: sqlite3.Connection) -> None:
    (running,) = source.execute("SELECT count(*) FROM responses WHERE owner IS NOT NULL").fetchone()
    if running:
        raise StoreError(
            f"{running} responses still run in the SQLite store. Start a gateway on it until they have "
            "ended, stop it, and copy then."
        )


async def _check_target(db: Connection, here: bytes) -> None:
    await execute(db, PROGRESS)
    if await one(db, "SELECT 1 FROM antiphon_copy") is None:
        for table in TABLES:
            if await one(db, f"SELECT 1 FROM {table.name} LIMIT 1") is not None:
                raise StoreError(
                    f"The PostgreSQL store is not empty: there is something in the table {table.name}. "
                    "Copy into an empty database."
                )
    found = await one(db, "SELECT last FROM antiphon_copy WHERE name = 'source'")
    if found is not None and found[0] != here:
        raise StoreError("A copy of another folder was begun in this database. Continue that one.")
    await execute(db, WRITE_PROGRESS, ("source", here, False))


async def _copy_table(source: sqlite3.Connection, database: Database, table: CopiedTable) -> None:
    async def begin(db: Connection) -> Row | None:
        return await one(db, "SELECT last, is_done FROM antiphon_copy WHERE name = %s", (table.name,))

    found = await database.read(begin)
    if found is not None and found[1]:
        return
    last: Sequence[Any] | None = None if found is None or found[0] is None else _decode(found[0])
    more = True
    while more:
        batch = list(_batch(source, table, last))
        more = len(batch) == BATCH
        last = batch[-1][: len(table.key)] if batch else last

        async def put(db: Connection, batch: list[Row] = batch, last: Any = last, more: bool = more) -> None:
            await _insert(db, table, batch)
            if not more and table.identity is not None:
                await execute(db, _advance_identity(table))
            await execute(db, WRITE_PROGRESS, (table.name, None if last is None else _encode(last), not more))

        await database.write(put)


def _advance_identity(table: CopiedTable) -> str:
    """Returns the statement that moves the numbers of new rows above the copied ones."""
    sequence = f"pg_get_serial_sequence('{table.name}', '{table.identity}')"
    return f"SELECT setval({sequence}, greatest(max({table.identity}), 1)) FROM {table.name}"


def _batch(source: sqlite3.Connection, table: CopiedTable, last: Sequence[Any] | None) -> Iterator[Row]:
    """Yields some rows after the one with this key, converted to the values of PostgreSQL."""
    columns, order = ", ".join(table.all_columns), ", ".join(table.key)
    where, values = "", ()
    if last is not None:
        where, values = f"WHERE ({order}) > ({', '.join('?' * len(table.key))})", tuple(last)
    if table.name == "chunks":
        columns = columns.replace("text", "NULL")
    found = source.execute(
        f"SELECT {columns} FROM {table.name} {where} ORDER BY {order} LIMIT {BATCH}", values
    )
    names = table.all_columns
    for row in found.fetchall():
        values_by_name = dict(zip(names, row, strict=True))
        if table.name == "responses":
            values_by_name["items"] = list(dict.fromkeys(_ids(values_by_name["items"])))
        if table.name == "chunks":
            values_by_name["text"] = _chunk_text(source, values_by_name["key"], values_by_name["indexed"])
        yield tuple(_convert_value(name, value, table) for name, value in values_by_name.items())


def _convert_value(name: str, value: Any, table: CopiedTable) -> Any:
    if name in table.booleans:
        return bool(value)
    if isinstance(value, str):
        return replace_nul(value)
    if isinstance(value, list):
        return [replace_nul(one) for one in value]
    return value


def _chunk_text(source: sqlite3.Connection, key: int, indexed: int) -> str:
    """Reads the text of a chunk from the index of its tenant."""
    (index,) = source.execute(
        "SELECT chunk_searches.key FROM indexed_files JOIN vector_stores ON vector_stores.key = store "
        "JOIN chunk_searches ON chunk_searches.tenant = vector_stores.tenant WHERE indexed_files.key = ?",
        (indexed,),
    ).fetchone()
    (text,) = source.execute(f"SELECT text FROM chunk_search_{index:d} WHERE rowid = ?", (key,)).fetchone()
    return str(text)


async def _insert(db: Connection, table: CopiedTable, batch: Sequence[Row]) -> None:
    names, places = table.all_columns, ["%s"] * len(table.all_columns)
    columns, derived = ", ".join(names), ", ".join(places)
    given: list[Row] = list(batch)
    if table.name in DERIVED:
        more, made = DERIVED[table.name]
        columns, derived = f"{columns}, {more}", f"{derived}, {made}"
        text = names.index("text")
        if table.name == "chat_texts":
            given = [(*row, row[names.index("chat")], vector_of(row[text])) for row in batch]
        else:
            given = [(*row, " ".join(words := words_of(row[text])), len(words)) for row in batch]
    async with db.cursor() as cursor:
        await cursor.executemany(
            f"INSERT INTO {table.name} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({derived})"
            if table.identity
            else f"INSERT INTO {table.name} ({columns}) VALUES ({derived})",
            given,
        )


async def _verify(source: sqlite3.Connection, database: Database, table: CopiedTable) -> int:
    """Compares both sides, and returns the number of rows; raises `StoreError` if they differ."""
    ours, theirs = Checksum(), Checksum()
    last: Sequence[Any] | None = None
    while batch := list(_batch(source, table, last)):
        for row in batch:
            ours.add(row)
        last = batch[-1][: len(table.key)]
    last = None
    while found := await database.read(partial(_read_copied, table=table, last=last)):
        for row in found:
            theirs.add(row)
        last = found[-1][: len(table.key)]
    if (ours.count, ours.sum) != (theirs.count, theirs.sum):
        raise StoreError(
            f"The copy of the table {table.name} is not what it should be: {ours.count} rows in SQLite, "
            f"{theirs.count} in PostgreSQL. Was a store used meanwhile? Copy again into an empty database."
        )
    return ours.count


async def _read_copied(db: Connection, table: CopiedTable, last: Sequence[Any] | None) -> list[Row]:
    columns, order = ", ".join(table.all_columns), ", ".join(table.key)
    where = f"WHERE ({order}) > ({', '.join(['%s'] * len(table.key))})" if last is not None else ""
    return await rows(
        db, f"SELECT {columns} FROM {table.name} {where} ORDER BY {order} LIMIT {BATCH}", last or ()
    )


class Checksum:
    """A checksum of rows in any order, because the two databases order text in different ways."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0

    def add(self, row: Row) -> None:
        self.count += 1
        digest = hashlib.sha256(_encode([*row])).digest()
        self.sum = (self.sum + int.from_bytes(digest, "big")) % 2**256
