"""How PostgreSQL is written and read: in groups, over lost connections, and never more than once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from antiphon.store import (
    Append,
    BrowserSession,
    Change,
    StoreBusy,
    StoreConflict,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoreUnavailable,
    UploadedFile,
    statements,
)
from antiphon.store.postgres import database as database_module
from antiphon.store.postgres import group_writer, responses
from antiphon.store.postgres.connection import Connection, execute, rows
from antiphon.store.postgres.database import Database, describe_address
from antiphon.store.postgres.store import PostgresStore
from antiphon.store.records.short_lived import create_session, delete_session
from antiphon.store.statements import Steps
from tests.postgres import PostgresCluster, needs_postgres
from tests.store.conformance.values import chain, ids, item, response, running, said

pytestmark = needs_postgres


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(postgres_url, connections=4)
    yield store
    await store.close()


OTHERS = """
    INSERT INTO responses (id, tenant, chain, position, status, model, created_at, background, input, body)
    SELECT 'other' || n, 'acme', -n, 0, 'completed', 'm', 1, false, repeat('x', 300)::bytea, '{}'
    FROM generate_series(1, 20000) AS n
"""


async def found(store: PostgresStore, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
    return await store.database.read(lambda db: rows(db, sql, values))


async def test_writes_asked_together_are_committed_together(store: PostgresStore) -> None:
    for n in range(20):
        await store.save(running(f"b{n}"))
    before = store.stats.batches
    saves = [store.save(response(f"r{n}")) for n in range(40)]
    logs = [store.append_events(f"b{n}", "w1", 0, [b'{"n":0}', b'{"n":1}']) for n in range(20)]
    results = await asyncio.gather(*saves, *logs)
    assert results == [None] * 40 + [True] * 20
    assert store.stats.batches == before + 1
    assert (await store.size()).events == 40


async def test_one_bad_write_does_not_fail_its_neighbours(store: PostgresStore) -> None:
    await store.create_conversation(StoredConversation("c1", "acme", b"{}", 1), [item("a")])
    await store.save(response("taken"))
    await store.save(running("bg"))
    await store.append_events("bg", "w1", 0, [b"{}"])
    results = await asyncio.gather(
        store.save(response("first")),
        store.save(response("taken")),
        store.append_events("bg", "w1", 0, [b"{}"]),
        store.append_events("bg", "w1", 1, [b"{}"]),
        store.append_events("bg", "w2", 2, [b"{}"]),
        store.append_events("nobody", "w1", 0, [b"{}"]),
        store.save(response("huge", created_at=2**70)),
        store.add_items("acme", Append("c1", [item("a")])),
        store.save(response("last")),
        return_exceptions=True,
    )
    kinds = [type(result) if isinstance(result, Exception) else result for result in results]
    wrong = type(results[6])
    assert kinds == [None, StoreConflict, StoreConflict, True, False, False, wrong, StoreConflict, None]
    assert isinstance(results[6], Exception)
    for id in ("first", "last"):
        assert await store.get("acme", id) is not None
    assert await store.get("acme", "huge") is None


async def test_a_write_whose_caller_went_away_is_still_made(store: PostgresStore) -> None:
    await store.save(response("old"))
    asked = [
        asyncio.ensure_future(work) for work in (store.save(response("r1")), store.delete("acme", "old"))
    ]
    await asyncio.sleep(0)
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    await store.close()
    again = await PostgresStore.open(store.database.url)
    assert await again.get("acme", "r1") is not None
    assert await again.get("acme", "old") is None
    await again.close()


async def test_closing_finishes_what_was_asked(store: PostgresStore) -> None:
    saves = [asyncio.ensure_future(store.save(response(f"r{n}"))) for n in range(300)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*saves)
    again = await PostgresStore.open(store.database.url)
    assert (await again.size()).responses == 300
    await again.close()


async def test_a_context_is_one_indexed_read_however_long_the_chain(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is in memory."""
    context = None
    for n in range(400):
        await store.save(response(f"r{n}", context))
        context = await store.context("acme", f"r{n}")
    assert store.stats.cache_misses == 0
    await store.database.write(lambda db: execute(db, OTHERS))
    await store.database.write(lambda db: execute(db, "ANALYZE responses"))
    cold = await PostgresStore.open(store.database.url, cache_bytes=0)
    asked: list[str] = []
    execute_it = psycopg.AsyncConnection.execute

    async def counted(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(query)
        return await execute_it(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", counted)
    for n in (9, 399):
        asked.clear()
        assert said(await cold.context("acme", f"r{n}")) == [
            f"r{k}_{side}" for k in range(n + 1) for side in ("in", "out")
        ]
        assert asked == [responses.CONTEXT]
        # What is in memory is only looked up, which does not depend on the chain either.
        asked.clear()
        await store.context("acme", f"r{n}")
        if n == 399:
            assert asked == [responses.PLACE]
    monkeypatch.undo()
    plan = (await found(cold, f"EXPLAIN (FORMAT JSON) {responses.CONTEXT}", ("r399", "acme")))[0][0]
    scans = [node for node in _nodes(plan[0]["Plan"]) if "Scan" in node["Node Type"]]
    assert scans
    assert all("Index" in node["Node Type"] for node in scans), scans
    await cold.close()


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in _nodes(child))]


