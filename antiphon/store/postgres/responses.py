"""The SQL of responses: storing them in chains, and reading one, its context and its items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from psycopg import AsyncCursor

from antiphon.store import base
from antiphon.store.bodies import BODY, cut_output, find_item, restore_body
from antiphon.store.postgres.backend import carry_out
from antiphon.store.postgres.connection import Connection, Row, ask, execute, one, replace_nul, rows
from antiphon.store.records import chats, conversations, settlements
from antiphon.store.records.short_lived import keep_key

# Inserts rows with one statement. A row that follows another is inserted only while that one is in its place,
# and locks it there meanwhile: otherwise the other row could be removed with the context that this one needs.
SAVE = """
    WITH new AS MATERIALIZED (
        SELECT nextval('responses_key_seq') AS key, given.*
        FROM unnest(
            %s::text[], %s::text[], %s::int8[], %s::int4[], %s::text[], %s::text[], %s::int8[], %s::int8[],
            %s::bool[], %s::text[], %s::text[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[],
            %s::int4[], %s::text[])
            WITH ORDINALITY AS given (
                id, tenant, chain, position, status, model, created_at, expires_at,
                background, owner, dialect, job, input, output, body,
                spliced, follows, n)
    ), parents AS MATERIALIZED (
        SELECT new.n FROM responses AS parent JOIN new ON parent.id = new.follows
            AND parent.tenant = new.tenant AND parent.chain = new.chain AND parent.position = new.position - 1
        ORDER BY parent.key FOR KEY SHARE OF parent
    ), names AS MATERIALIZED (
        SELECT n, id FROM unnest(%s::int8[], %s::text[]) AS given (n, id)
    ), made AS (
        INSERT INTO responses (
            key, id, tenant, chain, position, status, model, created_at, expires_at,
            background, owner, dialect, job, input, output, body, spliced, items)
        SELECT key, id, tenant, coalesce(chain, key), position, status, model, created_at, expires_at,
            background, owner, dialect, job, input, output, body, spliced,
            coalesce((SELECT array_agg(names.id) FROM names WHERE names.n = new.n), '{}')
        FROM new WHERE follows IS NULL OR n IN (SELECT n FROM parents)
        ORDER BY n ON CONFLICT DO NOTHING RETURNING key, chain, position
    ), named AS (
        INSERT INTO items (id, response)
        SELECT DISTINCT names.id, made.key
        FROM made JOIN new ON new.key = made.key JOIN names ON names.n = new.n
        ON CONFLICT DO NOTHING
    )
    SELECT new.n, made.chain, made.position FROM made JOIN new ON new.key = made.key
"""
# The row that begins a branch: the whole context before it, as one fragment.
BEGINNING = """
    INSERT INTO responses (tenant, chain, position, status, model, created_at, background, input)
    VALUES (%s, %s, 0, %s, '', %s, false, %b)
"""

# A turn as one fragment; NULL is the empty fragment.
TURN = """
    CASE WHEN input IS NULL THEN output WHEN output IS NULL THEN input ELSE input || ','::bytea || output END
"""

STORED = f"""
    SELECT id, tenant, status, model, created_at, expires_at, background, owner, cancel_requested,
           (SELECT last FROM events WHERE response = responses.key ORDER BY seq DESC LIMIT 1), dialect,
           attempt, {BODY}
    FROM responses
"""

# One row whatever the length of the chain.
CONTEXT = f"""
    SELECT status, model, created_at, chain, position, input, output, conversation, conversation_from,
           (SELECT string_agg({TURN}, ','::bytea ORDER BY earlier.position) FROM responses AS earlier
            WHERE earlier.chain = responses.chain AND earlier.position < responses.position)
    FROM responses WHERE id = %s AND tenant = %s
"""
PLACE = "SELECT status, chain, position, conversation FROM responses WHERE id = %s AND tenant = %s"

ITEMS = """
    SELECT DISTINCT ON (items.id) items.id, input, output
    FROM items JOIN responses ON responses.key = items.response
    WHERE items.id = ANY(%s) AND tenant = %s ORDER BY items.id, items.response DESC
"""


class PostgresPlan(Struct, frozen=True, gc=False):
    """A response ready to be written, with everything that is computed before the transaction.

    Without a chain it begins one. `follows` is the id of the response that must still be in its place.
    """

    response: base.NewResponse
    chain: int | None
    position: int
    follows: str | None

    @property
    def size(self) -> int:
        new = self.response
        return len(new.input) + len(new.output) + len(new.body)


def plan(new: base.NewResponse) -> PostgresPlan:
    previous = new.previous
    if previous is None or previous.place is None:
        return PostgresPlan(new, None, 0, None)
    return PostgresPlan(new, previous.place.chain, previous.place.position + 1, previous.response)


def _row(plan: PostgresPlan) -> Row:
    new = plan.response
    body, spliced = cut_output(new.body, new.output, new.lacks_output)
    return (
        new.id,
        new.tenant,
        plan.chain,
        plan.position,
        new.status,
        new.model,
        new.created_at,
        new.expires_at,
        new.background,
        new.owner,
        new.dialect,
        new.job,
        new.input or None,
        new.output or None,
        bytes(body),
        None if spliced < 0 else spliced,
        plan.follows,
    )


async def begin_insert(db: Connection, plans: Sequence[PostgresPlan]) -> AsyncCursor[Row] | None:
    """Begins to insert responses and the ids of their items; skips responses that do not get their place."""
    if not plans:
        return None
    columns = [list(column) for column in zip(*map(_row, plans), strict=True)]
    names = [(n, id) for n, plan in enumerate(plans, 1) for id in dict.fromkeys(plan.response.names)]
    return await ask(db, SAVE, [*columns, [n for n, _ in names], [id for _, id in names]])


async def read_places(cursor: AsyncCursor[Row] | None) -> dict[int, base.ItemPosition]:
    """Returns the places of the inserted responses, by their numbers in the statement."""
    if cursor is None:
        return {}
    return {int(n) - 1: base.ItemPosition(chain, position) for n, chain, position in await cursor.fetchall()}


async def insert_branch(db: Connection, plan: PostgresPlan) -> base.ItemPosition:
    """Inserts a response that begins a chain of its own, with a copy of its context."""
    new, previous = plan.response, plan.response.previous
    alone = PostgresPlan(new, None, 0 if previous is None else 1, None)
    found = await read_places(await begin_insert(db, [alone]))
    if not found:
        raise base.StoreConflict(f"A response with the id {new.id!r} is already stored.")
    if previous is not None:
        before = base.fragment(previous.fragments()) or None
        await execute(db, BEGINNING, (new.tenant, found[0].chain, new.status, new.created_at, before))
    return found[0]


async def insert(db: Connection, plan: PostgresPlan) -> base.ItemPosition:
    """Inserts one response, and adds it to its conversation and its chat, if it has them."""
    # A response without a chain that follows another has a context to copy.
    is_branch = plan.chain is None and plan.response.previous is not None
    found = {} if is_branch else await read_places(await begin_insert(db, [plan]))
    place = found[0] if found else await insert_branch(db, plan)
    new = plan.response
    if new.append is not None:
        await carry_out(db, conversations.add_response(new.tenant, new.id, new.append))
    if new.claim is not None:
        await carry_out(db, keep_key(new.claim, new.id))
    if new.chat is not None:
        previous = new.previous.response if new.previous else None
        await carry_out(db, chats.add_response(new.tenant, new.id, previous, new.chat))
    if new.settlements:
        await carry_out(db, settlements.add(new.settlements))
    return place


async def is_stored(db: Connection, tenant: str, id: str) -> bool:
    return await one(db, "SELECT 1 FROM responses WHERE id = %s AND tenant = %s", (id, tenant)) is not None


def to_stored_response(row: Row) -> base.StoredResponse:
    id, tenant, status, model, created, expires, background, owner, cancel, last, *rest = row
    dialect, attempt, *body = rest
    times, running = (created, expires, background), (owner, cancel, last)
    return base.StoredResponse(
        id, tenant, status, model, *times, *running, dialect, restore_body(*body), attempt
    )


async def get(db: Connection, tenant: str, id: str) -> base.StoredResponse | None:
    row = await one(db, STORED + "WHERE id = %s AND tenant = %s", (id, tenant))
    return None if row is None else to_stored_response(row)


async def context(db: Connection, tenant: str, id: str) -> base.Context | None:
    """Reads the context of a response. A context that may still change has no place: a continuation copies
    it.
    """
    row = await one(db, CONTEXT, (id, tenant))
    if row is None:
        return None
    status, model, created, chain, position, input, output, conversation, start, before = row
    if conversation is not None:
        before = await carry_out(db, conversations.read_beginning(conversation, start))
    final = conversation is None and status not in base.RUNNING
    place = base.ItemPosition(chain, position) if final else None
    fragments = ((before,) if before else (), input or b"", output or b"")
    return base.Context(id, status, *fragments, place, model, created)


async def is_unchanged(db: Connection, tenant: str, known: base.Context) -> bool:
    """Is this response still stored as it was read? A response that has ended does not change any more."""
    row = await one(db, PLACE, (known.response, tenant))
    place = known.place
    return row is not None and place is not None and row == (known.status, place.chain, place.position, None)


async def find_items(db: Connection, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    wanted = list(dict.fromkeys(ids))
    by_id: dict[str, Any] = {id: parts for id, *parts in await rows(db, ITEMS, (wanted, tenant))}
    for id in wanted:
        parts = by_id.get(replace_nul(id))
        data = find_item(parts, id) if parts else await carry_out(db, conversations.find_item(tenant, id))
        if data is not None:
            found[id] = data
    return found
