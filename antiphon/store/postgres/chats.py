"""The SQL of chats: trees of responses, listed, searched, joined and left."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from antiphon.store.base import (
    ChatEdit,
    ChatNode,
    ChatNodes,
    ChatPage,
    ChatTurn,
    ItemPosition,
    Joining,
    StoreConflict,
    StoredChat,
    UnknownCursor,
)
from antiphon.store.bodies import whole
from antiphon.store.chat_words import said_in, title_of
from antiphon.store.postgres import chat_texts, responses
from antiphon.store.postgres.connection import Connection, Row, execute, key_of, one, rows
from antiphon.store.postgres.responses import PostgresPlan

CHAT = """
    SELECT id, tenant, title, current, created_at, updated_at, expires_at, pinned,
           (SELECT responses.id FROM responses
            WHERE responses.chat = chats.key AND owner IS NOT NULL ORDER BY responses.key DESC LIMIT 1)
    FROM chats
"""
NODE = f"SELECT id, previous, input, {responses.BODY} FROM responses"
TURN = "SELECT id, previous, input, output FROM responses WHERE id = %s AND chat = %s AND tenant = %s"
PLACE = "SELECT updated_at, key FROM chats WHERE id = %s AND tenant = %s"
TOUCH = """
    UPDATE chats SET current = coalesce(%s, current), updated_at = greatest(updated_at, %s),
                     expires_at = CASE WHEN pinned THEN NULL ELSE %s::int8 END
    WHERE key = %s
"""
ADD = """
    UPDATE responses SET chat = %(chat)s, expires_at = NULL,
        previous = (SELECT id FROM responses WHERE id = %(previous)s AND chat = %(chat)s)
    WHERE id = %(id)s AND tenant = %(tenant)s
