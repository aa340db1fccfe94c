"""The SQLite schema as a list of migrations; `user_version` in the database counts those applied.

A row of `responses` is one turn of a chain. A row without an id belongs to no response any more: it is the
copied beginning of a branch, or what a later turn of the chain still needs of a deleted response.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from antiphon.store.base import StoreError
from antiphon.store.sqlite.ai_sdk_chats import carry_over

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

# Calls that wait for the client's approval: what would be run is known by its digest alone.
SEVENTH = (
    """
    CREATE TABLE approvals (
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        digest TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (tenant, id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX approvals_expiry ON approvals (expires_at)",
)

# Uploaded files, whose bytes are in a folder under their digest, and the vector stores that search them. Each
# tenant with chunks has an index of FTS5 of its own, `chunk_search_KEY`, with the texts in it.
EIGHTH = (
    """
    CREATE TABLE files (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        filename TEXT NOT NULL,
        purpose TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        digest TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER
    )
    """,
    "CREATE INDEX files_tenant ON files (tenant, key)",
    "CREATE INDEX files_digest ON files (digest)",
    "CREATE INDEX files_expiry ON files (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE vector_stores (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        metadata BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        last_active_at INTEGER NOT NULL,
        days INTEGER,
        expires_at INTEGER
    )
    """,
    "CREATE INDEX vector_stores_tenant ON vector_stores (tenant, key)",
    "CREATE INDEX vector_stores_expiry ON vector_stores (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE indexed_files (
        key INTEGER PRIMARY KEY,
        store INTEGER NOT NULL,
        file INTEGER NOT NULL,
        attributes BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        chunk_size INTEGER NOT NULL,
        overlap INTEGER NOT NULL,
        usage_bytes INTEGER NOT NULL,
        error_code TEXT,
        error TEXT,
        embedding TEXT,        -- the model that made the vectors
        UNIQUE (store, file)
    )
    """,
    "CREATE INDEX indexed_files_file ON indexed_files (file)",
    "CREATE TABLE chunks (key INTEGER PRIMARY KEY, indexed INTEGER NOT NULL, vector BLOB)",
    "CREATE INDEX chunks_indexed ON chunks (indexed)",
    "CREATE TABLE chunk_searches (key INTEGER PRIMARY KEY, tenant TEXT NOT NULL UNIQUE)",
)

# What has been answered, or is being answered, under an idempotency key; key and body are digests.
NINTH = (
    """
    CREATE TABLE idempotency_keys (
        tenant TEXT NOT NULL,
        key TEXT NOT NULL,
        body TEXT NOT NULL,
        holder TEXT NOT NULL,
        response TEXT,         -- NULL while the request is worked on
        expires_at REAL NOT NULL,
        PRIMARY KEY (tenant, key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)",
    "CREATE INDEX idempotency_keys_holder ON idempotency_keys (holder) WHERE response IS NULL",
)

# How often a running response was taken over, and what is needed to go on with it; NULL once it has ended.
TENTH = (
    "ALTER TABLE responses ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE responses ADD COLUMN job BLOB",
)

# Numbers that machines tell each other, as JSON.
ELEVENTH = (
    """
    CREATE TABLE shared_state (
        writer TEXT PRIMARY KEY,
        published_at REAL NOT NULL,
        numbers BLOB NOT NULL
    ) WITHOUT ROWID
    """,
)

Migration = tuple[str, ...] | tuple[Callable[[sqlite3.Connection], None], ...]
MIGRATIONS: tuple[Migration, ...] = (
    FIRST,
    SECOND,
    THIRD,
    FOURTH,
    FIFTH,
    SIXTH,
    SEVENTH,
    EIGHTH,
    NINTH,
    TENTH,
    ELEVENTH,
)


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
