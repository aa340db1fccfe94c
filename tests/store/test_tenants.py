"""Two tenants who know all of each other's ids: neither reads, changes or removes anything of the other's.

Every call of a store that names a tenant is made with a thing of the other one; what it says must be what it
says about something that does not exist, and the other one's things must stay as they are.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.store import (
    Append,
    Approval,
    ChatEdit,
    FileChunk,
    IndexedFile,
    Joining,
    KeyClaim,
    SqliteStore,
    Store,
    StoreConflict,
    StoredChat,
    StoredConversation,
    UnknownCursor,
    UploadedFile,
    VectorStore,
)
from tests.postgres import needs_postgres
from tests.store.conformance.values import item, response, running

QUOTA = 10**6
TENANTS = ("alice", "bob")
Call = Callable[[Store, str, str], Awaitable[Any]]


async def furnish(store: Store, tenant: str) -> None:
    """One of everything, with ids that end in the tenant's name."""
    own = tenant
    await store.save(response(f"r_{own}", tenant=tenant, input=(item(f"i_{own}"),)))
    context = await store.context(tenant, f"r_{own}")
    await store.save(response(f"s_{own}", context, tenant=tenant))
    await store.save(running(f"b_{own}", f"w_{own}", tenant=tenant, job=b"sealed"))
    await store.append_events(f"b_{own}", f"w_{own}", 0, [b'{"n":0}'])
    await store.create_conversation(StoredConversation(f"c_{own}", tenant, b"{}", 1), [item(f"ci_{own}")])
    await store.create_chat(StoredChat(f"t_{own}", tenant, f"secret of {own}", None, 1, 1.0))
    await store.save(response(f"q_{own}", tenant=tenant, chat=Joining(f"t_{own}", 2.0)))
    await store.add_approval(Approval(tenant, f"a_{own}", "digest", 9))
    await store.claim_key(KeyClaim(tenant, "same key", own, f"h_{own}", 9.0), 1)
    await store.add_file(UploadedFile(f"f_{own}", tenant, "secret.txt", "user_data", 5, own, 1), QUOTA)
    await store.add_vector_store(VectorStore(f"v_{own}", tenant, own, b"{}", 1, 1))
    indexed = IndexedFile(f"f_{own}", "secret.txt", b"{}", 1, 800, 400, embedding="m")
    await store.index_file(tenant, f"v_{own}", indexed, [FileChunk(f"secret {own}", b"\0" * 8)])


async def snapshot(store: Store, tenant: str) -> list[Any]:
    """What a tenant sees of its own things."""
    own = tenant
    ids = [f"{kind}_{own}" for kind in "rsbq"]
    contexts = [await store.context(tenant, id) for id in ids]
    return [
        [await store.get(tenant, id) for id in ids],
        [context and context.json() for context in contexts],
        await store.items(tenant, [f"i_{own}", f"ci_{own}"]),
        await store.job(tenant, f"b_{own}"),
        await store.events_after(tenant, f"b_{own}", -1, 9),
        await store.conversation(tenant, f"c_{own}"),
        await store.conversation_context(tenant, f"c_{own}"),
        await store.chats(tenant),
        await store.chats(tenant, search="secret"),
        await store.chat_nodes(tenant, f"t_{own}"),
        await store.files(tenant),
        await store.vector_stores(tenant),
        await store.indexed_files(tenant, f"v_{own}"),
        [found.text for found in await store.match_chunks(tenant, f"v_{own}", ["secret"], [f"f_{own}"], 9)],
        [line async for line in store.export(tenant)],
    ]


def edited(tenant: str, id: str) -> VectorStore:
    return VectorStore(id, tenant, "stolen", b"{}", 1, 2)


def taken(tenant: str, theirs: str) -> IndexedFile:
    return IndexedFile(f"f_{theirs}", "x", b"{}", 1, 1, 0)


