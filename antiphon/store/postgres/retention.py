"""The SQL of deletion, expiry, sizes and export."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.base import Size
from antiphon.store.export_lines import chat_line, conversation_line, response_line
from antiphon.store.postgres import chat_texts, chats, conversations, shared_state, uploads, vector_stores
from antiphon.store.postgres.connection import Connection, Row, execute, key_of, one, rows
from antiphon.store.postgres.responses import BODY

AT_ONCE = 200
EXPIRED = "expires_at > %s AND expires_at <= %s LIMIT %s FOR UPDATE SKIP LOCKED"
DELETED_WHOLE = {
    "conversations": conversations.delete,
    "vector_stores": vector_stores.delete,
    "files": uploads.delete,
}
"""Tables whose rows have others that go with them."""
DELETED_ALONE = {"approvals": "tenant, id", "sessions": "digest", "idempotency_keys": "tenant, key"}
"""Tables of which only the row itself goes, and the columns that identify it."""

# Whoever removes something of a chain does so alone: two at once would each leave what the other still needs.
HOLD_CHAINS = """
    SELECT 1 FROM responses WHERE chain = ANY(%s) AND position = 0 ORDER BY chain FOR NO KEY UPDATE
"""
# Waits for those who are about to continue a response; in the next statement they are seen.
HOLD = "SELECT key, chain FROM responses WHERE key = ANY(%s) AND id IS NOT NULL ORDER BY key FOR UPDATE"
UNNAME = """
    DELETE FROM items USING (SELECT key, unnest(items) AS id FROM responses WHERE key = ANY(%s)) AS gone
    WHERE items.id = gone.id AND items.response = gone.key
"""
FORGET = """
    UPDATE responses SET id = NULL, model = '', items = '{}', body = NULL, spliced = NULL, owner = NULL,
                         expires_at = NULL, conversation = NULL, conversation_from = NULL,
                         chat = NULL, previous = NULL, job = NULL
    WHERE key = ANY(%s)
"""
# What stands after the last response that stays in its chain is needed by nobody.
TRIM = """
    DELETE FROM responses USING (
        SELECT given.chain, coalesce(
            (SELECT position FROM responses AS kept
             WHERE kept.chain = given.chain AND id IS NOT NULL AND NOT key = ANY(%(keys)s)
             ORDER BY position DESC LIMIT 1), -1) AS last
        FROM unnest(%(chains)s::int8[]) AS given (chain)) AS shortened
    WHERE responses.chain = shortened.chain AND responses.position > shortened.last
"""
RESPONSES = f"""
    SELECT key, tenant, id, status, model, created_at, expires_at, background, input, {BODY}
    FROM responses
    WHERE key > %(after)s AND id IS NOT NULL AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    ORDER BY key LIMIT %(limit)s
"""
CONVERSATIONS = """
    SELECT key, tenant, id, created_at, expires_at, metadata FROM conversations
    WHERE key > %(after)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s) ORDER BY key LIMIT %(limit)s
"""
CHATS = """
    SELECT key, tenant, id, title, current, pinned, created_at, updated_at, expires_at FROM chats
    WHERE key > %(after)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s) ORDER BY key LIMIT %(limit)s
"""
IDLE_CHATS = """
    SELECT key FROM chats WHERE expires_at > %s AND expires_at <= %s AND NOT EXISTS (
        SELECT 1 FROM responses WHERE responses.chat = chats.key AND owner IS NOT NULL)
    LIMIT %s FOR UPDATE SKIP LOCKED
"""
TABLES = (
    "responses, items, events, conversations, conversation_items, chats, chat_texts, sessions, "
    "approvals, idempotency_keys, shared_state, files, vector_stores, indexed_files, chunks"
)
SIZE = f"""
    SELECT (SELECT sum(pg_total_relation_size(name::regclass))::int8
            FROM unnest(string_to_array('{TABLES}', ', ')) AS name),
        (SELECT count(id) FROM responses), (SELECT count(*) FROM conversations),
        (SELECT coalesce(sum(last - seq + 1), 0)::int8 FROM events), (SELECT count(*) FROM chats)
