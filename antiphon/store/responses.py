"""The SQL of responses: storing them in chains, and reading one, its context and its items.

New rows go in with one INSERT for the whole batch: for every statement the writer thread must get the
interpreter lock back, and under a busy event loop that wait, not SQLite, is what a save costs.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from . import conversations
from .base import RUNNING, Context, Item, NewResponse, Place, StoreConflict, StoredResponse, fragment

Row = tuple[Any, ...]

COLUMNS = (
    "key, id, tenant, chain, position, status, model, created_at, expires_at, background, owner, "
    "items, input, output, body, spliced"
)
WIDTH = len(COLUMNS.split(",")) + 1
# SQLite before 3.32 allows 999 parameters in a statement.
MOST = 999 // WIDTH

# A turn as one fragment, and the columns that `whole` makes a body of; NULL is the empty fragment.
TURN = "CASE WHEN input IS NULL THEN output WHEN output IS NULL THEN input ELSE input || ',' || output END"
BODY = "body, spliced, CASE WHEN spliced IS NOT NULL THEN output END"

STORED = f"""
    SELECT id, tenant, status, model, created_at, expires_at, background, owner, cancel_requested,
           (SELECT last FROM events WHERE response = responses.key ORDER BY seq DESC LIMIT 1), {BODY}
    FROM responses
"""

# One row whatever the length of the chain: a step per turn would wait for the interpreter lock once per turn.
CONTEXT = f"""
    SELECT status, chain, position, input, output, conversation, conversation_from,
           (SELECT CAST(group_concat(turn, ',') AS BLOB) FROM (
                SELECT {TURN} AS turn FROM responses AS earlier
                WHERE earlier.chain = responses.chain AND earlier.position < responses.position
                ORDER BY earlier.position))
    FROM responses WHERE id = ? AND tenant = ?
"""

ITEM = """
    SELECT substr(CASE items.side WHEN 0 THEN responses.input ELSE responses.output END, start + 1, length)
    FROM items JOIN responses ON responses.key = items.response
    WHERE items.id = ? AND tenant = ? ORDER BY items.response DESC LIMIT 1
