"""The SQL of deletion, expiry, sizes and export."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from antiphon.store.base import Size
from antiphon.store.export_lines import chat_line, conversation_line, response_line
from antiphon.store.sqlite import (
    approvals,
    chat_texts,
    chats,
    conversations,
    idempotency_keys,
    sessions,
    shared_state,
    uploads,
    vector_stores,
)
from antiphon.store.sqlite.responses import BODY

AT_ONCE = 200
PAGES = 200
"""How many are given back in one transaction: more than fit into SQLite's cache would go to its log first."""

FORGET = """
    UPDATE responses SET id = NULL, model = '', items = '[]', body = NULL, spliced = NULL, owner = NULL,
                         expires_at = NULL, conversation = NULL, conversation_from = NULL,
                         chat = NULL, previous = NULL, job = NULL
    WHERE key IN (SELECT value FROM json_each(?))
"""
# What stands after the last response that stays in its chain is needed by nobody.
TRIM = """
    DELETE FROM responses WHERE key IN (
        SELECT needless.key FROM (
            SELECT value AS chain, coalesce(
                (SELECT position FROM responses
                 WHERE chain = value AND id IS NOT NULL AND key NOT IN (SELECT value FROM json_each(:keys))
                 ORDER BY position DESC LIMIT 1), -1) AS last
            FROM json_each(:chains)) AS shortened
        JOIN responses AS needless ON needless.chain = shortened.chain AND needless.position > shortened.last)
"""
RESPONSES = f"""
    SELECT key, tenant, id, status, model, created_at, expires_at, background, input, {BODY}
    FROM responses
    WHERE key > ? AND id IS NOT NULL AND (? IS NULL OR tenant = ?) ORDER BY key LIMIT ?
"""
CONVERSATIONS = """
    SELECT key, tenant, id, created_at, expires_at, metadata FROM conversations
    WHERE key > ? AND (? IS NULL OR tenant = ?) ORDER BY key LIMIT ?
"""

CHATS = """
    SELECT key, tenant, id, title, current, pinned, created_at, updated_at, expires_at FROM chats
    WHERE key > ? AND (? IS NULL OR tenant = ?) ORDER BY key LIMIT ?
"""
IDLE_CHATS = """
    SELECT key FROM chats WHERE expires_at > ? AND expires_at <= ? AND NOT EXISTS (
        SELECT 1 FROM responses WHERE responses.chat = chats.key AND owner IS NOT NULL)
    LIMIT ?
"""


def remove(db: sqlite3.Connection, doomed: Sequence[tuple[int, int]]) -> None:
    """Removes responses given as (key, chain), and the turns that nobody needs without them."""
    keys = msgspec.json.encode([key for key, _ in doomed]).decode()
    chains = msgspec.json.encode(sorted({chain for _, chain in doomed})).decode()
    chat_texts.forget(db, [key for key, _ in doomed])
    db.execute("DELETE FROM events WHERE response IN (SELECT value FROM json_each(?))", (keys,))
    # First, because it needs no space and the next may need some.
    db.execute(TRIM, {"keys": keys, "chains": chains})
    db.execute(FORGET, (keys,))


