"""The SQLite schema as a list of migrations; `user_version` in the database counts those applied.

A row of `responses` is one turn of a chain. A row without an id belongs to no response any more: it is the
copied beginning of a branch, or what a later turn of the chain still needs of a deleted response.

Until 0.1.0 the first schema is edited, and a database that was made with another one is refused: its
`application_id` is the checksum of the first schema that it was made with.
"""

from __future__ import annotations

import sqlite3
from zlib import crc32

from antiphon.store.base import StoreError
from antiphon.store.records.tables import TABLES
from antiphon.store.statements import sqlite_text

Migration = tuple[str, ...]

FIRST: Migration = (
    *map(sqlite_text, TABLES),
    """
    CREATE TABLE responses (
        key INTEGER PRIMARY KEY,
        id TEXT UNIQUE,
        tenant TEXT NOT NULL,
        chain INTEGER NOT NULL,
        position INTEGER NOT NULL,
        status TEXT NOT NULL,
        model TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        background INTEGER NOT NULL,
        owner TEXT,
        attempt INTEGER NOT NULL DEFAULT 0,  -- how often it was taken over while it ran
        job BLOB,              -- what is needed to go on with it, NULL once it has ended
        cancel_requested INTEGER NOT NULL DEFAULT 0,
        dialect TEXT,          -- how its event log is spelled
        conversation INTEGER,
        conversation_from INTEGER,
        chat INTEGER,          -- the one chat that it is in, which decides how long it lives
        previous TEXT,         -- the response before it in that chat
        items TEXT NOT NULL,   -- the ids of its items, in JSON
        input BLOB,            -- fragments, NULL when empty
        output BLOB,
        body BLOB,
        spliced INTEGER,       -- where the output was cut out of the body, NULL when it was not
        UNIQUE (chain, position)
    )
    """,
    "CREATE INDEX responses_expiry ON responses (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX responses_owner ON responses (owner) WHERE owner IS NOT NULL",
    "CREATE INDEX responses_chat ON responses (chat, key) WHERE chat IS NOT NULL",
    "CREATE INDEX responses_running ON responses (chat, key) WHERE chat IS NOT NULL AND owner IS NOT NULL",
    # No trigger for new rows: with one, SQLite copies all rows of a statement before it writes any.
    """
    CREATE TRIGGER items_out AFTER DELETE ON responses WHEN old.items != '[]' BEGIN
        DELETE FROM items WHERE response = old.key AND id IN (SELECT value FROM json_each(old.items));
    END
    """,
    """
    CREATE TRIGGER items_anew AFTER UPDATE OF items ON responses BEGIN
        DELETE FROM items WHERE response = old.key AND id IN (SELECT value FROM json_each(old.items));
        INSERT OR IGNORE INTO items (id, response) SELECT value, new.key FROM json_each(new.items);
    END
    """,
    "CREATE TABLE owners (id TEXT PRIMARY KEY, heartbeat REAL NOT NULL) WITHOUT ROWID",
    # The searched texts: the messages of a response under its key, the title of a chat under minus its key.
    "CREATE TABLE chat_texts (key INTEGER PRIMARY KEY, chat INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX chat_texts_chat ON chat_texts (chat)",
    # Each tenant with chunks has an index of FTS5 of its own, `chunk_search_KEY`, with the texts in it.
    "CREATE TABLE chunks (key INTEGER PRIMARY KEY, indexed INTEGER NOT NULL, vector BLOB)",
    "CREATE INDEX chunks_indexed ON chunks (indexed)",
    "CREATE TABLE chunk_searches (key INTEGER PRIMARY KEY, tenant TEXT NOT NULL UNIQUE)",
)

MIGRATIONS: tuple[Migration, ...] = (FIRST,)

OTHER_SCHEMA = (
    "A development version of Antiphon made this database with a schema that this version does not know: "
    "move the file away, or configure another data folder."
)


def checksum(migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """The checksum of the first schema, as an `application_id`, which is a signed number of 32 bits."""
    return crc32("\n".join(migrations[0]).encode()) & 0x7FFF_FFFF


def check_version(db: sqlite3.Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """Returns the number of migrations of a database; raises `StoreError` if this version cannot use it."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (made_with,) = db.execute("PRAGMA application_id").fetchone()
    if version and made_with != checksum(migrations):
        raise StoreError(OTHER_SCHEMA)
    if version > len(migrations):
        raise StoreError(
            f"The database was written by a newer version of Antiphon (schema {version}, this version "
            f"knows {len(migrations)}). Upgrade Antiphon, or configure another data folder."
        )
    return int(version)


def migrate(db: sqlite3.Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Brings a database forward to the newest schema, in one transaction, if this version can use it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        version = check_version(db, migrations)
        for migration in migrations[version:]:
            for statement in migration:
                db.execute(statement)
        if version < len(migrations):
            db.execute(f"PRAGMA user_version = {len(migrations)}")
            db.execute(f"PRAGMA application_id = {checksum(migrations)}")
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise
