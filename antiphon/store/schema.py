"""The SQLite schema as a list of migrations; `user_version` in the database counts those applied.

A row of `responses` is one turn of a chain. A row without an id belongs to no response any more: it is the
copied beginning of a branch, or what a later turn of the chain still needs of a deleted response.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from antiphon.store.base import StoreError
from antiphon.store.carry_over import carry_over

FIRST = (
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
        cancel_requested INTEGER NOT NULL DEFAULT 0,
        conversation INTEGER,
        conversation_from INTEGER,
        items TEXT NOT NULL,   -- [[id, 0 for input or 1 for output, offset, length], …]
        input BLOB,            -- fragments, NULL when empty
        output BLOB,
        body BLOB,
        spliced INTEGER,       -- where the output was cut out of the body, NULL when it was not
        UNIQUE (chain, position)
    )
    """,
    "CREATE INDEX responses_expiry ON responses (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX responses_owner ON responses (owner) WHERE owner IS NOT NULL",
    # Where an item lies, derived from responses.items by the triggers.
    """
    CREATE TABLE items (
        id TEXT NOT NULL,
        response INTEGER NOT NULL,
        side INTEGER NOT NULL,
        start INTEGER NOT NULL,
        length INTEGER NOT NULL,
        PRIMARY KEY (id, response)
    ) WITHOUT ROWID
    """,
    """
    CREATE TRIGGER items_in AFTER INSERT ON responses WHEN new.items != '[]' BEGIN
        INSERT OR IGNORE INTO items (id, response, side, start, length)
        SELECT json_extract(value, '$[0]'), new.key, json_extract(value, '$[1]'),
               json_extract(value, '$[2]'), json_extract(value, '$[3]')
        FROM json_each(new.items);
    END
    """,
    """
    CREATE TRIGGER items_out AFTER DELETE ON responses WHEN old.items != '[]' BEGIN
        DELETE FROM items WHERE response = old.key
        AND id IN (SELECT json_extract(value, '$[0]') FROM json_each(old.items));
    END
    """,
    """
    CREATE TRIGGER items_anew AFTER UPDATE OF items ON responses BEGIN
        DELETE FROM items WHERE response = old.key
        AND id IN (SELECT json_extract(value, '$[0]') FROM json_each(old.items));
        INSERT OR IGNORE INTO items (id, response, side, start, length)
        SELECT json_extract(value, '$[0]'), new.key, json_extract(value, '$[1]'),
               json_extract(value, '$[2]'), json_extract(value, '$[3]')
        FROM json_each(new.items);
    END
    """,
    # One row holds the events of one write: lines numbered from seq to last.
    """
    CREATE TABLE events (
        response INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        last INTEGER NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (response, seq)
    )
    """,
    "CREATE TABLE owners (id TEXT PRIMARY KEY, heartbeat REAL NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE conversations (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        metadata BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        removed INTEGER NOT NULL DEFAULT 0  -- how many items were taken out
    )
    """,
    "CREATE INDEX conversations_expiry ON conversations (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE conversation_items (
        conversation INTEGER NOT NULL,
        n INTEGER NOT NULL,
        id TEXT,
        data BLOB NOT NULL,
        UNIQUE (conversation, n)
    )
    """,
    "CREATE UNIQUE INDEX conversation_items_id ON conversation_items (id, conversation)",
)

# Only the ids of a response's items, because finding an item is rare and storing one is not.
SECOND = (
    "DROP TRIGGER items_in",
    "DROP TRIGGER items_out",
    "DROP TRIGGER items_anew",
    "DROP TABLE items",
    """
    UPDATE responses SET items = (SELECT json_group_array(json_extract(value, '$[0]')) FROM json_each(items))
    WHERE items != '[]'
    """,
    "CREATE TABLE items (id TEXT, response INTEGER, PRIMARY KEY (id, response)) WITHOUT ROWID",
    "INSERT OR IGNORE INTO items (id, response) SELECT value, responses.key FROM responses, json_each(items)",
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
)

# How the event log of a background response is spelled; NULL for one that is older than this column.
THIRD = ("ALTER TABLE responses ADD COLUMN dialect TEXT",)

# A response is in one chat at most, and lives as long as it does; all that costs the others nothing.
FOURTH = (
    """
    CREATE TABLE chats (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        title TEXT,
        current TEXT,
        pinned INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        updated_at REAL NOT NULL,
        expires_at INTEGER
    )
    """,
    "CREATE INDEX chats_recent ON chats (tenant, updated_at, key)",
    "CREATE INDEX chats_expiry ON chats (expires_at) WHERE expires_at IS NOT NULL",
    "ALTER TABLE responses ADD COLUMN chat INTEGER",
    "ALTER TABLE responses ADD COLUMN previous TEXT",
    "CREATE INDEX responses_chat ON responses (chat, key) WHERE chat IS NOT NULL",
    "CREATE INDEX responses_running ON responses (chat, key) WHERE chat IS NOT NULL AND owner IS NOT NULL",
    # What is searched: what was said in a response, under its key; the title of a chat, under minus its key.
    "CREATE TABLE chat_texts (key INTEGER PRIMARY KEY, chat INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX chat_texts_chat ON chat_texts (chat)",
)

# The chats of the AI SDK bridge were conversations before.
FIFTH = (carry_over,)

# Of a browser that stays signed in, only the digest of its cookie.
SIXTH = (
    """
    CREATE TABLE sessions (
        digest TEXT PRIMARY KEY,
        key_name TEXT NOT NULL,
        key_digest TEXT NOT NULL,
        expires_at INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)

Migration = tuple[str, ...] | tuple[Callable[[sqlite3.Connection], None], ...]
MIGRATIONS: tuple[Migration, ...] = (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH)


def migrate(db: sqlite3.Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Brings a database forward to the newest schema, in one transaction; refuses one that is newer still."""
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > len(migrations):
            raise StoreError(
                f"The database was written by a newer version of Antiphon (schema {version}, this version "
                f"knows {len(migrations)}). Upgrade Antiphon, or configure another data folder."
            )
        for migration in migrations[version:]:
            for step in migration:
                if isinstance(step, str):
                    db.execute(step)
                else:
                    step(db)
        if version < len(migrations):
            db.execute(f"PRAGMA user_version = {len(migrations)}")
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise
