"""The SQL of conversations: lists of items that callers add to, page through and take from."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from antiphon.store.base import Append, ItemPage, StoreConflict, StoredConversation, StoredItem, UnknownCursor

KEY = "SELECT key FROM conversations WHERE id = ? AND tenant = ?"
ITEM = """
    SELECT n, data FROM conversation_items
    WHERE id = ? AND conversation = (SELECT key FROM conversations WHERE id = ? AND tenant = ?)
"""
# One row, whatever the number of items: what came after the n that is already known.
CONTEXT = """
    SELECT key, removed, (SELECT max(n) FROM conversation_items WHERE conversation = key),
           (SELECT CAST(group_concat(data, ',') AS BLOB) FROM (
                SELECT data FROM conversation_items WHERE conversation = key AND n > ? ORDER BY n))
    FROM conversations WHERE id = ? AND tenant = ?
"""
BEGINNING = """
    SELECT CAST(group_concat(data, ',') AS BLOB) FROM (
        SELECT data FROM conversation_items WHERE conversation = ? AND n < ? ORDER BY n)
"""
FIND = """
    SELECT data FROM conversation_items JOIN conversations ON key = conversation
    WHERE conversation_items.id = ? AND tenant = ? ORDER BY conversation DESC LIMIT 1
"""
ROWS = 200


def key_of(db: sqlite3.Connection, tenant: str, id: str) -> int | None:
    row = db.execute(KEY, (id, tenant)).fetchone()
    return None if row is None else int(row[0])


def create(db: sqlite3.Connection, key: int, new: StoredConversation, items: Sequence[StoredItem]) -> None:
    try:
        db.execute(
            "INSERT INTO conversations (key, id, tenant, metadata, created_at, expires_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (key, new.id, new.tenant, new.metadata, new.created_at, new.expires_at),
        )
    except sqlite3.IntegrityError:
        raise StoreConflict(f"A conversation with the id {new.id!r} is already stored.") from None
    extend(db, key, items)


def get(db: sqlite3.Connection, tenant: str, id: str) -> StoredConversation | None:
    row = db.execute(
        "SELECT id, tenant, metadata, created_at, expires_at FROM conversations WHERE id = ? AND tenant = ?",
        (id, tenant),
    ).fetchone()
    return None if row is None else StoredConversation(*row)


def set_metadata(db: sqlite3.Connection, tenant: str, id: str, metadata: bytes) -> bool:
    update = "UPDATE conversations SET metadata = ? WHERE id = ? AND tenant = ?"
    return db.execute(update, (metadata, id, tenant)).rowcount == 1


def delete(db: sqlite3.Connection, tenant: str, id: str) -> bool:
    key = key_of(db, tenant, id)
    if key is None:
        return False
    db.execute("DELETE FROM conversation_items WHERE conversation = ?", (key,))
    db.execute("DELETE FROM conversations WHERE key = ?", (key,))
    return True


def extend(db: sqlite3.Connection, key: int, items: Sequence[StoredItem], verb: str = "INSERT") -> int:
    """Adds items at the end and returns the number of the first."""
    (start,) = db.execute(
        "SELECT coalesce(max(n), -1) + 1 FROM conversation_items WHERE conversation = ?", (key,)
    ).fetchone()
    for at in range(0, len(items), ROWS):
        rows = items[at : at + ROWS]
        values = ", ".join(["(?, ?, ?, ?)"] * len(rows))
        sql = f"{verb} INTO conversation_items (conversation, n, id, data) VALUES {values}"
        try:
            db.execute(
                sql, [v for n, item in enumerate(rows, start + at) for v in (key, n, item.id, item.data)]
            )
        except sqlite3.IntegrityError:
            raise StoreConflict("One of these items is already in the conversation.") from None
    return int(start)


def touch(db: sqlite3.Connection, key: int, expires_at: int | None) -> None:
    if expires_at is not None:
        db.execute("UPDATE conversations SET expires_at = ? WHERE key = ?", (expires_at, key))


def add(db: sqlite3.Connection, tenant: str, append: Append) -> bool:
    key = key_of(db, tenant, append.conversation)
    if key is None:
        return False
    extend(db, key, append.items)
    touch(db, key, append.expires_at)
    return True


def join(db: sqlite3.Connection, tenant: str, response: str, append: Append) -> None:
    """Adds the items of a response to its conversation, if it has one; items already in it stay."""
    key = key_of(db, tenant, append.conversation)
    if key is None:
        return
    start = extend(db, key, append.items, "INSERT OR IGNORE")
    touch(db, key, append.expires_at)
    db.execute(
        "UPDATE responses SET conversation = ?, conversation_from = ? WHERE id = ?", (key, start, response)
    )


def beginning(db: sqlite3.Connection, key: int, before: int) -> bytes | None:
    (items,) = db.execute(BEGINNING, (key, before)).fetchone()
    return items if items is None else bytes(items)


def tail(db: sqlite3.Connection, tenant: str, id: str, after: int) -> tuple[int, int, int, bytes] | None:
    """The conversation's key, how many items were taken out, its last number, and the items after `after`."""
    row = db.execute(CONTEXT, (after, id, tenant)).fetchone()
    if row is None:
        return None
    key, removed, last, items = row
    return key, removed, -1 if last is None else last, items or b""


def page(
    db: sqlite3.Connection, tenant: str, id: str, after: str | None, limit: int, newest_first: bool
) -> ItemPage | None:
    key = key_of(db, tenant, id)
    if key is None:
        return None
    where, order = ("n < ?", "n DESC") if newest_first else ("n > ?", "n")
    start = 2**62 if newest_first else -1
    if after is not None:
        row = db.execute(ITEM, (after, id, tenant)).fetchone()
        if row is None:
            raise UnknownCursor(f"There is no item {after!r} in the conversation {id!r} to continue after.")
        start = row[0]
    rows = db.execute(
        f"SELECT id, data FROM conversation_items WHERE conversation = ? AND {where} "
        f"ORDER BY {order} LIMIT ?",
        (key, start, limit + 1),
    ).fetchall()
    return ItemPage(tuple(StoredItem(*row) for row in rows[:limit]), len(rows) > limit)


def item(db: sqlite3.Connection, tenant: str, id: str, item: str) -> bytes | None:
    row = db.execute(ITEM, (item, id, tenant)).fetchone()
    return None if row is None else bytes(row[1])


def find_item(db: sqlite3.Connection, tenant: str, item: str) -> bytes | None:
    row = db.execute(FIND, (item, tenant)).fetchone()
    return None if row is None else bytes(row[0])


def delete_item(db: sqlite3.Connection, tenant: str, id: str, item: str) -> bool:
    key = key_of(db, tenant, id)
    gone = "DELETE FROM conversation_items WHERE id = ? AND conversation = ?"
    if key is None or db.execute(gone, (item, key)).rowcount == 0:
        return False
    db.execute("UPDATE conversations SET removed = removed + 1 WHERE key = ?", (key,))
    return True
