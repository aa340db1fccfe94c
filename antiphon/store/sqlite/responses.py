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

from antiphon.spec.limits import LARGE
from antiphon.spec.random_numbers import random_numbers
from antiphon.store import base
from antiphon.store.bodies import BODY, cut_output, find_item, restore_body
from antiphon.store.records import chats, conversations, settlements
from antiphon.store.records.short_lived import keep_key
from antiphon.store.sqlite.backend import carry_out

Row = tuple[Any, ...]

COLUMNS = (
    "key, id, tenant, chain, position, status, model, created_at, expires_at, background, owner, "
    "items, input, output, body, spliced"
)
# The same columns, with the values that stand for NULL in a row.
VALUES = (
    "key, id, tenant, chain, position, status, model, created_at, nullif(expires_at, -1), background, "
    "nullif(owner, ''), items, nullif(input, x''), nullif(output, x''), body, nullif(spliced, -1)"
)
_ITEMS = COLUMNS.split(", ").index("items")
_INPUT = COLUMNS.split(", ").index("input")
_OUTPUT = COLUMNS.split(", ").index("output")
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
    """Makes a row key without a query; keys grow with time, so that rows are appended."""
    return (time.time_ns() // 1000) << 10 | random_numbers.getrandbits(10)


_encode = msgspec.json.Encoder().encode
_ids = msgspec.json.Decoder(list[str]).decode


def encode_ids(ids: Sequence[str]) -> str:
    return _encode(ids).decode()


class Plan(Struct, frozen=True, gc=False):
    """A response ready to be written, with everything that is computed before the transaction.

    `wanted_place` is right after the previous response; if that place is taken, the response begins a branch.
    """

    response: base.NewResponse
    wanted_place: base.ItemPosition
    row: Row


def plan(new: base.NewResponse) -> Plan:
    key, previous, output = new_key(), new.previous, new.output
    if previous is None or previous.place is None:
        place, follows = base.ItemPosition(key, 0), ""
    else:
        place = base.ItemPosition(previous.place.chain, previous.place.position + 1)
        follows = previous.response
    body, spliced = cut_output(new.body, output, new.lacks_output)
    row = (
        key,
        new.id,
        new.tenant,
        place.chain,
        place.position,
        new.status,
        new.model,
        new.created_at,
        -1 if new.expires_at is None else new.expires_at,
        1 if new.background else 0,
        new.owner or "",
        _encode(new.names).decode(),
        _to_bindable(new.input),
        _to_bindable(output),
        body,
        spliced,
        follows,
    )
    return Plan(new, place, row)


def _to_bindable(data: bytes) -> bytes | bytearray:
    """Converts bytes to a type that needs no adapter, unless copying them would take longer than the
    adapter.
    """
    return data if len(data) > LARGE else bytearray(data)


def size_for(count: int) -> int:
    return next(size for size in SIZES if size >= count)


@cache
def insert_statement(rows: int, follow: bool) -> str:
    """Returns the statement that inserts rows; it skips blank rows.

    With `follow` it inserts a row that follows another only while that one is still in its place. SQLite then
    copies all rows first, so this is only for groups in which a row follows another.
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
def name_items_statement(items: int) -> str:
    values = ", ".join(["(?, ?)"] * items)
    return f"INSERT OR IGNORE INTO items (id, response) VALUES {values}"


def insert(db: sqlite3.Connection, rows: Sequence[Row]) -> list[Row]:
    """Inserts rows and the ids of their items; returns the rows that did not get their place."""
    follow = any(row[-1] for row in rows)
    size = size_for(len(rows))
    values = list(itertools.chain.from_iterable(rows))
    values += _BLANK * (size - len(rows))
    left: list[Row] = []
    inserted = db.execute(insert_statement(size, follow), values).rowcount
    if any(len(row[_INPUT]) + len(row[_OUTPUT]) > LARGE for row in rows):
        db.execute(insert_statement(size, follow), _BLANK * size)  # or it keeps its copy of the values
    if inserted != len(rows):
        found = "SELECT 1 FROM responses WHERE key = ? AND id IS ?"
        left = [row for row in rows if db.execute(found, row[:2]).fetchone() is None]
        rows = [row for row in rows if row not in left]
    names = [value for row in rows for id in _ids(row[_ITEMS]) for value in (id, row[0])]
    for at in range(0, len(names), 2 * MOST):
        some = names[at : at + 2 * MOST]
        size = size_for(len(some) // 2)
        # The statement ignores the repeated last id.
        db.execute(name_items_statement(size), some + some[-2:] * (size - len(some) // 2))
    return left


def insert_plain(db: sqlite3.Connection, plans: Sequence[Plan]) -> list[Plan]:
    """Inserts plain plans with one statement; returns the plans that did not get the place they want."""
    left = insert(db, [plan.row for plan in plans])
    return [plan for plan in plans if plan.row in left] if left else []


def insert_branch(db: sqlite3.Connection, plan: Plan) -> base.ItemPosition:
    """Inserts a response that begins a chain of its own, with a copy of its context."""
    previous = plan.response.previous
    return _insert_branch(db, plan.row, previous.fragments() if previous else None)


def insert_again(db: sqlite3.Connection, row: Row) -> None:
    """Inserts a row of a journal, if it is not stored yet, on the context that is stored now."""
    if not insert(db, [row]) or db.execute("SELECT 1 FROM responses WHERE id = ?", (row[1],)).fetchone():
        return
    previous = context(db, row[2], row[-1]) if row[-1] else None
    _insert_branch(db, row, previous.fragments() if previous else None)


def _insert_branch(db: sqlite3.Connection, row: Row, before: Sequence[bytes] | None) -> base.ItemPosition:
    _, id, tenant, _, _, status, model, created_at, *rest, _ = row
    chain = new_key()
    position = 0 if before is None else 1
    rows: list[Row] = [(chain, id, tenant, chain, position, status, model, created_at, *rest, "")]
    if before is not None:
        # The row that begins a branch: the whole context before it, as one fragment.
        facts = (status, "", created_at, -1, 0, "", "[]", base.fragment(before))
        rows.insert(0, (new_key(), None, tenant, chain, 0, *facts, b"", None, -1, ""))
    if insert(db, rows):
        raise base.StoreConflict(f"A response with the id {id!r} is already stored.")
    return base.ItemPosition(chain, position)


def insert_one(db: sqlite3.Connection, plan: Plan) -> base.ItemPosition:
    """Inserts one response, and adds it to its conversation and its chat, if it has them."""
    place = plan.wanted_place
    if not place.position or insert_plain(db, [plan]):
        place = insert_branch(db, plan)
    new = plan.response
    if new.dialect is not None or new.job is not None:
        db.execute("UPDATE responses SET dialect = ?, job = ? WHERE id = ?", (new.dialect, new.job, new.id))
    if new.append is not None:
        carry_out(db, conversations.add_response(new.tenant, new.id, new.append))
    if new.claim is not None:
        carry_out(db, keep_key(new.claim, new.id))
    if new.chat is not None:
        previous = new.previous.response if new.previous else None
        carry_out(db, chats.add_response(new.tenant, new.id, previous, new.chat))
    if new.settlements:
        carry_out(db, settlements.add(new.settlements))
    return place


def to_stored_response(row: Row) -> base.StoredResponse:
    id, tenant, status, model, created, expires, background, owner, cancel, last, dialect, attempt, *body = (
        row
    )
    times, running = (created, expires, bool(background)), (owner, bool(cancel), last)
    return base.StoredResponse(
        id, tenant, status, model, *times, *running, dialect, restore_body(*body), attempt
    )


def get(db: sqlite3.Connection, tenant: str, id: str) -> base.StoredResponse | None:
    row = db.execute(STORED + "WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    return None if row is None else to_stored_response(row)


def context(db: sqlite3.Connection, tenant: str, id: str) -> base.Context | None:
    """Reads the context of a response. A context that may still change has no place: a continuation copies
    it.
    """
    row = db.execute(CONTEXT, (id, tenant)).fetchone()
    if row is None:
        return None
    status, model, created, chain, position, input, output, conversation, start, before = row
    if conversation is not None:
        before = carry_out(db, conversations.read_beginning(conversation, start))
    final = conversation is None and status not in base.RUNNING
    place = base.ItemPosition(chain, position) if final else None
    fragments = ((before,) if before else (), input or b"", output or b"")
    return base.Context(id, status, *fragments, place, model, created)


def find_items(db: sqlite3.Connection, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for id in ids:
        row = db.execute(ITEM, (id, tenant)).fetchone()
        data = find_item(row, id) if row else carry_out(db, conversations.find_item(tenant, id))
        if data is not None:
            found[id] = data
    return found
