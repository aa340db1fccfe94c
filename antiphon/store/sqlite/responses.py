"""The SQL of responses: storing them in chains, and reading one, its context and its items.

New rows go in with one INSERT for the whole batch: for every statement the writer thread must get the
interpreter lock back, and under a busy event loop that wait, not SQLite, is what a save costs. Their values
are of the types that `sqlite3` binds as they are (str, int, bytearray): for any other, None and bytes among
them, it looks for an adapter first, which takes longer than the binding.
"""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.spec.chance import chance
from antiphon.spec.limits import LARGE
from antiphon.store.base import (
    RUNNING,
    Context,
    ItemPosition,
    NewResponse,
    StoreConflict,
    StoredResponse,
    fragment,
)
from antiphon.store.bodies import BODY, item_in, splice, whole
from antiphon.store.records import chats, conversations, settlements
from antiphon.store.records.short_lived import keep_key
from antiphon.store.sqlite.backend import carry_out

Row = tuple[Any, ...]

COLUMNS = (
    "key, id, tenant, chain, position, status, model, created_at, expires_at, background, owner, "
    "items, input, output, body, spliced"
)
# The same, where a row says in another way that there is no value.
VALUES = (
    "key, id, tenant, chain, position, status, model, created_at, nullif(expires_at, -1), background, "
    "nullif(owner, ''), items, nullif(input, x''), nullif(output, x''), body, nullif(spliced, -1)"
)
_ITEMS = COLUMNS.split(", ").index("items")
WIDTH = len(COLUMNS.split(",")) + 1
# SQLite before 3.32 allows 999 parameters in a statement.
MOST = 999 // WIDTH
# Not one statement for each number of rows: a connection keeps every one, with the last values bound to it.
SIZES = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, MOST)
_BLANK = (0,) * WIDTH

# A turn as one fragment; NULL is the empty fragment.
TURN = "CASE WHEN input IS NULL THEN output WHEN output IS NULL THEN input ELSE input || ',' || output END"

STORED = f"""
    SELECT id, tenant, status, model, created_at, expires_at, background, owner, cancel_requested,
           (SELECT last FROM events WHERE response = responses.key ORDER BY seq DESC LIMIT 1), dialect,
           attempt, {BODY}
    FROM responses
"""

# One row whatever the length of the chain: a step per turn would wait for the interpreter lock once per turn.
CONTEXT = f"""
    SELECT status, model, created_at, chain, position, input, output, conversation, conversation_from,
           (SELECT CAST(group_concat(turn, ',') AS BLOB) FROM (
                SELECT {TURN} AS turn FROM responses AS earlier
                WHERE earlier.chain = responses.chain AND earlier.position < responses.position
                ORDER BY earlier.position))
    FROM responses WHERE id = ? AND tenant = ?
"""

ITEM = """
    SELECT input, output FROM items JOIN responses ON responses.key = items.response
    WHERE items.id = ? AND tenant = ? ORDER BY items.response DESC LIMIT 1
"""


def new_key() -> int:
    """A row key made without asking the database; it grows with time, so that rows are appended."""
    return (time.time_ns() // 1000) << 10 | chance.getrandbits(10)


_encode = msgspec.json.Encoder().encode
_ids = msgspec.json.Decoder(list[str]).decode


def encoded(ids: Sequence[str]) -> str:
    return _encode(ids).decode()


class Plan(Struct, frozen=True, gc=False):
    """A response ready to be written: everything that can be worked out before the transaction.

    `wish` is the place that it takes unless something stands in the way: right after the previous response.
    """

    response: NewResponse
    wish: ItemPosition
    row: Row


def plan(new: NewResponse) -> Plan:
    key, previous, output = new_key(), new.previous, new.output
    if previous is None or previous.place is None:
        wish, follows = ItemPosition(key, 0), ""
    else:
        wish, follows = ItemPosition(previous.place.chain, previous.place.position + 1), previous.response
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
        -1 if new.expires_at is None else new.expires_at,
        1 if new.background else 0,
        new.owner or "",
        _encode(new.names).decode(),
        _blob(new.input),
        _blob(output),
        body,
        spliced,
        follows,
    )
    return Plan(new, wish, row)


def _blob(data: bytes) -> bytes | bytearray:
    """To copy a large one takes longer than looking for an adapter."""
    return data if len(data) > LARGE else bytearray(data)


def size_for(count: int) -> int:
    return next(size for size in SIZES if size >= count)


@cache
def insertion(rows: int, follow: bool) -> str:
    """Blank rows stay out; a row that follows another goes in only while that one is still in its place.

    To look for it while rows go in, SQLite sets them all aside first: so only where some do follow.
    """
    values = ", ".join([f"({', '.join('?' * WIDTH)})"] * rows)
    statement = f"""
        INSERT OR IGNORE INTO responses ({COLUMNS})
        WITH new ({COLUMNS}, previous) AS (VALUES {values})
        SELECT {VALUES} FROM new WHERE key
    """
    if not follow:
        return statement
    return f"""{statement}
        AND (previous = '' OR EXISTS (
            SELECT 1 FROM responses AS parent
            WHERE parent.id = new.previous
            AND parent.chain = new.chain AND parent.position = new.position - 1))
    """


