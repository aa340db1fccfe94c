"""Deletion of responses, removal of everything that has expired, and the export."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from antiphon.store.bodies import BODY, restore_body
from antiphon.store.records import chats, conversations, files
from antiphon.store.records.short_lived import prune_shared
from antiphon.store.statements import StatementRow, Steps, execute, get_backend, key_of, one, rows

log = logging.getLogger(__name__)

HOUR = 3600.0
PORTION = 200
"""The number of long expired objects that are removed at a time, or a hundredth of all, if that is more."""

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
BATCH = 200
EXPIRED = "expires_at > ? AND expires_at <= ? LIMIT ? FOR UPDATE SKIP LOCKED"
DELETED_WHOLE: dict[str, Callable[[str, str], Steps[bool]]] = {
    "conversations": conversations.delete,
    "vector_stores": files.delete_vector_store,
    "files": files.delete_file,
}
"""Tables whose rows are deleted together with rows of others."""
DELETED_ALONE = {"approvals": "tenant, id", "sessions": "digest", "idempotency_keys": "tenant, key"}
"""Tables of which only the row itself is deleted, and the columns that identify it."""
IDLE_CHATS = """
    SELECT key FROM chats WHERE expires_at > ? AND expires_at <= ? AND NOT EXISTS (
        SELECT 1 FROM responses WHERE responses.chat = chats.key AND owner IS NOT NULL)
    LIMIT ? FOR UPDATE SKIP LOCKED
"""
PAGE = "key > ? AND (CAST(? AS TEXT) IS NULL OR tenant = ?) ORDER BY key LIMIT ?"
RESPONSES = f"""
    SELECT key, tenant, id, status, model, created_at, expires_at, background, input, {BODY}
    FROM responses WHERE id IS NOT NULL AND {PAGE}
"""
CONVERSATIONS = f"""
    SELECT key, tenant, id, created_at, expires_at, metadata FROM conversations WHERE {PAGE}
"""
CHATS = f"""
    SELECT key, tenant, id, title, current, pinned, created_at, updated_at, expires_at FROM chats WHERE {PAGE}
"""
TREE = "SELECT id, previous FROM responses WHERE chat = ? ORDER BY key"
COUNTS = """
    SELECT (SELECT count(id) FROM responses), (SELECT count(*) FROM conversations),
        (SELECT coalesce(sum(last - seq + 1), 0)::int8 FROM events), (SELECT count(*) FROM chats)
"""

ExportPage = tuple[int, list[bytes]]
"""The key to continue after, and some objects as lines of JSON."""


def delete(tenant: str, id: str) -> Steps[bool]:
    row = yield from one("SELECT key, chain FROM responses WHERE id = ? AND tenant = ?", id, tenant)
    if row is None:
        return False
    yield from chats.remove_from_chat(tenant, id)
    return bool((yield from _remove([row])))


def delete_chat(tenant: str, id: str) -> Steps[bool]:
    key = yield from key_of("chats", tenant, id, lock=True)
    if key is None:
        return False
    yield from _remove((yield from rows("SELECT key, chain FROM responses WHERE chat = ?", key)))
    yield from _drop_chat(key)
    return True


def prune(since: float, until: float, at_once: int = BATCH) -> Steps[int]:
    """Removes some of what expired in this time; returns 0 when nothing is left. Running responses stay."""
    given = (since, until, at_once)
    doomed = yield from rows(f"SELECT key, chain FROM responses WHERE owner IS NULL AND {EXPIRED}", *given)
    gone = yield from _remove(doomed)
    gone += (yield from _prune_chats(*given)) + (yield from prune_shared(until))
    for table, columns in DELETED_ALONE.items():
        expired = f"SELECT {columns} FROM {table} WHERE {EXPIRED}"
        gone += yield from execute(f"DELETE FROM {table} WHERE ({columns}) IN ({expired})", *given)
    for table, delete_whole in DELETED_WHOLE.items():
        named = yield from rows(f"SELECT tenant, id FROM {table} WHERE {EXPIRED}", *given)
        for tenant, id in named:
            yield from delete_whole(tenant, id)
        gone += len(named)
    return gone


def _remove(doomed: Sequence[StatementRow]) -> Steps[int]:
    if not doomed:
        return 0
    return (yield from (yield from get_backend()).remove_responses(doomed))


def _prune_chats(since: float, until: float, at_once: int) -> Steps[int]:
    """Removes expired chats after their responses; a chat with a running response stays whole."""
    expired = [key for (key,) in (yield from rows(IDLE_CHATS, since, until, at_once))]
    if not expired:
        return 0
    of_chats = "SELECT key, chain FROM responses WHERE chat = ANY(?) LIMIT ?"
    if doomed := (yield from rows(of_chats, expired, at_once)):
        return (yield from _remove(doomed))
    for key in expired:
        yield from _drop_chat(key)
    return len(expired)


def _drop_chat(key: int) -> Steps[None]:
    yield from (yield from get_backend()).remove_texts([-key])
    yield from execute("DELETE FROM chats WHERE key = ?", key)


def count_stored() -> Steps[int]:
    """Estimates the number of responses."""
    found = yield from one("SELECT (SELECT max(key) FROM responses) - (SELECT min(key) FROM responses)")
    return int(found[0] or 0) if found else 0


def export_responses(tenant: str | None, after: int) -> Steps[ExportPage]:
    found = yield from rows(RESPONSES, after, tenant, tenant, BATCH)
    return _last_key(found, after), [_response_line(row) for _, *row in found]


def export_conversations(tenant: str | None, after: int) -> Steps[ExportPage]:
    found = yield from rows(CONVERSATIONS, after, tenant, tenant, BATCH)
    lines: list[bytes] = []
    for key, *row in found:
        lines.append(_conversation_line(row, (yield from conversations.read_beginning(key)) or b""))
    return _last_key(found, after), lines


def export_chats(tenant: str | None, after: int) -> Steps[ExportPage]:
    found = yield from rows(CHATS, after, tenant, tenant, BATCH)
    lines: list[bytes] = []
    for key, *row in found:
        lines.append(_chat_line(row, (yield from rows(TREE, key))))
    return _last_key(found, after), lines


def _last_key(found: Sequence[StatementRow], after: int) -> int:
    return int(found[-1][0]) if found else after


def _response_line(row: Sequence[Any]) -> bytes:
    """Encodes a response; its row ends with the columns for `restore_body`."""
    tenant, id, status, model, created, expires, background, input, *body = row
    facts = {"type": "response", "tenant": tenant, "id": id, "status": status, "model": model}
    times = {"created_at": created, "expires_at": expires, "background": bool(background)}
    raw = {"input": msgspec.Raw(b"[" + (input or b"") + b"]"), "body": msgspec.Raw(restore_body(*body))}
    return _line(facts | times | raw)


def _conversation_line(row: Sequence[Any], items: bytes) -> bytes:
    tenant, id, created, expires, metadata = row
    facts = {"type": "conversation", "tenant": tenant, "id": id, "created_at": created, "expires_at": expires}
    return _line(facts | {"metadata": msgspec.Raw(metadata), "items": msgspec.Raw(b"[" + items + b"]")})


def _chat_line(row: Sequence[Any], tree: Sequence[tuple[Any, ...]]) -> bytes:
    """Encodes a chat with the tree of its responses, each with the id of the one that it continues."""
    tenant, id, title, current, pinned, created, updated, expires = row
    facts = {"type": "chat", "tenant": tenant, "id": id, "title": title, "current": current}
    times = {"created_at": created, "updated_at": int(updated), "expires_at": expires}
    nodes = [{"id": node, "previous_response_id": previous} for node, previous in tree]
    return _line(facts | times | {"pinned": bool(pinned), "responses": nodes})


def _line(data: object) -> bytes:
    return msgspec.json.encode(data).replace(b"\n", b" ") + b"\n"


def steady_time() -> float:
    """Returns the seconds since this machine has started, also while it slept; independent of the clock."""
    return time.clock_gettime(_STEADY)


async def prune_portion(remove: Callable[[float, float], Awaitable[int]], now: float, stored: int) -> int:
    """Removes all that expired in the last hour, and a portion of what expired earlier.

    A running gateway removes everything within minutes. So if something expired long ago, no gateway was
    running, or the clock is wrong; the small portions give an operator time to notice. `remove` removes some
    of what expired between two times, and returns the number; 0 when nothing is left.
    """
    removed = 0
    while some := await remove(now - HOUR, now):
        removed += some
    most, old = max(PORTION, stored // 100), 0
    while old < most and (some := await remove(-1.0, now - HOUR)):
        old += some
    if old >= most:
        log.warning(
            "removed %d things that had expired more than an hour ago; the next of them go in some minutes",
            old,
        )
    return removed + old