async def test_text_with_a_nul_is_stored(store: PostgresStore) -> None:
    assert await store.add_file(UploadedFile("f", "acme", "a\0b.txt", "p", 1, "d", 1), 10)
    file = await store.file("acme", "f")
    assert file is not None
    assert file.filename == "a␀b.txt"
    odd = StoredItem("a\0b", b'{"id":"a\\u0000b"}')
    await store.save(response("r1", input=(odd,)))
    assert await store.items("acme", ["a\0b", "a"]) == {"a\0b": odd.data}
    assert await store.get("acme", "r1\0") is None


async def test_of_responses_that_are_continued_and_deleted_at_once_nothing_is_lost(
    store: PostgresStore,
) -> None:
    others = [await PostgresStore.open(store.database.url, connections=3) for _ in range(2)]
    handles = [store, *others]
    expected: dict[str, list[str]] = {}

    async def grow(n: int) -> None:
        handle, id = handles[n % 3], f"r{n}"
        previous = None if n % 7 == 0 else f"r{n - 1 - n % 3}"
        context = await handle.context("acme", previous) if previous else None
        before = said(context) if context else []
        await asyncio.sleep(0)
        await handle.save(response(id, context))
        expected[id] = [*before, f"{id}_in", f"{id}_out"]
        if n % 2:
            gone = f"r{n - 1}"
            if await handles[(n + 1) % 3].delete("acme", gone):
                expected.pop(gone, None)

    for start in range(0, 90, 6):
        await asyncio.gather(*[grow(n) for n in range(start, start + 6)])
    for id, items in expected.items():
        for handle in handles:
            assert said(await handle.context("acme", id)) == items
    needless = """
        SELECT count(*) FROM responses WHERE id IS NULL AND NOT EXISTS (
            SELECT 1 FROM responses AS later
            WHERE later.chain = responses.chain AND later.position > responses.position
            AND later.id IS NOT NULL)
    """
    assert await found(store, needless) == [(0,)]
    for id in expected:
        assert await store.delete("acme", id)
    for table in ("responses", "items"):
        assert await found(store, f"SELECT count(*) FROM {table}") == [(0,)]
    for other in others:
        await other.close()


# --- connections that are lost ----------------------------------------------------------------------------


