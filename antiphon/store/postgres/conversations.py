"""The SQL of conversations: lists of items that callers add to, page through and take from."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.base import Append, ItemPage, StoreConflict, StoredConversation, StoredItem, UnknownCursor
from antiphon.store.postgres.connection import Connection, execute, key_of, one, rows

ITEM = """
    SELECT n, data FROM conversation_items
    WHERE id = %s AND conversation = (SELECT key FROM conversations WHERE id = %s AND tenant = %s)
"""
# One row, whatever the number of items.
CONTEXT = """
    SELECT (SELECT string_agg(data, ','::bytea ORDER BY n) FROM conversation_items WHERE conversation = key)
    FROM conversations WHERE id = %s AND tenant = %s
"""
BEGINNING = """
    SELECT string_agg(data, ','::bytea ORDER BY n) FROM conversation_items WHERE conversation = %s AND n < %s
"""
FIND = """
    SELECT data FROM conversation_items JOIN conversations ON key = conversation
    WHERE conversation_items.id = %s AND tenant = %s ORDER BY conversation DESC LIMIT 1
"""
EXTEND = """
    INSERT INTO conversation_items (conversation, n, id, data)
    SELECT %s, %s + given.place, given.id, given.data
    FROM unnest(%s::text[], %b::bytea[]) WITH ORDINALITY AS given (id, data, place)
    ORDER BY given.place ON CONFLICT DO NOTHING
"""
FAR = 2**62


async def create(db: Connection, new: StoredConversation, items: Sequence[StoredItem]) -> None:
    row = await one(
        db,
        "INSERT INTO conversations (id, tenant, metadata, created_at, expires_at) "
        "VALUES (%s, %s, %b, %s, %s) ON CONFLICT DO NOTHING RETURNING key",
        (new.id, new.tenant, new.metadata, new.created_at, new.expires_at),
    )
    if row is None:
        raise StoreConflict(f"A conversation with the id {new.id!r} is already stored.")
    await extend(db, row[0], items)


async def get(db: Connection, tenant: str, id: str) -> StoredConversation | None:
    row = await one(
        db,
        "SELECT id, tenant, metadata, created_at, expires_at FROM conversations "
        "WHERE id = %s AND tenant = %s",
        (id, tenant),
    )
    return None if row is None else StoredConversation(*row)


async def set_metadata(db: Connection, tenant: str, id: str, metadata: bytes) -> bool:
    update = "UPDATE conversations SET metadata = %b WHERE id = %s AND tenant = %s"
    return await execute(db, update, (metadata, id, tenant)) == 1


async def delete(db: Connection, tenant: str, id: str) -> bool:
    row = await one(db, "DELETE FROM conversations WHERE id = %s AND tenant = %s RETURNING key", (id, tenant))
    if row is None:
        return False
    await execute(db, "DELETE FROM conversation_items WHERE conversation = %s", row)
    return True


async def extend(db: Connection, key: int, items: Sequence[StoredItem], *, ignore: bool = False) -> int:
    """Adds items at the end of a conversation that is locked, and returns the number of the first."""
    last = "SELECT coalesce(max(n), -1) FROM conversation_items WHERE conversation = %s"
    ((end,),) = await rows(db, last, (key,))
    if items:
        ids, data = [item.id for item in items], [item.data for item in items]
        if await execute(db, EXTEND, (key, end, ids, data)) < len(items) and not ignore:
            raise StoreConflict("One of these items is already in the conversation.")
    return int(end) + 1


async def touch(db: Connection, key: int, expires_at: int | None) -> None:
    if expires_at is not None:
        await execute(db, "UPDATE conversations SET expires_at = %s WHERE key = %s", (expires_at, key))


async def add(db: Connection, tenant: str, append: Append) -> bool:
    key = await key_of(db, "conversations", tenant, append.conversation, lock=True)
    if key is None:
        return False
    await extend(db, key, append.items)
    await touch(db, key, append.expires_at)
    return True


async def join(db: Connection, tenant: str, response: str, append: Append) -> None:
    """Adds the items of a response to its conversation, if it has one; items already in it stay."""
    key = await key_of(db, "conversations", tenant, append.conversation, lock=True)
    if key is None:
        return
    start = await extend(db, key, append.items, ignore=True)
    await touch(db, key, append.expires_at)
    await execute(
        db,
        "UPDATE responses SET conversation = %s, conversation_from = %s WHERE id = %s AND tenant = %s",
        (key, start, response, tenant),
    )


async def beginning(db: Connection, key: int, before: int) -> bytes | None:
    ((items,),) = await rows(db, BEGINNING, (key, before))
    return items if items is None else bytes(items)


async def context(db: Connection, tenant: str, id: str) -> bytes | None:
    """All items as one fragment."""
    row = await one(db, CONTEXT, (id, tenant))
    return None if row is None else row[0] or b""


async def page(
    db: Connection, tenant: str, id: str, after: str | None, limit: int, newest_first: bool
) -> ItemPage | None:
    key = await key_of(db, "conversations", tenant, id)
    if key is None:
        return None
    where, order = ("n < %s", "n DESC") if newest_first else ("n > %s", "n")
    start = FAR if newest_first else -1
    if after is not None:
        row = await one(db, ITEM, (after, id, tenant))
        if row is None:
            raise UnknownCursor(f"There is no item {after!r} in the conversation {id!r} to continue after.")
        start = row[0]
    found = await rows(
        db,
        f"SELECT id, data FROM conversation_items WHERE conversation = %s AND {where} "
        f"ORDER BY {order} LIMIT %s",
        (key, start, limit + 1),
    )
    return ItemPage(tuple(StoredItem(*row) for row in found[:limit]), len(found) > limit)


async def item(db: Connection, tenant: str, id: str, item: str) -> bytes | None:
    row = await one(db, ITEM, (item, id, tenant))
    return None if row is None else bytes(row[1])


async def find_item(db: Connection, tenant: str, item: str) -> bytes | None:
    row = await one(db, FIND, (item, tenant))
    return None if row is None else bytes(row[0])


async def delete_item(db: Connection, tenant: str, id: str, item: str) -> bool:
    key = await key_of(db, "conversations", tenant, id, lock=True)
    gone = "DELETE FROM conversation_items WHERE id = %s AND conversation = %s"
    return key is not None and await execute(db, gone, (item, key)) == 1