# What `me` does with a thing of `them`, and says of it nothing but that it is not there.
ATTACKS: dict[str, Call] = {
    "get": lambda s, me, them: s.get(me, f"r_{them}"),
    "context": lambda s, me, them: s.context(me, f"s_{them}"),
    "items": lambda s, me, them: s.items(me, [f"i_{them}", f"ci_{them}"]),
    "delete": lambda s, me, them: s.delete(me, f"r_{them}"),
    "delete a running one": lambda s, me, them: s.delete(me, f"b_{them}"),
    "job": lambda s, me, them: s.job(me, f"b_{them}"),
    "events_after": lambda s, me, them: s.events_after(me, f"b_{them}", -1, 9),
    "request_cancel": lambda s, me, them: s.request_cancel(me, f"b_{them}"),
    "conversation": lambda s, me, them: s.conversation(me, f"c_{them}"),
    "set_metadata": lambda s, me, them: s.set_metadata(me, f"c_{them}", b'{"x":1}'),
    "delete_conversation": lambda s, me, them: s.delete_conversation(me, f"c_{them}"),
    "conversation_context": lambda s, me, them: s.conversation_context(me, f"c_{them}"),
    "add_items": lambda s, me, them: s.add_items(me, Append(f"c_{them}", [item("new")])),
    "conversation_page": lambda s, me, them: s.conversation_page(me, f"c_{them}"),
    "conversation_item": lambda s, me, them: s.conversation_item(me, f"c_{them}", f"ci_{them}"),
    "delete_item": lambda s, me, them: s.delete_conversation_item(me, f"c_{them}", f"ci_{them}"),
    "chat": lambda s, me, them: s.chat(me, f"t_{them}"),
    "edit_chat": lambda s, me, them: s.edit_chat(me, f"t_{them}", ChatEdit(9.0, title="stolen")),
    "delete_chat": lambda s, me, them: s.delete_chat(me, f"t_{them}"),
    "chat_of": lambda s, me, them: s.chat_of(me, f"q_{them}"),
    "chat_nodes": lambda s, me, them: s.chat_nodes(me, f"t_{them}"),
    "chat_path": lambda s, me, them: s.chat_path(me, f"t_{them}", f"q_{them}"),
    "chat_path of mine": lambda s, me, them: s.chat_path(me, f"t_{me}", f"q_{them}"),
    "take_approval": lambda s, me, them: s.take_approval(me, f"a_{them}", "digest"),
    "release_key": lambda s, me, them: s.release_key(KeyClaim(me, "same key", them, f"h_{them}", 9.0)),
    "file": lambda s, me, them: s.file(me, f"f_{them}"),
    "delete_file": lambda s, me, them: s.delete_file(me, f"f_{them}"),
    "vector_store": lambda s, me, them: s.vector_store(me, f"v_{them}"),
    "edit_vector_store": lambda s, me, them: s.edit_vector_store(edited(me, f"v_{them}")),
    "touch_vector_store": lambda s, me, them: s.touch_vector_store(me, f"v_{them}", 99),
    "delete_vector_store": lambda s, me, them: s.delete_vector_store(me, f"v_{them}"),
    "index into theirs": lambda s, me, them: s.index_file(me, f"v_{them}", taken(me, me), []),
    "index theirs": lambda s, me, them: s.index_file(me, f"v_{me}", taken(me, them), []),
    "indexed_file": lambda s, me, them: s.indexed_file(me, f"v_{them}", f"f_{them}"),
    "remove_indexed": lambda s, me, them: s.remove_indexed_file(me, f"v_{them}", f"f_{them}"),
    "file_attributes": lambda s, me, them: s.file_attributes(me, f"v_{them}"),
    "match": lambda s, me, them: s.match_chunks(me, f"v_{them}", ["secret"], [f"f_{them}"], 9),
    "match in mine": lambda s, me, them: s.match_chunks(me, f"v_{me}", [them], [f"f_{them}"], 9),
    "chunks": lambda s, me, them: s.chunks(me, f"v_{them}", [1, 2]),
}
NOTHING: tuple[Any, ...] = (None, False, [], {})
# What has to be refused, because it leads to a thing of `them`.
REFUSED: dict[str, tuple[Call, type[Exception]]] = {
    "go on from theirs": (
        lambda s, me, them: s.edit_chat(me, f"t_{me}", ChatEdit(9.0, current=f"r_{them}")),
        StoreConflict,
    ),
    "a chat of theirs": (
        lambda s, me, them: s.create_chat(StoredChat(f"new_{me}", me, None, f"r_{them}", 1, 1.0)),
        StoreConflict,
    ),
    "chats after theirs": (lambda s, me, them: s.chats(me, after=f"t_{them}"), UnknownCursor),
    "files after theirs": (lambda s, me, them: s.files(me, after=f"f_{them}"), UnknownCursor),
    "stores after theirs": (lambda s, me, them: s.vector_stores(me, after=f"v_{them}"), UnknownCursor),
    "indexed after theirs": (
        lambda s, me, them: s.indexed_files(me, f"v_{them}", after=f"f_{them}"),
        UnknownCursor,
    ),
}


