"""Turns the chats of the AI SDK bridge, which were conversations once, into chats.

Such a conversation has the name of its chat in its metadata, and an id that is made of it; one that a client
made itself stays a conversation, whatever its metadata say. The items become turns of one chain: each
response with what was given before it. A response whose output was taken out, because the client asked again,
becomes a branch.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.store.base import StoredItem, fragment
from antiphon.store.bodies import named_in
from antiphon.store.chat_words import said_in, title_of
from antiphon.store.sqlite.responses import encoded, new_key

_CONVERSATIONS = "SELECT key, id, tenant, metadata, created_at, expires_at FROM conversations ORDER BY key"
_RESPONSES = """
    SELECT key, id, created_at, status, input, output, conversation_from FROM responses
    WHERE (conversation = ? OR (id = ? AND tenant = ? AND conversation IS NULL)) AND id IS NOT NULL
    ORDER BY key
"""
_MOVE = """
    UPDATE responses SET chain = ?, position = ?, chat = ?, previous = ?, input = ?, items = ?,
                         expires_at = NULL, conversation = NULL, conversation_from = NULL
    WHERE key = ?
"""
_BEGINNING = """
    INSERT INTO responses (key, tenant, chain, position, status, model, created_at, background, items, input)
    VALUES (?, ?, ?, 0, 'completed', '', ?, 0, '[]', ?)
"""
_CHAT = """
    INSERT INTO chats (key, id, tenant, title, current, created_at, updated_at, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_OLD, _NEW = "conv_", "chat_"


@dataclass(slots=True)
class _Response:
    key: int
    id: str
    created_at: int
    status: str
    input: bytes | None
    output: bytes | None
    start: int | None
    """The number of its first item in the conversation; None for one that has not ended."""


@dataclass(slots=True)
class _Turn:
    response: _Response
    given: list[StoredItem]
    made: list[StoredItem] = field(default_factory=list)
    end: int = -1


def carry_over(db: sqlite3.Connection) -> None:
    for row in db.execute(_CONVERSATIONS).fetchall():
        metadata = msgspec.json.decode(row[3])
        name = metadata.get("chat") if isinstance(metadata, dict) else None
        if isinstance(name, str) and row[1] == _id_of(row[2], name):
            _carry(db, row, str(metadata.get("chat_response", "")))


def _id_of(tenant: str, name: str) -> str:
    """The id that the bridge gave to the conversation of a chat."""
    return _OLD + hashlib.sha256(f"{tenant}\0{name}".encode()).hexdigest()[:24]


def _carry(db: sqlite3.Connection, conversation: tuple[Any, ...], last: str) -> None:
    key, id, tenant, _, created_at, expires_at = conversation
    rows = db.execute("SELECT n, id, data FROM conversation_items WHERE conversation = ? ORDER BY n", (key,))
    items = {n: StoredItem(item, data) for n, item, data in rows.fetchall()}
    found = [_Response(*row) for row in db.execute(_RESPONSES, (key, last, tenant)).fetchall()]
    if not found:
        return
    turns, left = _turns(items, found)
    chat, chain, previous = new_key(), new_key(), None
    for position, turn in enumerate(turns):
        _place(db, turn.response, chain, position, chat, previous, turn.given)
        previous = turn.response.id
    kept = {turn.response.key for turn in turns}
    for response in [one for one in found if one.key not in kept]:
        _branch(db, response, tenant, chat, turns, items)
    runs = found[-1].start is None
    current = found[-1].id if runs or not turns else turns[-1].response.id
    given = [title for turn in turns if (title := title_of(_joined(turn.given)))]
    title = next(iter(given), None) or title_of(found[0].input)
    times = (created_at, max(one.created_at for one in found), expires_at)
    db.execute(_CHAT, (chat, _NEW + id.removeprefix(_OLD), tenant, title, current, *times))
    said = db.execute("SELECT key, input, output FROM responses WHERE chat = ?", (chat,)).fetchall()
    texts = [(-chat, title or ""), *((key, said_in(*fragments)) for key, *fragments in said)]
    for row in [(key, chat, text) for key, text in texts if text]:
        db.execute("INSERT INTO chat_texts (key, chat, text) VALUES (?, ?, ?)", row)
    if not left:
        # Items that no response followed have no place in a chat, so they stay where they are.
        db.execute("DELETE FROM conversation_items WHERE conversation = ?", (key,))
        db.execute("DELETE FROM conversations WHERE key = ?", (key,))


def _turns(items: dict[int, StoredItem], found: list[_Response]) -> tuple[list[_Turn], list[StoredItem]]:
    """The conversation as turns, and the items after the last of them."""
    made_by = {name: response for response in found for name in named_in(response.output)}
    turns: list[_Turn] = []
    given: list[StoredItem] = []
    for n, item in items.items():
        response = made_by.get(item.id or "")
        if response is None:
            given.append(item)
            continue
        if not turns or turns[-1].response is not response:
            turns.append(_Turn(response, given))
            given = []
        turns[-1].made.append(item)
        turns[-1].end = n
    return turns, given


def _branch(
    db: sqlite3.Connection,
    response: _Response,
    tenant: str,
    chat: int,
    turns: list[_Turn],
    items: dict[int, StoredItem],
) -> None:
    """A response beside the others: its context is copied, as that of any branch."""
    start = 2**62 if response.start is None else response.start
    parent = next((turn for turn in reversed(turns) if turn.end < start), None)
    end = parent.end if parent else -1
    own = set(named_in(response.input))
    asked = [item for n, item in items.items() if end < n < start and item.id not in own]
    before = [item for n, item in items.items() if n <= end]
    chain = new_key()
    if before:
        db.execute(_BEGINNING, (new_key(), tenant, chain, response.created_at, _joined(before)))
    position = 1 if before else 0
    given = [*asked, StoredItem(None, response.input or b"")]
    _place(db, response, chain, position, chat, parent.response.id if parent else None, given)


def _place(
    db: sqlite3.Connection,
    response: _Response,
    chain: int,
    position: int,
    chat: int,
    previous: str | None,
    given: list[StoredItem],
) -> None:
    input = _joined(given)
    names = encoded(named_in(input) + named_in(response.output))
    db.execute(_MOVE, (chain, position, chat, previous, input, names, response.key))


def _joined(items: list[StoredItem]) -> bytes | None:
    return fragment([item.data for item in items]) or None