class Proxy:
    """Between a store and PostgreSQL: cuts the connection at a COMMIT, before or after it is carried out."""

    def __init__(self, upstream: Path, folder: Path) -> None:
        self.upstream = upstream / ".s.PGSQL.5432"
        self.folder = folder
        self.cut: str | None = None
        self.is_silent = False
        self.cuts = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(str(self.upstream))
        self._writers |= {writer, server_writer}
        cutting = asyncio.Event()

        async def to_server() -> None:
            while data := await reader.read(65536):
                if self.cut is not None and b"COMMIT" in data:
                    when, self.cut = self.cut, None
                    self.cuts += 1
                    if when == "before":
                        break
                    cutting.set()
                if self.is_silent:
                    continue
                server_writer.write(data)
                await server_writer.drain()
            server_writer.close()
            writer.close()

        async def to_client() -> None:
            while data := await server_reader.read(65536):
                if cutting.is_set():  # it has been carried out, and nobody is told
                    break
                writer.write(data)
                await writer.drain()
            server_writer.close()
            writer.close()

        await asyncio.gather(to_server(), to_client(), return_exceptions=True)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_unix_server(self.handle, str(self.folder / ".s.PGSQL.5432"))
        try:
            yield str(self.folder)
        finally:
            server.close()
            for writer in self._writers:
                writer.close()


@asynccontextmanager
async def through_proxy(url: str, folder: Path) -> AsyncIterator[tuple[PostgresStore, Proxy]]:
    upstream = Path(url.partition("host=")[2])
    proxy = Proxy(upstream, folder)
    async with proxy.running() as where:
        store = await PostgresStore.open(url.replace(str(upstream), where), connections=2)
        try:
            yield store, proxy
        finally:
            await store.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_whose_answer_is_lost_is_made_once(
    postgres_url: str, tmp_path: Path, when: str
) -> None:
    async with through_proxy(postgres_url, tmp_path) as (store, proxy):
        proxy.cut = when
        await asyncio.gather(store.save(response("r1")), store.save(response("r2")))
        proxy.cut = when
        await store.save(running("bg"))
        proxy.cut = when
        assert await store.append_events("bg", "w1", 0, [b'{"n":0}'])
        proxy.cut = when
        assert await store.update(Change("bg", "w1", "in_progress", b'{"half":1}', None, 1, [b'{"n":1}']))
        proxy.cut = when
        assert await store.append_events("bg", "w1", 2, [b'{"n":2}'], job=b"job")
        proxy.cut = when
        assert await store.update(Change("bg", "w1", "completed", b"{}", (item("o"),), 3, [b'{"n":3}']))
        assert proxy.cuts == 6
        events = await store.events_after("acme", "bg", -1, 10)
        assert events is not None
        assert [json.loads(event.data)["n"] for event in events] == [0, 1, 2, 3]
        assert (await store.size()).responses == 3
        assert said(await store.context("acme", "bg")) == ["bg_in", "o"]


async def test_a_change_that_cannot_be_looked_up_is_not_said_to_be_written(
    postgres_url: str, tmp_path: Path
) -> None:
    async with through_proxy(postgres_url, tmp_path) as (store, proxy):
        await store.create_conversation(StoredConversation("c1", "acme", b"{}", 1), [item("a")])
        proxy.cut = "after"
        with pytest.raises(StoreUnavailable, match="not known whether"):
            await store.add_items("acme", Append("c1", [item("b")]))
        assert ids(await store.conversation_context("acme", "c1")) == ["a", "b"]


async def there_again(store: PostgresStore) -> StoredResponse | None:
    """What is stored, once the pool has connected again: it tries less and less often."""
    async with asyncio.timeout(60):
        while True:
            with suppress(StoreUnavailable):
                return await store.get("acme", "r1")


async def test_a_server_that_does_not_answer_is_given_up(postgres_url: str, tmp_path: Path) -> None:
    async with through_proxy(postgres_url, tmp_path) as (store, proxy):
        await store.save(response("r1"))
        store.database.limit = 0.3
        proxy.is_silent = True
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailable):
                await store.get("acme", "r1")
            with pytest.raises(StoreUnavailable):
                await store.save(response("r2"))
        proxy.is_silent = False
        store.database.limit = 30.0
        assert await there_again(store) is not None