"""


class _Body(Struct):
    previous_response_id: Any = None


_body = msgspec.json.Decoder(_Body).decode


async def create(db: Connection, new: StoredChat) -> StoredChat:
    expires = None if new.pinned else new.expires_at
    row = await one(
        db,
        "INSERT INTO chats (id, tenant, current, pinned, created_at, updated_at, expires_at) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING key",
        (new.id, new.tenant, new.current, new.pinned, new.created_at, new.updated_at, expires),
    )
    if row is None:
        raise StoreConflict(f"A chat with the id {new.id!r} is already stored.")
    if new.title is not None:
        await name(db, row[0], new.tenant, new.title)
    if new.current is not None:
        await go_to(db, row[0], new.tenant, new.current)
    made = await get(db, new.tenant, new.id)
    assert made is not None
    return made


async def get(db: Connection, tenant: str, id: str) -> StoredChat | None:
    row = await one(db, f"{CHAT} WHERE id = %s AND tenant = %s", (id, tenant))
    return None if row is None else StoredChat(*row)


async def page(db: Connection, tenant: str, after: str | None, limit: int, search: str) -> ChatPage:
    where, words = chat_texts.condition(tenant, search)
    values: list[Any] = [tenant, *words]
    if after is not None:
        place = await one(db, PLACE, (after, tenant))
        if place is None:
            raise UnknownCursor(f"There is no chat {after!r} to continue after.")
        where += " AND (updated_at, key) < (%s, %s)"
        values += place
    found = await rows(
        db,
        f"{CHAT} WHERE tenant = %s{where} ORDER BY updated_at DESC, key DESC LIMIT %s",
        [*values, limit + 1],
    )
    return ChatPage(tuple(StoredChat(*row) for row in found[:limit]), len(found) > limit)


async def edit(db: Connection, tenant: str, id: str, edit: ChatEdit) -> StoredChat | None:
    key = await key_of(db, "chats", tenant, id, lock=True)
    if key is None:
        return None
    if edit.pinned is not None:
        await execute(db, "UPDATE chats SET pinned = %s WHERE key = %s", (edit.pinned, key))
    if edit.title is not None:
        await name(db, key, tenant, edit.title)
    if edit.current is not None:
        await go_to(db, key, tenant, edit.current)
    await execute(db, TOUCH, (edit.current, edit.at, edit.expires_at, key))
    return await get(db, tenant, id)


async def name(db: Connection, key: int, tenant: str, title: str) -> None:
    """A title is one line; without any words in it, it is none."""
    title = " ".join(title.split())
    await execute(db, "UPDATE chats SET title = %s WHERE key = %s", (title or None, key))
    await chat_texts.keep(db, -key, key, tenant, title)


async def insert(db: Connection, plan: PostgresPlan) -> ItemPosition:
    """Stores a response by itself, in its chat if it joins one."""
    place, new = await responses.insert(db, plan), plan.response
    if new.chat is not None:
        await join(db, new.tenant, new.id, new.previous.response if new.previous else None, new.chat)
    return place


async def join(db: Connection, tenant: str, response: str, previous: str | None, joining: Joining) -> None:
    """Puts a stored response into its chat, where it is the current one; nothing if the chat was deleted."""
    key = await key_of(db, "chats", tenant, joining.chat, lock=True)
    if key is None:
        return
    if previous is not None:
        await adopt(db, key, tenant, previous)
    await add(db, key, tenant, response, previous)
    await execute(db, TOUCH, (response, joining.at, joining.expires_at, key))


async def go_to(db: Connection, key: int, tenant: str, response: str) -> None:
    """Makes sure that a response, which is to be the current one, is in this chat."""
    await adopt(db, key, tenant, response)
    inside = "SELECT 1 FROM responses WHERE id = %s AND chat = %s AND tenant = %s"
    if await one(db, inside, (response, key, tenant)) is None:
        raise StoreConflict(f"The response {response!r} does not exist, or is in another chat.")


async def adopt(db: Connection, key: int, tenant: str, last: str) -> None:
    """Takes a response that is in no chat into this one, with all that it continues."""
    found: list[tuple[str, str | None]] = []
    response: str | None = last
    while response is not None:
        row = await one(
            db,
            "SELECT body FROM responses WHERE id = %s AND tenant = %s AND chat IS NULL",
            (response, tenant),
        )
        if row is None:
            break
        previous = _body(row[0]).previous_response_id
        found.append((response, previous if isinstance(previous, str) else None))
        response = found[-1][1]
    for response, previous in reversed(found):
        await add(db, key, tenant, response, previous)


async def add(db: Connection, key: int, tenant: str, response: str, previous: str | None) -> None:
    """A response hangs under the one before it only if that is in the same chat."""
    given = {"chat": key, "id": response, "previous": previous, "tenant": tenant}
    await execute(db, ADD, given)
    await say(db, key, tenant, response)


async def say(db: Connection, key: int, tenant: str, response: str) -> None:
    """Keeps what is said in a response for the search, and names a chat without a title after it."""
    row = await one(
        db, "SELECT key, input, output FROM responses WHERE id = %s AND tenant = %s", (response, tenant)
    )
    if row is None:
        return
    own, input, output = row
    await chat_texts.keep(db, own, key, tenant, said_in(input, output))
    ((title,),) = await rows(db, "SELECT title FROM chats WHERE key = %s", (key,))
    if title is None and (title := title_of(input)) is not None:
        await name(db, key, tenant, title)


async def ended(db: Connection, key: int, tenant: str, response: str, at: float) -> None:
    """A response of this chat, which ran, has its output now."""
    await say(db, key, tenant, response)
    await execute(db, "UPDATE chats SET updated_at = greatest(updated_at, %s) WHERE key = %s", (at, key))


async def leave(db: Connection, tenant: str, response: str) -> None:
    """What continues a response that is going away hangs under the one before it from now on."""
    row = await one(
        db, "SELECT chat, previous FROM responses WHERE id = %s AND tenant = %s", (response, tenant)
    )
    if row is None or row[0] is None:
        return
    chat, previous = row
    await execute(
        db,
        "UPDATE responses SET previous = %s WHERE chat = %s AND previous = %s",
        (previous, chat, response),
    )
    await execute(
        db,
        "UPDATE chats SET current = coalesce(%(previous)s, (SELECT id FROM responses WHERE chat = %(chat)s "
        "AND id != %(gone)s ORDER BY key DESC LIMIT 1)) WHERE key = %(chat)s AND current = %(gone)s",
        {"previous": previous, "chat": chat, "gone": response},
    )


async def chat_of(db: Connection, tenant: str, response: str) -> str | None:
    row = await one(
        db,
        "SELECT chats.id FROM responses JOIN chats ON chats.key = responses.chat "
        "WHERE responses.id = %s AND responses.tenant = %s",
        (response, tenant),
    )
    return None if row is None else str(row[0])


async def nodes(db: Connection, tenant: str, id: str, after: str | None, limit: int) -> ChatNodes | None:
    chat, start = await key_of(db, "chats", tenant, id), -1
    if chat is None:
        return None
    if after is not None:
        row = await one(db, "SELECT key FROM responses WHERE id = %s AND chat = %s", (after, chat))
        if row is None:
            raise UnknownCursor(f"There is no response {after!r} in the chat {id!r} to continue after.")
        (start,) = row
    found = await rows(
        db, f"{NODE} WHERE chat = %s AND key > %s ORDER BY key LIMIT %s", (chat, start, limit + 1)
    )
    return ChatNodes(tuple(_node(row) for row in found[:limit]), len(found) > limit)


async def path(db: Connection, tenant: str, id: str, last: str) -> list[ChatTurn] | None:
    chat = await key_of(db, "chats", tenant, id)
    found: list[ChatTurn] = []
    response: str | None = last
    while response is not None:
        row = await one(db, TURN, (response, chat, tenant))
        if row is None:
            return None
        id, previous, input, output = row
        found.append(ChatTurn(id, previous, input or b"", output or b""))
        response = previous
    return found[::-1]


def _node(row: Row) -> ChatNode:
    id, previous, input, *body = row
    return ChatNode(id, previous, input or b"", whole(*body))