async def attack(store: Store, name: str, me: str, them: str) -> None:
    if name in REFUSED:
        call, error = REFUSED[name]
        with pytest.raises(error):
            await call(store, me, them)
        return
    found = await ATTACKS[name](store, me, them)
    if name == "chunks":
        assert all(them not in chunk.text for chunk in found)
    else:
        assert found in NOTHING, name


async def join_theirs(store: Store, me: str, them: str, n: int) -> None:
    """Responses that want into a conversation, a chat or a chain of the other one."""
    context = await store.context(them, f"r_{them}")
    new = f"x{n}_{me}"
    await store.save(response(f"{new}c", tenant=me, append=Append(f"c_{them}", (item(f"{new}i"),))))
    await store.save(response(f"{new}t", tenant=me, chat=Joining(f"t_{them}", 9.0)))
    # A gateway would not give one tenant the context of another; even then the chain stays as it was.
    await store.save(response(f"{new}r", context, tenant=me))
    for end in "ctr":
        assert await store.delete(me, f"{new}{end}")


moves = st.lists(
    st.tuples(st.sampled_from([*ATTACKS, *REFUSED, "join"]), st.booleans()), min_size=5, max_size=40
)


async def play(store: Store, script: list[tuple[str, bool]]) -> None:
    for tenant in TENANTS:
        await furnish(store, tenant)
    before = {tenant: await snapshot(store, tenant) for tenant in TENANTS}
    for n, (name, is_first) in enumerate(script):
        me, them = TENANTS if is_first else TENANTS[::-1]
        if name == "join":
            await join_theirs(store, me, them, n)
        else:
            await attack(store, name, me, them)
    for tenant in TENANTS:
        assert await snapshot(store, tenant) == before[tenant]


@settings(max_examples=25, deadline=None)
@given(moves)
def test_nobody_reaches_what_another_has_in_sqlite(script: list[tuple[str, bool]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = await SqliteStore.open(Path(folder))
            try:
                await play(store, script)
            finally:
                await store.close()

    asyncio.run(run())


@asynccontextmanager
async def emptied(url: str) -> AsyncIterator[Store]:
    from antiphon.store.postgres.connection import execute
    from antiphon.store.postgres.schema import TABLE_NAMES
    from antiphon.store.postgres.store import PostgresStore

    store = await PostgresStore.open(url, connections=3)
    await store.database.write(lambda db: execute(db, f"TRUNCATE {TABLE_NAMES} RESTART IDENTITY"))
    try:
        yield store
    finally:
        await store.close()


@needs_postgres
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves)
def test_nobody_reaches_what_another_has_in_postgresql(
    postgres_url: str, script: list[tuple[str, bool]]
) -> None:
    async def run() -> None:
        async with emptied(postgres_url) as store:
            await play(store, script)

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=needs_postgres)])
def test_each_attack_by_itself(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    script = [(name, is_first) for name in [*ATTACKS, *REFUSED, "join"] for is_first in (True, False)]

    async def run() -> None:
        if kind == "sqlite":
            embedded = await SqliteStore.open(tmp_path)
            await play(embedded, script)
            await embedded.close()
        else:
            async with emptied(url) as store:
                await play(store, script)

    url = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
    asyncio.run(run())
