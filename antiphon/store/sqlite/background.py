"""The SQL of background responses: owners and heartbeats, changes of state, cancellation, the event log."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from antiphon.store.base import RUNNING, Change, LoggedEvent, StoreConflict, StoredResponse, fragment
from antiphon.store.bodies import cut_output, read_item_ids
from antiphon.store.records import chats, conversations, settlements
from antiphon.store.sqlite import responses
from antiphon.store.sqlite.backend import carry_out

# A terminal response has no owner, so a row with this owner is running.
MINE = "SELECT key, tenant, input, chat FROM responses WHERE id = ? AND owner = ? AND attempt = ?"


def log(db: sqlite3.Connection, key: int, first: int, events: Sequence[bytes]) -> None:
    if not events:
        return
    data = b"\n".join(events)
    if data.count(b"\n") != len(events) - 1:
        raise ValueError("an event must be one line of JSON")
    try:
        db.execute(
            "INSERT INTO events (response, seq, last, data) VALUES (?, ?, ?, ?)",
            (key, first, first + len(events) - 1, data),
        )
    except sqlite3.IntegrityError:
        raise StoreConflict(f"An event numbered {first} is already logged.") from None


def append_events(
    db: sqlite3.Connection,
    id: str,
    owner: str,
    first: int,
    events: Sequence[bytes],
    attempt: int,
    job: bytes | None,
) -> bool:
    row = db.execute(MINE, (id, owner, attempt)).fetchone()
    if row is None:
        return False
    log(db, row[0], first, events)
    if job is not None:
        db.execute("UPDATE responses SET job = ? WHERE key = ?", (job, row[0]))
    return True


def job(db: sqlite3.Connection, tenant: str, id: str) -> bytes | None:
    row = db.execute("SELECT job FROM responses WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    return None if row is None else row[0]


def events_after(
    db: sqlite3.Connection, tenant: str, id: str, after: int, limit: int
) -> list[LoggedEvent] | None:
    row = db.execute("SELECT key FROM responses WHERE id = ? AND tenant = ?", (id, tenant)).fetchone()
    if row is None:
        return None
    (key,) = row
    rows = db.execute(
        "SELECT seq, data FROM events WHERE response = ? AND seq >= coalesce("
        "(SELECT max(seq) FROM events WHERE response = ? AND seq <= ?), 0) ORDER BY seq",
        (key, key, after + 1),
    )
    events: list[LoggedEvent] = []
    for seq, data in rows:
        lines = enumerate(data.split(b"\n"), seq)
        events += [LoggedEvent(number, line) for number, line in lines if number > after]
        if len(events) >= limit:
            break
    rows.close()
    return events[:limit]


def update(db: sqlite3.Connection, change: Change) -> bool:
    row = db.execute(MINE, (change.id, change.owner, change.attempt)).fetchone()
    if row is None:
        return False
    key, tenant, input, chat = row
    output = fragment([item.data for item in change.output or ()])
    body, spliced = cut_output(change.body, output)
    if change.output is not None:
        names = read_item_ids(input) + [item.id for item in change.output if item.id is not None]
        db.execute(
            "UPDATE responses SET output = ?, items = ? WHERE key = ?",
            (output or None, responses.encode_ids(names), key),
        )
    is_running = change.status in RUNNING
    db.execute(
        "UPDATE responses SET status = ?, owner = ?, body = ?, spliced = nullif(?, -1), "
        "job = CASE WHEN ? THEN coalesce(?, job) END WHERE key = ?",
        (change.status, change.owner if is_running else None, body, spliced, is_running, change.job, key),
    )
    log(db, key, change.first_event, change.events)
    if change.append is not None:
        carry_out(db, conversations.add_response(tenant, change.id, change.append))
    if chat is not None and not is_running:
        carry_out(db, chats.end_response(chat, tenant, change.id, change.at))
    if change.settlements:
        carry_out(db, settlements.add(change.settlements))
    return True


def request_cancel(db: sqlite3.Connection, tenant: str, id: str) -> StoredResponse | None:
    db.execute(
        "UPDATE responses SET cancel_requested = 1 WHERE id = ? AND tenant = ? AND owner IS NOT NULL",
        (id, tenant),
    )
    return responses.get(db, tenant, id)


def heartbeat(db: sqlite3.Connection, owner: str, now: float) -> list[str]:
    db.execute("INSERT OR REPLACE INTO owners (id, heartbeat) VALUES (?, ?)", (owner, now))
    rows = db.execute("SELECT id FROM responses WHERE owner = ? AND cancel_requested ORDER BY key", (owner,))
    return [id for (id,) in rows.fetchall()]


def claim_orphans(db: sqlite3.Connection, me: str, now: float, stale_before: float) -> list[StoredResponse]:
    heartbeat(db, me, now)
    db.execute("DELETE FROM owners WHERE heartbeat < ? AND id != ?", (stale_before, me))
    orphaned = "owner IS NOT NULL AND owner NOT IN (SELECT id FROM owners)"
    keys = [
        key for (key,) in db.execute(f"SELECT key FROM responses WHERE {orphaned} ORDER BY key").fetchall()
    ]
    db.execute(f"UPDATE responses SET owner = ?, attempt = attempt + 1 WHERE {orphaned}", (me,))
    return [
        responses.to_stored_response(db.execute(responses.STORED + "WHERE key = ?", (key,)).fetchone())
        for key in keys
    ]


def release(db: sqlite3.Connection, owner: str) -> None:
    db.execute("DELETE FROM owners WHERE id = ?", (owner,))