"""


async def remove(db: Connection, doomed: Sequence[Row]) -> int:
    """Removes responses given as (key, chain), and the turns that nobody needs without them."""
    await execute(db, HOLD_CHAINS, (sorted({chain for _, chain in doomed}),))
    held = await rows(db, HOLD, ([key for key, _ in doomed],))
    keys, chains = [key for key, _ in held], sorted({chain for _, chain in held})
    await chat_texts.forget(db, keys)
    await execute(db, "DELETE FROM events WHERE response = ANY(%s)", (keys,))
    await execute(db, UNNAME, (keys,))
    await execute(db, TRIM, {"keys": keys, "chains": chains})
    await execute(db, FORGET, (keys,))
    return len(keys)


async def delete(db: Connection, tenant: str, id: str) -> bool:
    row = await one(db, "SELECT key, chain FROM responses WHERE id = %s AND tenant = %s", (id, tenant))
    if row is None:
        return False
    await chats.leave(db, tenant, id)
    return bool(await remove(db, [row]))


async def delete_chat(db: Connection, tenant: str, id: str) -> bool:
    key = await key_of(db, "chats", tenant, id, lock=True)
    if key is None:
        return False
    await remove(db, await rows(db, "SELECT key, chain FROM responses WHERE chat = %s", (key,)))
    await _drop_chat(db, key)
    return True


async def prune(db: Connection, since: float, until: float) -> int:
    """Removes some of what expired in this time, 0 when nothing is left. A response that still runs stays."""
    doomed = await rows(
        db,
        f"SELECT key, chain FROM responses WHERE owner IS NULL AND {EXPIRED}",
        (since, until, AT_ONCE),
    )
    gone = await remove(db, doomed) if doomed else 0
    gone += await _prune_chats(db, since, until) + await shared_state.prune(db, until)
    for table, columns in DELETED_ALONE.items():
        expired = f"SELECT {columns} FROM {table} WHERE {EXPIRED}"
        gone += await execute(
            db, f"DELETE FROM {table} WHERE ({columns}) IN ({expired})", (since, until, AT_ONCE)
        )
    for table, delete_whole in DELETED_WHOLE.items():
        named = await rows(db, f"SELECT tenant, id FROM {table} WHERE {EXPIRED}", (since, until, AT_ONCE))
        for tenant, id in named:
            await delete_whole(db, tenant, id)
        gone += len(named)
    return gone


async def count_stored(db: Connection) -> int:
    """About how many responses there are."""
    found = await one(db, "SELECT max(key) - min(key) FROM responses")
    return int(found[0] or 0) if found else 0


async def _prune_chats(db: Connection, since: float, until: float) -> int:
    """A chat goes once all of its responses are gone; none of them while one still runs."""
    expired = [key for (key,) in await rows(db, IDLE_CHATS, (since, until, AT_ONCE))]
    doomed = await rows(
        db, "SELECT key, chain FROM responses WHERE chat = ANY(%s) LIMIT %s", (expired, AT_ONCE)
    )
    if doomed:
        return await remove(db, doomed)
    for key in expired:
        await _drop_chat(db, key)
    return len(expired)


async def _drop_chat(db: Connection, key: int) -> None:
    await chat_texts.forget(db, [-key])
    await execute(db, "DELETE FROM chats WHERE key = %s", (key,))


async def size(db: Connection) -> Size:
    await execute(db, "SET LOCAL statement_timeout = 0")
    ((*counts,),) = await rows(db, SIZE)
    return Size(*counts)


async def export_responses(db: Connection, tenant: str | None, after: int) -> tuple[int, list[bytes]]:
    """Some responses as lines of JSON, and the key to continue after."""
    found = await rows(db, RESPONSES, {"after": after, "tenant": tenant, "limit": AT_ONCE})
    return _last(found, after), [response_line(row) for _, *row in found]


async def export_conversations(db: Connection, tenant: str | None, after: int) -> tuple[int, list[bytes]]:
    found = await rows(db, CONVERSATIONS, {"after": after, "tenant": tenant, "limit": AT_ONCE})
    items = [await conversations.beginning(db, row[0], conversations.FAR) for row in found]
    return _last(found, after), [
        conversation_line(row, said or b"") for (_, *row), said in zip(found, items, strict=True)
    ]


async def export_chats(db: Connection, tenant: str | None, after: int) -> tuple[int, list[bytes]]:
    tree = "SELECT id, previous FROM responses WHERE chat = %s ORDER BY key"
    found = await rows(db, CHATS, {"after": after, "tenant": tenant, "limit": AT_ONCE})
    return _last(found, after), [chat_line(row, await rows(db, tree, (key,))) for key, *row in found]


def _last(found: Sequence[Row], after: int) -> int:
    return int(found[-1][0]) if found else after
