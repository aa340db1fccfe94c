"""The SQL of background responses: changes of state, their jobs, cancelling."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.base import RUNNING, Change, StoreConflict, StoredResponse, fragment
from antiphon.store.bodies import cut_output, read_item_ids
from antiphon.store.postgres import responses
from antiphon.store.postgres.backend import carry_out
from antiphon.store.postgres.connection import Connection, execute, one
from antiphon.store.postgres.event_log import join_events
from antiphon.store.records import chats, conversations, settlements

# A terminal response has no owner, so a row with this owner is running.
MINE = """
    SELECT key, tenant, input, items, chat FROM responses
    WHERE id = %s AND owner = %s AND attempt = %s FOR NO KEY UPDATE
"""
CHANGE = """
    UPDATE responses SET status = %s, owner = %s, body = %b, spliced = %s,
        output = CASE WHEN %s THEN %b::bytea ELSE output END, items = %s,
        job = CASE WHEN %s THEN coalesce(%b, job) END
    WHERE key = %s
"""
UNNAME = "DELETE FROM items WHERE response = %s AND id = ANY(%s)"
NAME = "INSERT INTO items (id, response) SELECT unnest(%s::text[]), %s ON CONFLICT DO NOTHING"
LOG_HELD = "INSERT INTO events (response, seq, last, data) VALUES (%s, %s, %s, %b) ON CONFLICT DO NOTHING"
WAS_CHANGED = """
    SELECT 1 FROM responses WHERE id = %s AND status = %s AND body = %b AND owner IS NOT DISTINCT FROM %s
    AND attempt = %s
"""


async def update(db: Connection, change: Change) -> bool:
    row = await one(db, MINE, (change.id, change.owner, change.attempt))
    if row is None:
        return False
    key, tenant, input, items, chat = row
    output = fragment([item.data for item in change.output or ()])
    body, spliced = cut_output(change.body, output)
    names = items
    if change.output is not None:
        given = read_item_ids(input) + [item.id for item in change.output if item.id is not None]
        names = list(dict.fromkeys(given))
        await execute(db, UNNAME, (key, [id for id in items if id not in names]))
        await execute(db, NAME, (names, key))
    is_running = change.status in RUNNING
    owner = change.owner if is_running else None
    at = None if spliced < 0 else spliced
    replaces = change.output is not None
    changed = (change.status, owner, bytes(body), at, replaces, output or None, names)
    await execute(db, CHANGE, (*changed, is_running, change.job, key))
    await log(db, key, change.first_event, change.events)
    if change.append is not None:
        await carry_out(db, conversations.add_response(tenant, change.id, change.append))
    if chat is not None and not is_running:
        await carry_out(db, chats.end_response(chat, tenant, change.id, change.at))
    if change.settlements:
        await carry_out(db, settlements.add(change.settlements))
    return True


async def log(db: Connection, key: int, first: int, events: Sequence[bytes]) -> None:
    """Logs events of a response whose row this transaction has locked."""
    if events and not await execute(db, LOG_HELD, (key, first, first + len(events) - 1, join_events(events))):
        raise StoreConflict(f"An event numbered {first} is already logged.")


async def append_events(
    db: Connection, id: str, owner: str, first: int, events: Sequence[bytes], attempt: int, job: bytes
) -> bool:
    """Logs events and replaces the job, in one transaction."""
    row = await one(db, MINE, (id, owner, attempt))
    if row is None:
        return False
    await log(db, row[0], first, events)
    await execute(db, "UPDATE responses SET job = %b WHERE key = %s", (job, row[0]))
    return True


async def is_job_replaced(db: Connection, id: str, attempt: int, job: bytes) -> bool | None:
    """Is this the stored job of the response? Asked when the answer to the COMMIT was lost; None for no."""
    found = await one(
        db, "SELECT 1 FROM responses WHERE id = %s AND attempt = %s AND job = %b", (id, attempt, job)
    )
    return True if found is not None else None


async def job(db: Connection, tenant: str, id: str) -> bytes | None:
    row = await one(db, "SELECT job FROM responses WHERE id = %s AND tenant = %s", (id, tenant))
    return None if row is None else row[0]


async def is_change_written(db: Connection, change: Change) -> bool | None:
    """Has this change been written? Asked when the answer to the COMMIT was lost; None for no."""
    body, _ = cut_output(change.body, fragment([item.data for item in change.output or ()]))
    owner = change.owner if change.status in RUNNING else None
    found = await one(db, WAS_CHANGED, (change.id, change.status, bytes(body), owner, change.attempt))
    return True if found is not None else None


async def request_cancel(db: Connection, tenant: str, id: str) -> StoredResponse | None:
    await execute(
        db,
        "UPDATE responses SET cancel_requested = true WHERE id = %s AND tenant = %s AND owner IS NOT NULL",
        (id, tenant),
    )
    return await responses.get(db, tenant, id)
