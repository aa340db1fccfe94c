"""The SQL of event logs: batches of events, each written only in the attempt that its response is in.

The statement locks the row of the response FOR SHARE: a process that takes the response over waits until the
batch is written, and a later batch finds another attempt. FOR KEY SHARE is not enough, since it lets the row
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import AsyncCursor

from antiphon.store.base import LoggedEvent
from antiphon.store.postgres.connection import Connection, Row, ask, one, rows

LOG_BATCHES = """
    WITH mine AS MATERIALIZED (
        SELECT responses.key, given.*
        FROM unnest(%s::text[], %s::text[], %s::int4[], %s::int8[], %s::int8[], %b::bytea[])
            WITH ORDINALITY AS given (id, owner, attempt, first, last, data, n)
        JOIN responses ON responses.id = given.id
            AND responses.owner = given.owner AND responses.attempt = given.attempt
        ORDER BY responses.key, given.n FOR SHARE OF responses
    ), logged AS (
        INSERT INTO events (response, seq, last, data) SELECT key, first, last, data FROM mine
    )
    SELECT n FROM mine
"""
IS_LOGGED = """
    SELECT 1 FROM events JOIN responses ON responses.key = events.response
    WHERE events.seq = %s AND events.last = %s AND events.data = %b AND responses.id = %s
"""
# From the batch that has the first event.
AFTER = """
    SELECT seq, data FROM events WHERE response = %(key)s AND seq >= coalesce(
        (SELECT max(seq) FROM events WHERE response = %(key)s AND seq <= %(first)s), 0)
    ORDER BY seq LIMIT %(batches)s
"""
BATCHES = 100


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events, one line each, of a response that runs in this attempt."""

    id: str
    owner: str
    attempt: int
    first: int
    last: int
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


def event_batch(id: str, owner: str, attempt: int, first: int, events: Sequence[bytes]) -> EventBatch:
    return EventBatch(id, owner, attempt, first, first + len(events) - 1, join_events(events))


def join_events(events: Sequence[bytes]) -> bytes:
    data = b"\n".join(events)
    if data.count(b"\n") != len(events) - 1:
        raise ValueError("an event must be one line of JSON")
    return data


async def begin_log(db: Connection, batches: Sequence[EventBatch]) -> AsyncCursor[Row] | None:
    if not batches:
        return None
    columns = [(one.id, one.owner, one.attempt, one.first, one.last, one.data) for one in batches]
    return await ask(db, LOG_BATCHES, [list(column) for column in zip(*columns, strict=True)])


async def read_logged(cursor: AsyncCursor[Row] | None) -> set[int]:
    """Returns the numbers of the batches that were written."""
    return set() if cursor is None else {int(n) - 1 for (n,) in await cursor.fetchall()}


async def after(db: Connection, tenant: str, id: str, after: int, limit: int) -> list[LoggedEvent] | None:
    found = await one(db, "SELECT key FROM responses WHERE id = %s AND tenant = %s", (id, tenant))
    if found is None:
        return None
    events: list[LoggedEvent] = []
    while len(events) < limit:
        start = events[-1].sequence if events else after
        batches = await rows(db, AFTER, {"key": found[0], "first": start + 1, "batches": BATCHES})
        for seq, data in batches:
            lines = enumerate(data.split(b"\n"), seq)
            events += [LoggedEvent(number, line) for number, line in lines if number > start]
        if len(batches) < BATCHES:
            break
    return events[:limit]