def delete(db: sqlite3.Connection, tenant: str, id: str) -> bool:
    row = db.execute("SELECT key, chain FROM responses WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    if row is None:
        return False
    chats.leave(db, id)
    remove(db, [row])
    return True


def delete_chat(db: sqlite3.Connection, tenant: str, id: str) -> bool:
    key = chats.key_of(db, tenant, id)
    if key is None:
        return False
    doomed = db.execute("SELECT key, chain FROM responses WHERE chat = ?", (key,)).fetchall()
    remove(db, doomed)
    _drop_chat(db, key)
    return True


def prune(db: sqlite3.Connection, since: float, until: float, at_once: int = AT_ONCE) -> int:
    """Removes some of what expired in this time, 0 when nothing is left. A response that still runs stays."""
    given = (since, until, at_once)
    doomed = db.execute(
        "SELECT key, chain FROM responses WHERE expires_at > ? AND expires_at <= ? AND owner IS NULL LIMIT ?",
        given,
    ).fetchall()
    if doomed:
        remove(db, doomed)
    expired = db.execute(
        "SELECT tenant, id FROM conversations WHERE expires_at > ? AND expires_at <= ? LIMIT ?", given
    ).fetchall()
    for tenant, id in expired:
        conversations.delete(db, tenant, id)
    others = _prune_chats(db, *given) + sessions.prune(db, *given) + shared_state.prune(db, until)
    others += approvals.prune(db, *given) + idempotency_keys.prune(db, *given)
    others += vector_stores.prune(db, *given) + uploads.prune(db, *given)
    return len(doomed) + len(expired) + others


def count_stored(db: sqlite3.Connection) -> int:
    """About how many responses there are."""
    (found,) = db.execute(
        "SELECT (SELECT max(key) FROM responses) - (SELECT min(key) FROM responses)"
    ).fetchone()
    return found or 0


def _prune_chats(db: sqlite3.Connection, since: float, until: float, at_once: int) -> int:
    """A chat goes once all of its responses are gone; none of them while one still runs."""
    expired = db.execute(IDLE_CHATS, (since, until, at_once)).fetchall()
    if not expired:
        return 0
    which = msgspec.json.encode([key for (key,) in expired]).decode()
    doomed = db.execute(
        "SELECT key, chain FROM responses WHERE chat IN (SELECT value FROM json_each(?)) LIMIT ?",
        (which, at_once),
    ).fetchall()
    if doomed:
        remove(db, doomed)
        return len(doomed)
    for (key,) in expired:
        _drop_chat(db, key)
    return len(expired)


def _drop_chat(db: sqlite3.Connection, key: int) -> None:
    chat_texts.forget(db, [-key])
    db.execute("DELETE FROM chats WHERE key = ?", (key,))


def shrink(db: sqlite3.Connection) -> bool:
    """Gives some free pages back to the file system; are there more? Not inside a transaction."""
    # As a script, because a plain execute takes only the first step, and that is one page.
    db.executescript(f"PRAGMA incremental_vacuum({PAGES})")
    ((left,),) = db.execute("PRAGMA freelist_count").fetchall()
    return bool(left)


def size(db: sqlite3.Connection, bytes: int) -> Size:
    (counts,) = db.execute(
        "SELECT (SELECT count(id) FROM responses), (SELECT count(*) FROM conversations), "
        "(SELECT coalesce(sum(last - seq + 1), 0) FROM events), (SELECT count(*) FROM chats)"
    ).fetchall()
    return Size(bytes, *counts)


def export_responses(db: sqlite3.Connection, tenant: str | None, after: int) -> tuple[int, list[bytes]]:
    """Some responses as lines of JSON, and the key to continue after."""
    found = db.execute(RESPONSES, (after, tenant, tenant, AT_ONCE)).fetchall()
    return _last(found, after), [response_line(row) for _, *row in found]


def export_conversations(db: sqlite3.Connection, tenant: str | None, after: int) -> tuple[int, list[bytes]]:
    found = db.execute(CONVERSATIONS, (after, tenant, tenant, AT_ONCE)).fetchall()
    return _last(found, after), [
        conversation_line(row, conversations.beginning(db, key, 2**62) or b"") for key, *row in found
    ]


def export_chats(db: sqlite3.Connection, tenant: str | None, after: int) -> tuple[int, list[bytes]]:
    tree = "SELECT id, previous FROM responses WHERE chat = ? ORDER BY key"
    found = db.execute(CHATS, (after, tenant, tenant, AT_ONCE)).fetchall()
    return _last(found, after), [chat_line(row, db.execute(tree, (key,)).fetchall()) for key, *row in found]


def _last(found: Sequence[tuple[int, ...]], after: int) -> int:
    return found[-1][0] if found else after
