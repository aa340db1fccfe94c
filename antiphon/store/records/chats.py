"""Chats: trees of responses, listed, searched, joined and left."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from antiphon.store import base
from antiphon.store.bodies import BODY, restore_body
from antiphon.store.chat_words import make_title, read_chat_text
from antiphon.store.statements import StatementRow, Steps, execute, get_backend, key_of, one, page, rows

CHAT = """
    SELECT id, tenant, title, current, created_at, updated_at, expires_at, pinned,
           (SELECT responses.id FROM responses
            WHERE responses.chat = chats.key AND owner IS NOT NULL ORDER BY responses.key DESC LIMIT 1)
    FROM chats
"""
CREATE = """
    INSERT INTO chats (key, id, tenant, current, pinned, created_at, updated_at, expires_at)
    VALUES (DEFAULT, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
NODE = f"SELECT id, previous, input, {BODY} FROM responses"
TURN = "SELECT id, previous, input, output FROM responses WHERE id = ? AND chat = ? AND tenant = ?"
PLACE = "SELECT updated_at, key FROM chats WHERE id = ? AND tenant = ?"
TOUCH = """
    UPDATE chats SET current = coalesce(?, current), updated_at = greatest(updated_at, ?),
                     expires_at = CASE WHEN pinned THEN NULL ELSE ?::int8 END
    WHERE key = ?
"""
ADD = """
    UPDATE responses SET chat = ?, expires_at = NULL,
        previous = (SELECT id FROM responses WHERE id = ? AND chat = ?)
    WHERE id = ? AND tenant = ?
"""
LEAVE = """
    UPDATE chats SET current = coalesce(?, (
        SELECT id FROM responses WHERE chat = ? AND id != ? ORDER BY key DESC LIMIT 1))
    WHERE key = ? AND current = ?
"""


class _Body(Struct):
    previous_response_id: Any = None


_body = msgspec.json.Decoder(_Body).decode


def create(chat: base.StoredChat) -> Steps[base.StoredChat]:
    """Makes a chat; a `current` response that is in no chat yet joins it with all that it continues.

    Raises `StoreConflict`, as `edit_chat` does, if that response does not exist or is in another chat.
    """
    expires = None if chat.pinned else chat.expires_at
    row = (chat.id, chat.tenant, chat.current, chat.pinned, chat.created_at, chat.updated_at, expires)
    made = yield from execute(CREATE, *row)
    key = yield from key_of("chats", chat.tenant, chat.id)
    if not made or key is None:
        raise base.StoreConflict(f"A chat with the id {chat.id!r} is already stored.")
    if chat.title is not None:
        yield from _set_title(key, chat.tenant, chat.title)
    if chat.current is not None:
        yield from _set_current(key, chat.tenant, chat.current)
    stored = yield from get(chat.tenant, chat.id)
    assert stored is not None
    return stored


def get(tenant: str, id: str) -> Steps[base.StoredChat | None]:
    row = yield from one(f"{CHAT} WHERE id = ? AND tenant = ?", id, tenant)
    return None if row is None else _chat(row)


def page_chats(
    tenant: str, *, after: str | None = None, limit: int = 20, search: str = ""
) -> Steps[base.ChatPage]:
    """Returns chats, the last changed first; with `search`, only chats with all of its words."""
    where, words = (yield from get_backend()).text_condition(tenant, search)
    values: list[Any] = [tenant, *words]
    if after is not None:
        place = yield from one(PLACE, after, tenant)
        if place is None:
            raise base.UnknownCursor(f"There is no chat {after!r} to continue after.")
        where += " AND (updated_at, key) < (?, ?)"
        values += place
    sql = f"{CHAT} WHERE tenant = ?{where} ORDER BY updated_at DESC, key DESC"
    return base.ChatPage(*(yield from page(_chat, sql, values, limit)))


def edit(tenant: str, id: str, edit: base.ChatEdit) -> Steps[base.StoredChat | None]:
    key = yield from key_of("chats", tenant, id, lock=True)
    if key is None:
        return None
    if edit.pinned is not None:
        yield from execute("UPDATE chats SET pinned = ? WHERE key = ?", edit.pinned, key)
    if edit.title is not None:
        yield from _set_title(key, tenant, edit.title)
    if edit.current is not None:
        yield from _set_current(key, tenant, edit.current)
    yield from execute(TOUCH, edit.current, edit.at, edit.expires_at, key)
    return (yield from get(tenant, id))


def _set_title(key: int, tenant: str, title: str) -> Steps[None]:
    """Sets the title as one line; a title without words removes it."""
    title = " ".join(title.split())
    yield from execute("UPDATE chats SET title = ? WHERE key = ?", title or None, key)
    yield from (yield from get_backend()).store_text(-key, key, tenant, title)


def add_response(tenant: str, response: str, previous: str | None, joining: base.Joining) -> Steps[None]:
    """Puts a stored response into its chat as the current one; does nothing if the chat was deleted."""
    key = yield from key_of("chats", tenant, joining.chat, lock=True)
    if key is None:
        return
    if previous is not None:
        yield from _add_ancestors(key, tenant, previous)
    yield from _add(key, tenant, response, previous)
    yield from execute(TOUCH, response, joining.at, joining.expires_at, key)


def _set_current(key: int, tenant: str, response: str) -> Steps[None]:
    """Makes sure that the response that becomes the current one is in this chat."""
    yield from _add_ancestors(key, tenant, response)
    inside = "SELECT 1 FROM responses WHERE id = ? AND chat = ? AND tenant = ?"
    if (yield from one(inside, response, key, tenant)) is None:
        raise base.StoreConflict(f"The response {response!r} does not exist, or is in another chat.")


def _add_ancestors(key: int, tenant: str, last: str) -> Steps[None]:
    """Adds a response that is in no chat to this one, with all that it continues."""
    found: list[tuple[str, str | None]] = []
    response: str | None = last
    while response is not None:
        row = yield from one(
            "SELECT body FROM responses WHERE id = ? AND tenant = ? AND chat IS NULL", response, tenant
        )
        if row is None:
            break
        previous = _body(row[0]).previous_response_id
        found.append((response, previous if isinstance(previous, str) else None))
        response = found[-1][1]
    for response, previous in reversed(found):
        yield from _add(key, tenant, response, previous)


def _add(key: int, tenant: str, response: str, previous: str | None) -> Steps[None]:
    """Adds a response to a chat, under the one before it if that is in the same chat."""
    yield from execute(ADD, key, previous, key, response, tenant)
    yield from _index(key, tenant, response)


def _index(key: int, tenant: str, response: str) -> Steps[None]:
    """Stores the text of a response for the search, and makes a title from it for a chat without one."""
    row = yield from one(
        "SELECT key, input, output FROM responses WHERE id = ? AND tenant = ?", response, tenant
    )
    if row is None:
        return
    own, input, output = row
    yield from (yield from get_backend()).store_text(own, key, tenant, read_chat_text(input, output))
    ((title,),) = yield from rows("SELECT title FROM chats WHERE key = ?", key)
    if title is None and (title := make_title(input)) is not None:
        yield from _set_title(key, tenant, title)


def end_response(key: int, tenant: str, response: str, at: float) -> Steps[None]:
    """Updates the chat of a response that has ended, and so has its output."""
    yield from _index(key, tenant, response)
    yield from execute("UPDATE chats SET updated_at = greatest(updated_at, ?) WHERE key = ?", at, key)


def remove_from_chat(tenant: str, response: str) -> Steps[None]:
    """Removes a response from its chat: its continuations follow the response before it then."""
    row = yield from one("SELECT chat, previous FROM responses WHERE id = ? AND tenant = ?", response, tenant)
    if row is None or row[0] is None:
        return
    chat, previous = row
    yield from execute(
        "UPDATE responses SET previous = ? WHERE chat = ? AND previous = ?", previous, chat, response
    )
    yield from execute(LEAVE, previous, chat, response, chat, response)


def chat_of(tenant: str, response: str) -> Steps[str | None]:
    """Returns the id of the chat that has a response."""
    row = yield from one(
        "SELECT chats.id FROM responses JOIN chats ON chats.key = responses.chat "
        "WHERE responses.id = ? AND responses.tenant = ?",
        response,
        tenant,
    )
    return None if row is None else str(row[0])


def nodes(tenant: str, id: str, *, after: str | None = None, limit: int = 20) -> Steps[base.ChatNodes | None]:
    """Returns the responses of a chat, each after the one that it continues."""
    chat, start = (yield from key_of("chats", tenant, id)), -1
    if chat is None:
        return None
    if after is not None:
        row = yield from one("SELECT key FROM responses WHERE id = ? AND chat = ?", after, chat)
        if row is None:
            raise base.UnknownCursor(f"There is no response {after!r} in the chat {id!r} to continue after.")
        (start,) = row
    sql = f"{NODE} WHERE chat = ? AND key > ? ORDER BY key"
    return base.ChatNodes(*(yield from page(_node, sql, (chat, start), limit)))


def path(tenant: str, id: str, last: str) -> Steps[list[base.ChatTurn] | None]:
    """Returns the responses from the beginning of a chat to this one; None if it is not in the chat."""
    chat = yield from key_of("chats", tenant, id)
    found: list[base.ChatTurn] = []
    response: str | None = last
    while response is not None:
        row = yield from one(TURN, response, chat, tenant)
        if row is None:
            return None
        id, previous, input, output = row
        found.append(base.ChatTurn(id, previous, input or b"", output or b""))
        response = previous
    return found[::-1]


def _chat(row: StatementRow) -> base.StoredChat:
    id, tenant, title, current, created_at, updated_at, expires_at, pinned, running = row
    return base.StoredChat(
        id, tenant, title, current, created_at, updated_at, expires_at, bool(pinned), running
    )


def _node(row: StatementRow) -> base.ChatNode:
    id, previous, input, *body = row
    return base.ChatNode(id, previous, input or b"", restore_body(*body))