async def test_who_finds_too_many_waiting_is_refused_and_does_not_ask_over_and_over(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "MOST_WAITING", 1)
    database = Database(postgres_url, connections=1)
    await database.open()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(db: Connection) -> None:
        begun.set()
        await go_on.wait()

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(database.read(wait))
            await begun.wait()
            tasks.create_task(database.read(wait))
            while True:
                if database._pool.get_stats().get("requests_waiting"):
                    break
                await asyncio.sleep(0)
            with pytest.raises(StoreBusy, match="Too many"):
                await database.read(wait)
            assert database._pool.get_stats()["requests_num"] == 3
            go_on.set()
    finally:
        await database.close()


async def test_connections_that_are_ended_are_not_noticed(
    store: PostgresStore, shared_cluster: PostgresCluster
) -> None:
    await chain(store, "r1", "r2")
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'"
    database = store.database.where.rpartition("/")[2]
    for n in range(3):
        shared_cluster.execute(end.format(database))
        assert await store.get("acme", "r1") is not None
        shared_cluster.execute(end.format(database))
        await store.save(response(f"new{n}"))
        shared_cluster.execute(end.format(database))
        assert await store.delete("acme", f"new{n}")


async def test_an_operation_on_records_begins_anew_over_another_connection(store: PostgresStore) -> None:
    session = BrowserSession("digest", "laptop", "key", 4_000_000_000)
    begun = 0

    def create_and_lose_the_connection() -> Steps[bool]:
        nonlocal begun
        begun += 1
        yield from create_session(session)
        if begun == 1:
            yield from statements.rows("SELECT pg_terminate_backend(pg_backend_pid())")
        return (yield from delete_session("digest"))

    assert await store._carry_out(create_and_lose_the_connection, "write")
    assert begun == 2
    assert await store.session("digest") is None


async def test_a_server_that_is_gone_is_said_to_be_and_comes_back(own_cluster: PostgresCluster) -> None:
    own_cluster.execute("CREATE DATABASE it")
    store = await PostgresStore.open(own_cluster.url("it"), connections=3, connection_timeout=0.5)
    await store.save(response("r1"))
    own_cluster.stop()
    async with asyncio.timeout(60):
        results = await asyncio.gather(
            store.get("acme", "r1"),
            store.save(response("r2")),
            store.save(response("r3")),
            store.delete("acme", "r1"),
            store.context("acme", "r1"),
            return_exceptions=True,
        )
    assert [type(result) for result in results] == [StoreUnavailable] * 5
    assert "nothing was written" in str(results[1])
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await PostgresStore.open(own_cluster.url("it"))
    own_cluster.start()
    async with asyncio.timeout(60):
        while True:
            try:
                await store.save(response("r2"))
                break
            except StoreUnavailable:
                continue
    assert (await store.size()).responses == 2
    await store.close()


async def test_all_who_wait_for_a_server_that_is_gone_are_told_together(
    own_cluster: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cluster.execute("CREATE DATABASE it")
    store = await PostgresStore.open(own_cluster.url("it"), connections=2, connection_timeout=0.5)
    monkeypatch.setattr(group_writer, "MOST", 2)
    own_cluster.stop()
    before = store.stats.batches
    async with asyncio.timeout(60):
        saves = [store.save(response(f"r{n}")) for n in range(20)]
        results = await asyncio.gather(*saves, return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnavailable}
    assert store.stats.batches == before + 1
    own_cluster.start()
    await store.close()


def test_where_a_database_is_does_not_tell_the_password() -> None:
    assert describe_address("postgresql://me:geheim@db.example:5433/antiphon?sslmode=require") == (
        "db.example:5433/antiphon"
    )


async def test_a_password_is_in_no_message(tmp_path: Path) -> None:
    database = Database(f"postgresql://antiphon:geheim@/it?host={tmp_path}")
    with pytest.raises(StoreUnavailable) as refused:
        await database.open()
    assert "geheim" not in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    await database.close()
