"""The SQL of chats: trees of responses, listed, searched, joined and left."""

from __future__ import annotations

import sqlite3
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
from antiphon.store.sqlite import chat_texts, responses
from antiphon.store.sqlite.responses import Plan

CHAT = """
    SELECT id, tenant, title, current, created_at, updated_at, expires_at, pinned,
           (SELECT responses.id FROM responses
            WHERE responses.chat = chats.key AND owner IS NOT NULL ORDER BY responses.key DESC LIMIT 1)
    FROM chats
"""
NODE = f"SELECT id, previous, input, {responses.BODY} FROM responses"
TURN = "SELECT id, previous, input, output FROM responses WHERE id = ? AND chat = ?"
PLACE = "SELECT updated_at, key FROM chats WHERE id = ? AND tenant = ?"
TOUCH = """
    UPDATE chats SET current = coalesce(?, current), updated_at = max(updated_at, ?),
                     expires_at = CASE WHEN pinned THEN NULL ELSE ? END
    WHERE key = ?
"""


class _Body(Struct):
    previous_response_id: Any = None


_body = msgspec.json.Decoder(_Body).decode


def key_of(db: sqlite3.Connection, tenant: str, id: str) -> int | None:
    row = db.execute("SELECT key FROM chats WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    return None if row is None else int(row[0])


def create(db: sqlite3.Connection, new: StoredChat) -> StoredChat:
    key = responses.new_key()
    expires = None if new.pinned else new.expires_at
    row = (key, new.id, new.tenant, new.current, new.pinned, new.created_at, new.updated_at, expires)
    try:
        db.execute(
            "INSERT INTO chats (key, id, tenant, current, pinned, created_at, updated_at, expires_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    except sqlite3.IntegrityError:
        raise StoreConflict(f"A chat with the id {new.id!r} is already stored.") from None
    if new.title is not None:
        name(db, key, new.title)
    if new.current is not None:
        go_to(db, key, new.tenant, new.current)
    made = get(db, new.tenant, new.id)
    assert made is not None
    return made


def get(db: sqlite3.Connection, tenant: str, id: str) -> StoredChat | None:
    row = db.execute(f"{CHAT} WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    return None if row is None else _chat(row)


def page(db: sqlite3.Connection, tenant: str, after: str | None, limit: int, search: str) -> ChatPage:
    values: list[Any] = [tenant]
    where, words = chat_texts.condition(search)
    values += words
    if after is not None:
        place = db.execute(PLACE, (after, tenant)).fetchone()
        if place is None:
            raise UnknownCursor(f"There is no chat {after!r} to continue after.")
        where += " AND (updated_at, key) < (?, ?)"
        values += place
    rows = db.execute(
        f"{CHAT} WHERE tenant = ?{where} ORDER BY updated_at DESC, key DESC LIMIT ?", [*values, limit + 1]
    ).fetchall()
    return ChatPage(tuple(_chat(row) for row in rows[:limit]), len(rows) > limit)


def edit(db: sqlite3.Connection, tenant: str, id: str, edit: ChatEdit) -> StoredChat | None:
    key = key_of(db, tenant, id)
    if key is None:
        return None
    if edit.pinned is not None:
        db.execute("UPDATE chats SET pinned = ? WHERE key = ?", (edit.pinned, key))
    if edit.title is not None:
        name(db, key, edit.title)
    if edit.current is not None:
        go_to(db, key, tenant, edit.current)
    db.execute(TOUCH, (edit.current, edit.at, edit.expires_at, key))
    return get(db, tenant, id)


def name(db: sqlite3.Connection, key: int, title: str) -> None:
    """A title is one line; without any words in it, it is none."""
    title = " ".join(title.split())
    db.execute("UPDATE chats SET title = ? WHERE key = ?", (title or None, key))
    chat_texts.keep(db, -key, key, title)


def insert(db: sqlite3.Connection, plan: Plan) -> ItemPosition:
    """Stores a response by itself, in its chat if it joins one."""
    place, new = responses.insert_one(db, plan), plan.response
    if new.chat is not None:
        join(db, new.tenant, new.id, new.previous.response if new.previous else None, new.chat)
    return place


def join(db: sqlite3.Connection, tenant: str, response: str, previous: str | None, joining: Joining) -> None:
    """Puts a stored response into its chat, where it is the current one; nothing if the chat was deleted."""
    key = key_of(db, tenant, joining.chat)
    if key is None:
        return
    if previous is not None:
        adopt(db, key, tenant, previous)
    add(db, key, tenant, response, previous)
    db.execute(TOUCH, (response, joining.at, joining.expires_at, key))


def go_to(db: sqlite3.Connection, key: int, tenant: str, response: str) -> None:
    """Makes sure that a response, which is to be the current one, is in this chat."""
    adopt(db, key, tenant, response)
    if db.execute("SELECT 1 FROM responses WHERE id = ? AND chat = ?", (response, key)).fetchone() is None:
        raise StoreConflict(f"The response {response!r} does not exist, or is in another chat.")


def adopt(db: sqlite3.Connection, key: int, tenant: str, last: str) -> None:
    """Takes a response that is in no chat into this one, with all that it continues."""
    found: list[tuple[str, str | None]] = []
    response: str | None = last
    while response is not None:
        row = db.execute(
            "SELECT body FROM responses WHERE id = ? AND tenant = ? AND chat IS NULL", (response, tenant)
        ).fetchone()
        if row is None:
            break
        previous = _body(row[0]).previous_response_id
        found.append((response, previous if isinstance(previous, str) else None))
        response = found[-1][1]
    for response, previous in reversed(found):
        add(db, key, tenant, response, previous)


def add(db: sqlite3.Connection, key: int, tenant: str, response: str, previous: str | None) -> None:
    """A response hangs under the one before it only if that is in the same chat."""
    db.execute(
        "UPDATE responses SET chat = :chat, expires_at = NULL, "
        "previous = (SELECT id FROM responses WHERE id = :previous AND chat = :chat) "
        "WHERE id = :id AND tenant = :tenant",
        {"chat": key, "id": response, "previous": previous, "tenant": tenant},
    )
    say(db, key, response)


def say(db: sqlite3.Connection, key: int, response: str) -> None:
    """Keeps what is said in a response for the search, and names a chat without a title after it."""
    own, input, output = db.execute(
        "SELECT key, input, output FROM responses WHERE id = ?", (response,)
    ).fetchone()
    chat_texts.keep(db, own, key, said_in(input, output))
    (title,) = db.execute("SELECT title FROM chats WHERE key = ?", (key,)).fetchone()
    if title is None and (title := title_of(input)) is not None:
        name(db, key, title)


def ended(db: sqlite3.Connection, key: int, response: str, at: float) -> None:
    """A response of this chat, which ran, has its output now."""
    say(db, key, response)
    db.execute("UPDATE chats SET updated_at = max(updated_at, ?) WHERE key = ?", (at, key))


def leave(db: sqlite3.Connection, response: str) -> None:
    """What continues a response that is going away hangs under the one before it from now on."""
    row = db.execute("SELECT chat, previous FROM responses WHERE id = ?", (response,)).fetchone()
    if row is None or row[0] is None:
        return
    chat, previous = row
    db.execute(
        "UPDATE responses SET previous = ? WHERE chat = ? AND previous = ?", (previous, chat, response)
    )
    db.execute(
        "UPDATE chats SET current = coalesce(:previous, (SELECT id FROM responses WHERE chat = :chat "
        "AND id != :gone ORDER BY key DESC LIMIT 1)) WHERE key = :chat AND current = :gone",
        {"previous": previous, "chat": chat, "gone": response},
    )


def chat_of(db: sqlite3.Connection, tenant: str, response: str) -> str | None:
    row = db.execute(
        "SELECT chats.id FROM responses JOIN chats ON chats.key = responses.chat "
        "WHERE responses.id = ? AND responses.tenant = ?",
        (response, tenant),
    ).fetchone()
    return None if row is None else str(row[0])


def nodes(db: sqlite3.Connection, tenant: str, id: str, after: str | None, limit: int) -> ChatNodes | None:
    chat, start = key_of(db, tenant, id), -1
    if chat is None:
        return None
    if after is not None:
        row = db.execute("SELECT key FROM responses WHERE id = ? AND chat = ?", (after, chat)).fetchone()
        if row is None:
            raise UnknownCursor(f"There is no response {after!r} in the chat {id!r} to continue after.")
        (start,) = row
    rows = db.execute(
        f"{NODE} WHERE chat = ? AND key > ? ORDER BY key LIMIT ?", (chat, start, limit + 1)
    ).fetchall()
    return ChatNodes(tuple(_node(row) for row in rows[:limit]), len(rows) > limit)


def path(db: sqlite3.Connection, tenant: str, id: str, last: str) -> list[ChatTurn] | None:
    chat = key_of(db, tenant, id)
    found: list[ChatTurn] = []
    response: str | None = last
    while response is not None:
        row = db.execute(TURN, (response, chat)).fetchone()
        if row is None:
            return None
        id, previous, input, output = row
        found.append(ChatTurn(id, previous, input or b"", output or b""))
        response = previous
    return found[::-1]


def _chat(row: tuple[Any, ...]) -> StoredChat:
    id, tenant, title, current, created_at, updated_at, expires_at, pinned, running = row
    return StoredChat(id, tenant, title, current, created_at, updated_at, expires_at, bool(pinned), running)


def _node(row: tuple[Any, ...]) -> ChatNode:
    id, previous, input, *body = row
    return ChatNode(id, previous, input or b"", whole(*body))
