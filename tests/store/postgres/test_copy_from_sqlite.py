"""Everything of a SQLite store is in PostgreSQL after a copy, and goes on there."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from antiphon.store import (
    Append,
    Approval,
    BrowserSession,
    Change,
    ChatEdit,
    FileChunk,
    IndexedFile,
    KeyClaim,
    SqliteStore,
    Store,
    StoredChat,
    StoredConversation,
    StoreError,
    UploadedFile,
    VectorStore,
)
from antiphon.store.postgres import migration
from antiphon.store.postgres.connection import Connection, execute, rows
from antiphon.store.postgres.migration import copy_into
from antiphon.store.postgres.store import PostgresStore
from tests.postgres import needs_postgres
from tests.store.conformance.chats import turn
from tests.store.conformance.settlements import CHARGE, settled
from tests.store.conformance.values import chain, item, response, running

pytestmark = needs_postgres


async def fill(store: Store) -> None:
    """A chain with branches and a deleted turn, a conversation, a chat, a background response, and files."""
    await chain(store, "r1", "r2", "r3")
    await store.settle([CHARGE])
    await store.change_settings("base", b"{}")
    root = await store.context("acme", "r1")
    await asyncio.gather(*[store.save(response(name, root, expires_at=5000)) for name in ("a", "b")])
    await store.delete("acme", "r2")
    await store.create_conversation(StoredConversation("c1", "acme", b'{"k":1}', 1000, 9000), [item("x")])
    await store.save(response("rc", append=Append("c1", (item("rc_in"), item("rc_out")))))
    await store.delete_conversation_item("acme", "c1", "x")
    await store.save(running("bg", job=b"sealed"))
    await store.append_events("bg", "w1", 0, [b'{"n":0}', b'{"n":1}'])
    await store.update(Change("bg", "w1", "completed", b'{"id":"bg"}', (item("o"),), 2, [b'{"n":2}']))
    await store.create_chat(StoredChat("t1", "acme", None, None, 1000, 1000.5, expires_at=5000))
    await turn(store, "q1", asks="How deep is the Ångström sea?", says="Very deep 東京\0")
    await turn(store, "q2", "q1")
    await store.edit_chat("acme", "t1", ChatEdit(1010.25, 7000, pinned=True))
    await store.create_session(BrowserSession("digest", "alice", "key", 9000))
    await store.add_approval(Approval("acme", "mcpr", "d", 9000))
    await store.claim_key(KeyClaim("acme", "key", "body", "holder", 9000.5), 1)
    for tenant in ("acme", "other"):
        await store.add_file(UploadedFile(f"f_{tenant}", tenant, "a.txt", "user_data", 10, "digest", 1), 99)
        await store.add_vector_store(VectorStore(f"v_{tenant}", tenant, "name", b"{}", 1, 1, 2, 9000))
        indexed = IndexedFile(f"f_{tenant}", "a.txt", b"{}", 5, 800, 400, 80, embedding="p/m")
        chunks = [FileChunk(f"the {tenant} cats"), FileChunk("a dog", struct.pack("<2f", 1, 2))]
        chunks[0] = FileChunk(chunks[0].text, struct.pack("<2f", 3, 4))
        await store.index_file(tenant, f"v_{tenant}", indexed, chunks)


async def told(store: Store) -> dict[str, Any]:
    """Everything that a store says about what `fill` has put into it."""
    known = ("r1", "r2", "r3", "a", "b", "rc", "bg", "q1", "q2")
    facts: dict[str, Any] = {"export": [line async for line in store.export()]}
    for id in known:
        found = await store.get("acme", id)
        context = await store.context("acme", id)
        facts[id] = (found, context and context.json(), await store.events_after("acme", id, -1, 99))
    names = [f"{id}_{side}" for id in known for side in ("in", "out")]
    facts["items"] = await store.items("acme", [*names, "x", "o"])
    facts["settlements"] = await settled(store)
    facts["changed_settings"] = await store.changed_settings("base")
    facts["conversation"] = await store.conversation_context("acme", "c1")
    facts["chat"] = (await store.chat("acme", "t1"), await store.chat_nodes("acme", "t1"))
    facts["found"] = [
        await store.chats("acme", search=words) for words in ("angstrom deep", "東京", "nothing")
    ]
    facts["session"] = await store.session("digest")
    facts["key"] = await store.claim_key(KeyClaim("acme", "key", "body", "other", 1.0), 2)
    for tenant in ("acme", "other"):
        where = (tenant, f"v_{tenant}")
        file = f"f_{tenant}"
        facts[tenant] = (
            await store.files(tenant),
            await store.vector_stores(tenant),
            await store.indexed_files(*where),
            [chunk.text for chunk in await store.match_chunks(*where, ["cat"], [file], 5)],
            await store.chunk_vectors(*where, "p/m", [file]),
        )
    return facts


class Stopped(Exception):
    pass


def quiet(table: str, count: int) -> None:
    pass


async def test_a_copy_says_what_the_original_said_and_goes_on(postgres_url: str, tmp_path: Path) -> None:
    original = await SqliteStore.open(tmp_path)
    await fill(original)
    expected = await told(original)
    await original.close()
    counts: dict[str, int] = {}
    await copy_into(tmp_path, postgres_url, counts.__setitem__)
    assert counts["responses"] == 11  # one of them deleted, two the beginnings of branches
    assert counts["chunks"] == 4
    assert all(counts.values())
    store = await PostgresStore.open(postgres_url)
    assert await told(store) == expected
    assert await store.take_approval("acme", "mcpr", "d")
    await store.save(response("r4", await store.context("acme", "r3")))
    await store.save(response("r5", input=(item("o", "newer"),)))
    assert await store.items("acme", ["o"]) == {"o": item("o", "newer").data}
    await turn(store, "q3", "q2")
    page = await store.chat_nodes("acme", "t1")
    assert page is not None
    assert [node.id for node in page.nodes] == ["q1", "q2", "q3"]
    with pytest.raises(StoreError, match="not empty"):
        await copy_into(tmp_path, postgres_url, quiet)
    await store.close()


async def test_a_copy_that_was_stopped_goes_on(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = await SqliteStore.open(tmp_path)
    await fill(original)
    expected = await told(original)
    await original.close()
    monkeypatch.setattr(migration, "BATCH", 2)
    insert = migration._insert
    left = 7

    async def failing(db: Connection, table: Any, batch: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Stopped
        await insert(db, table, batch)

    monkeypatch.setattr(migration, "_insert", failing)
    for _ in range(3):
        left = 7
        with pytest.raises(Stopped):
            await copy_into(tmp_path, postgres_url, quiet)
    left = 1000
    await copy_into(tmp_path, postgres_url, quiet)
    store = await PostgresStore.open(postgres_url)
    assert await told(store) == expected
    await store.close()


async def test_a_copy_that_was_changed_meanwhile_is_noticed(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = await SqliteStore.open(tmp_path)
    await fill(original)
    await original.close()
    verify = migration._verify

    async def late(source: Any, database: Any, table: Any) -> int:
        if table.name == "events":
            await database.write(lambda db: execute(db, "UPDATE events SET data = '{}' WHERE seq = 2"))
        return await verify(source, database, table)

    monkeypatch.setattr(migration, "_verify", late)
    with pytest.raises(StoreError, match="table events is not what it should be"):
        await copy_into(tmp_path, postgres_url, quiet)


async def test_a_store_that_is_open_elsewhere_is_not_copied(postgres_url: str, tmp_path: Path) -> None:
    original = await SqliteStore.open(tmp_path)
    await original.save(response("r1"))
    with pytest.raises(StoreError, match="open in another process"):
        await copy_into(tmp_path, postgres_url, quiet)
    await original.close()
    await copy_into(tmp_path, postgres_url, quiet)
    store = await PostgresStore.open(postgres_url)
    assert await store.get("acme", "r1") is not None
    await store.close()


async def test_a_store_with_running_responses_is_not_copied(postgres_url: str, tmp_path: Path) -> None:
    original = await SqliteStore.open(tmp_path)
    await original.save(running("r1"))
    await original.close()
    with pytest.raises(StoreError, match="1 responses still run"):
        await copy_into(tmp_path, postgres_url, quiet)
    store = await PostgresStore.open(postgres_url)
    assert await store.database.read(lambda db: rows(db, "SELECT id FROM responses")) == []
    await store.close()