"""


def new_key() -> int:
    """A row key made without asking the database; it grows with time, so that rows are appended."""
    return (time.time_ns() // 1000) << 10 | random.getrandbits(10)


def splice(body: bytes, output: bytes) -> tuple[bytes, int | None]:
    """Cuts the output, which is stored beside it anyway, out of a body; and where it was."""
    at = body.find(output) if output else -1
    return (body, None) if at < 0 else (body[:at] + body[at + len(output) :], at)


def whole(body: bytes, spliced: int | None, output: bytes | None) -> bytes:
    """A body with its output put back."""
    return body if spliced is None or output is None else body[:spliced] + output + body[spliced:]


def directory(items: Sequence[Item], side: int) -> list[tuple[str, int, int, int]]:
    """Where each item that has an id lies in the fragment of these items."""
    places = []
    at = 0
    for item in items:
        if item.id is not None and item.data:
            places.append((item.id, side, at, len(item.data)))
        at += len(item.data) + 1 if item.data else 0
    return places


def encoded(places: list[tuple[str, int, int, int]]) -> str:
    return msgspec.json.encode(places).decode()


class Plan(Struct, frozen=True):
    """A response ready to be written: everything that can be worked out before the transaction.

    `wish` is the place that it takes unless something stands in the way: right after the previous response.
    """

    response: NewResponse
    key: int
    wish: Place
    input: bytes
    output: bytes
    size: int
    row: Row

    @classmethod
    def of(cls, new: NewResponse) -> Plan:
        key, previous = new_key(), new.previous
        before = previous.place if previous is not None else None
        wish = Place(key, 0) if before is None else Place(before.chain, before.position + 1)
        input = fragment([item.data for item in new.input])
        output = fragment([item.data for item in new.output])
        body, spliced = splice(new.body, output)
        row = (
            key,
            new.id,
            new.tenant,
            wish.chain,
            wish.position,
            new.status,
            new.model,
            new.created_at,
            new.expires_at,
            new.background,
            new.owner,
            encoded(directory(new.input, 0) + directory(new.output, 1)),
            input or None,
            output or None,
            body,
            spliced,
            previous.response if previous is not None and before is not None else None,
        )
        return cls(new, key, wish, input, output, len(input) + len(output) + len(body), row)

    @property
    def plain(self) -> bool:
        """Whether it is one row that can be written together with others."""
        response = self.response
        return response.append is None and (response.previous is None or response.previous.place is not None)


@cache
def insertion(rows: int) -> str:
    """A row that names its previous response goes in only while that response is still in its place."""
    values = ", ".join([f"({', '.join('?' * WIDTH)})"] * rows)
    return f"""
        INSERT OR IGNORE INTO responses ({COLUMNS})
        WITH new ({COLUMNS}, previous) AS (VALUES {values})
        SELECT {COLUMNS} FROM new
        WHERE previous IS NULL OR EXISTS (
            SELECT 1 FROM responses AS parent
            WHERE parent.id = new.previous
            AND parent.chain = new.chain AND parent.position = new.position - 1)
    """


def insert(db: sqlite3.Connection, rows: Sequence[Row]) -> int:
    return db.execute(insertion(len(rows)), [value for row in rows for value in row]).rowcount


def insert_plain(db: sqlite3.Connection, plans: Sequence[Plan]) -> list[Place | None]:
    """Writes plain plans in one statement. None for each that did not get the place it wished for."""
    if insert(db, [plan.row for plan in plans]) == len(plans):
        return [plan.wish for plan in plans]
    found = "SELECT 1 FROM responses WHERE key = ? AND id = ?"
    return [
        plan.wish if db.execute(found, (plan.key, plan.response.id)).fetchone() else None for plan in plans
    ]


def insert_branch(db: sqlite3.Connection, plan: Plan) -> Place:
    """Writes a response that begins a chain of its own, on a copy of everything said before it."""
    previous = plan.response.previous
    return _insert_branch(db, plan.row, previous.fragments() if previous else None)


def insert_again(db: sqlite3.Connection, row: Row) -> None:
    """Writes a row that was meant to be written before, if it was not, on what is stored of its beginning."""
    if insert(db, [row]) or db.execute("SELECT 1 FROM responses WHERE id = ?", (row[1],)).fetchone():
        return
    previous = context(db, row[2], row[-1]) if row[-1] is not None else None
    _insert_branch(db, row, previous.fragments() if previous else None)


def _insert_branch(db: sqlite3.Connection, row: Row, before: Sequence[bytes] | None) -> Place:
    _, id, tenant, _, _, status, model, created_at, *rest, _ = row
    chain = new_key()
    position = 0 if before is None else 1
    rows: list[Row] = [(chain, id, tenant, chain, position, status, model, created_at, *rest, None)]
    if before is not None:
        # The row that begins a branch: everything said before, in one piece.
        facts = (status, "", created_at, None, False, None, "[]", fragment(before) or None)
        rows.insert(0, (new_key(), None, tenant, chain, 0, *facts, None, None, None, None))
    if insert(db, rows) != len(rows):
        raise StoreConflict(f"A response with the id {id!r} is already stored.")
    return Place(chain, position)


def insert_one(db: sqlite3.Connection, plan: Plan) -> Place:
    place = insert_plain(db, [plan])[0] if plan.wish.chain != plan.key else None
    place = place or insert_branch(db, plan)
    if plan.response.append is not None:
        conversations.join(db, plan.response.tenant, plan.response.id, plan.response.append)
    return place


def stored(row: Row) -> StoredResponse:
    id, tenant, status, model, created, expires, background, owner, cancel, last, *body = row
    return StoredResponse(
        id, tenant, status, model, created, expires, bool(background), owner, bool(cancel), last, whole(*body)
    )


def get(db: sqlite3.Connection, tenant: str, id: str) -> StoredResponse | None:
    row = db.execute(STORED + "WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    return None if row is None else stored(row)


def context(db: sqlite3.Connection, tenant: str, id: str) -> Context | None:
    """The context of a response. It has no place when it may still change: its continuation copies it."""
    row = db.execute(CONTEXT, (id, tenant)).fetchone()
    if row is None:
        return None
    status, chain, position, input, output, conversation, start, before = row
    if conversation is not None:
        before = conversations.beginning(db, conversation, start)
    final = conversation is None and status not in RUNNING
    place = Place(chain, position) if final else None
    return Context(id, status, (before,) if before else (), input or b"", output or b"", place)


def find_items(db: sqlite3.Connection, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for id in ids:
        row = db.execute(ITEM, (id, tenant)).fetchone()
        data = row[0] if row else conversations.find_item(db, tenant, id)
        if data is not None:
            found[id] = data
    return found