@cache
def naming(items: int) -> str:
    values = ", ".join(["(?, ?)"] * items)
    return f"INSERT OR IGNORE INTO items (id, response) VALUES {values}"


def insert(db: sqlite3.Connection, rows: Sequence[Row]) -> list[Row]:
    """Writes rows and the names of their items; returns the rows that did not get their place."""
    follow = any(row[-1] for row in rows)
    size = size_for(len(rows))
    values = list(itertools.chain.from_iterable(rows))
    values += _BLANK * (size - len(rows))
    left: list[Row] = []
    if db.execute(insertion(size, follow), values).rowcount != len(rows):
        found = "SELECT 1 FROM responses WHERE key = ? AND id IS ?"
        left = [row for row in rows if db.execute(found, row[:2]).fetchone() is None]
        rows = [row for row in rows if row not in left]
    names = [value for row in rows for id in _ids(row[_ITEMS]) for value in (id, row[0])]
    for at in range(0, len(names), 2 * MOST):
        some = names[at : at + 2 * MOST]
        size = size_for(len(some) // 2)
        # The last name, repeated, is ignored.
        db.execute(naming(size), some + some[-2:] * (size - len(some) // 2))
    return left


def insert_plain(db: sqlite3.Connection, plans: Sequence[Plan]) -> list[Plan]:
    """Writes plain plans in one statement; returns those that did not get the place they wished for."""
    left = insert(db, [plan.row for plan in plans])
    return [plan for plan in plans if plan.row in left] if left else []


def insert_branch(db: sqlite3.Connection, plan: Plan) -> ItemPosition:
    """Writes a response that begins a chain of its own, with a copy of its context."""
    previous = plan.response.previous
    return _insert_branch(db, plan.row, previous.fragments() if previous else None)


def insert_again(db: sqlite3.Connection, row: Row) -> None:
    """Writes a row that was meant to be written before, if it was not, on what is stored of its beginning."""
    if not insert(db, [row]) or db.execute("SELECT 1 FROM responses WHERE id = ?", (row[1],)).fetchone():
        return
    previous = context(db, row[2], row[-1]) if row[-1] else None
    _insert_branch(db, row, previous.fragments() if previous else None)


def _insert_branch(db: sqlite3.Connection, row: Row, before: Sequence[bytes] | None) -> ItemPosition:
    _, id, tenant, _, _, status, model, created_at, *rest, _ = row
    chain = new_key()
    position = 0 if before is None else 1
    rows: list[Row] = [(chain, id, tenant, chain, position, status, model, created_at, *rest, "")]
    if before is not None:
        # The row that begins a branch: everything said before, in one piece.
        facts = (status, "", created_at, -1, 0, "", "[]", fragment(before))
        rows.insert(0, (new_key(), None, tenant, chain, 0, *facts, b"", None, -1, ""))
    if insert(db, rows):
        raise StoreConflict(f"A response with the id {id!r} is already stored.")
    return ItemPosition(chain, position)


def insert_one(db: sqlite3.Connection, plan: Plan) -> ItemPosition:
    """Writes a response by itself, into its conversation and its chat if it joins them."""
    place = plan.wish
    if not place.position or insert_plain(db, [plan]):
        place = insert_branch(db, plan)
    new = plan.response
    if new.dialect is not None or new.job is not None:
        db.execute("UPDATE responses SET dialect = ?, job = ? WHERE id = ?", (new.dialect, new.job, new.id))
    if new.append is not None:
        carry_out(db, conversations.join(new.tenant, new.id, new.append))
    if new.claim is not None:
        carry_out(db, keep_key(new.claim, new.id))
    if new.chat is not None:
        previous = new.previous.response if new.previous else None
        carry_out(db, chats.join(new.tenant, new.id, previous, new.chat))
    if new.settlements:
        carry_out(db, settlements.add(new.settlements))
    return place


def stored(row: Row) -> StoredResponse:
    id, tenant, status, model, created, expires, background, owner, cancel, last, dialect, attempt, *body = (
        row
    )
    times, running = (created, expires, bool(background)), (owner, bool(cancel), last)
    return StoredResponse(id, tenant, status, model, *times, *running, dialect, whole(*body), attempt)


def get(db: sqlite3.Connection, tenant: str, id: str) -> StoredResponse | None:
    row = db.execute(STORED + "WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    return None if row is None else stored(row)


def context(db: sqlite3.Connection, tenant: str, id: str) -> Context | None:
    """The context of a response. It has no place when it may still change: its continuation copies it."""
    row = db.execute(CONTEXT, (id, tenant)).fetchone()
    if row is None:
        return None
    status, model, created, chain, position, input, output, conversation, start, before = row
    if conversation is not None:
        before = carry_out(db, conversations.beginning(conversation, start))
    final = conversation is None and status not in RUNNING
    place = ItemPosition(chain, position) if final else None
    fragments = ((before,) if before else (), input or b"", output or b"")
    return Context(id, status, *fragments, place, model, created)


def find_items(db: sqlite3.Connection, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for id in ids:
        row = db.execute(ITEM, (id, tenant)).fetchone()
        data = item_in(row, id) if row else carry_out(db, conversations.find_item(tenant, id))
        if data is not None:
            found[id] = data
    return found
