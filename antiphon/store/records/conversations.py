"""Conversations: lists of items to which callers add, through which they page, and from which they delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.store.base import Append, ItemPage, StoreConflict, StoredConversation, StoredItem, UnknownCursor
from antiphon.store.statements import Steps, execute, key_of, one, page, rows

COLUMNS = "id, tenant, metadata, created_at, expires_at"
ITEM = """
    SELECT n, data FROM conversation_items
    WHERE id = ? AND conversation = (SELECT key FROM conversations WHERE id = ? AND tenant = ?)
"""
# One row, whatever the number of items: the items after the n that is already known.
TAIL = """
    SELECT key, removed, (SELECT max(n) FROM conversation_items WHERE conversation = key),
        (SELECT string_agg(data, ','::bytea) FROM (
            SELECT data FROM conversation_items WHERE conversation = key AND n > ? ORDER BY n) AS ordered)
    FROM conversations WHERE id = ? AND tenant = ?
"""
BEGINNING = """
    SELECT string_agg(data, ','::bytea) FROM (
        SELECT data FROM conversation_items WHERE conversation = ? AND n < ? ORDER BY n) AS ordered
"""
FIND = """
    SELECT data FROM conversation_items JOIN conversations ON key = conversation
    WHERE conversation_items.id = ? AND tenant = ? ORDER BY conversation DESC LIMIT 1
"""
FAR = 2**62
ROWS = 200
"""The number of items that one statement adds."""


class Tail(NamedTuple):
    """The key of a conversation, the number of deleted items, its last number, and a fragment of its
    items.
    """

    key: int
    removed: int
    last: int
    items: bytes


def create(conversation: StoredConversation, items: Sequence[StoredItem] = ()) -> Steps[None]:
    made = yield from execute(
        f"INSERT INTO conversations (key, {COLUMNS}) VALUES (DEFAULT, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        conversation.id,
        conversation.tenant,
        conversation.metadata,
        conversation.created_at,
        conversation.expires_at,
    )
    key = yield from key_of("conversations", conversation.tenant, conversation.id)
    if not made or key is None:
        raise StoreConflict(f"A conversation with the id {conversation.id!r} is already stored.")
    yield from _extend(key, items)


def get(tenant: str, id: str) -> Steps[StoredConversation | None]:
    row = yield from one(f"SELECT {COLUMNS} FROM conversations WHERE id = ? AND tenant = ?", id, tenant)
    return None if row is None else StoredConversation(*row)


def set_metadata(tenant: str, id: str, metadata: bytes) -> Steps[bool]:
    update = "UPDATE conversations SET metadata = ? WHERE id = ? AND tenant = ?"
    return (yield from execute(update, metadata, id, tenant)) == 1


def delete(tenant: str, id: str) -> Steps[bool]:
    key = yield from key_of("conversations", tenant, id, lock=True)
    if key is None:
        return False
    yield from execute("DELETE FROM conversation_items WHERE conversation = ?", key)
    yield from execute("DELETE FROM conversations WHERE key = ?", key)
    return True


def _extend(key: int, items: Sequence[StoredItem], *, ignore: bool = False) -> Steps[int]:
    """Adds items at the end of a conversation that is locked, and returns the number of the first."""
    last = "SELECT coalesce(max(n), -1) + 1 FROM conversation_items WHERE conversation = ?"
    ((start,),) = yield from rows(last, key)
    for at in range(0, len(items), ROWS):
        some = items[at : at + ROWS]
        added = yield from execute(
            "INSERT INTO conversation_items (conversation, n, id, data) VALUES "
            f"{', '.join(['(?, ?, ?, ?)'] * len(some))} ON CONFLICT DO NOTHING",
            *[value for n, item in enumerate(some, start + at) for value in (key, n, item.id, item.data)],
        )
        if added < len(some) and not ignore:
            raise StoreConflict("One of these items is already in the conversation.")
    return int(start)


def _touch(key: int, expires_at: int | None) -> Steps[None]:
    if expires_at is not None:
        yield from execute("UPDATE conversations SET expires_at = ? WHERE key = ?", expires_at, key)


def add(tenant: str, append: Append) -> Steps[bool]:
    """Adds items at the end; False if there is no such conversation. It can have an id only once."""
    key = yield from key_of("conversations", tenant, append.conversation, lock=True)
    if key is None:
        return False
    yield from _extend(key, append.items)
    yield from _touch(key, append.expires_at)
    return True


def add_response(tenant: str, response: str, append: Append) -> Steps[None]:
    """Adds the items of a response to its conversation, if it has one; items already in it stay."""
    key = yield from key_of("conversations", tenant, append.conversation, lock=True)
    if key is None:
        return
    start = yield from _extend(key, append.items, ignore=True)
    yield from _touch(key, append.expires_at)
    yield from execute(
        "UPDATE responses SET conversation = ?, conversation_from = ? WHERE id = ? AND tenant = ?",
        key,
        start,
        response,
        tenant,
    )


def read_beginning(key: int, before: int = FAR) -> Steps[bytes | None]:
    """Reads the items before a number as one fragment."""
    ((items,),) = yield from rows(BEGINNING, key, before)
    return items if items is None else bytes(items)


def read_tail(tenant: str, id: str, after: int = -1) -> Steps[Tail | None]:
    """Reads the items of a conversation after a number."""
    row = yield from one(TAIL, after, id, tenant)
    if row is None:
        return None
    key, removed, last, items = row
    return Tail(key, removed, -1 if last is None else last, items or b"")


def page_items(
    tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
) -> Steps[ItemPage | None]:
    key = yield from key_of("conversations", tenant, id)
    if key is None:
        return None
    where, order = ("n < ?", "n DESC") if newest_first else ("n > ?", "n")
    start = FAR if newest_first else -1
    if after is not None:
        row = yield from one(ITEM, after, id, tenant)
        if row is None:
            raise UnknownCursor(f"There is no item {after!r} in the conversation {id!r} to continue after.")
        start = row[0]
    sql = f"SELECT id, data FROM conversation_items WHERE conversation = ? AND {where} ORDER BY {order}"
    return ItemPage(*(yield from page(lambda row: StoredItem(*row), sql, (key, start), limit)))


def item(tenant: str, id: str, item: str) -> Steps[bytes | None]:
    row = yield from one(ITEM, item, id, tenant)
    return None if row is None else bytes(row[1])


def find_item(tenant: str, item: str) -> Steps[bytes | None]:
    """Returns the item with this id from the newest conversation that has it."""
    row = yield from one(FIND, item, tenant)
    return None if row is None else bytes(row[0])


def delete_item(tenant: str, id: str, item: str) -> Steps[bool]:
    key = yield from key_of("conversations", tenant, id, lock=True)
    gone = "DELETE FROM conversation_items WHERE id = ? AND conversation = ?"
    if key is None or not (yield from execute(gone, item, key)):
        return False
    yield from execute("UPDATE conversations SET removed = removed + 1 WHERE key = ?", key)
    return True
