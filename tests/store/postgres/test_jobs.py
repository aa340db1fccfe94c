"""Background responses as jobs: one worker each, in the order of their conversation, again after a death."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from antiphon.store import Change, StoreError, StoreUnavailable
from antiphon.store.postgres.connection import Connection
from antiphon.store.postgres.jobs import OWNER, Jobs
from antiphon.store.postgres.notifications import JOB_CHANNEL
from antiphon.store.postgres.store import PostgresStore
from tests.postgres import PostgresCluster, needs_postgres
from tests.store.conformance.values import running

pytestmark = needs_postgres

DEADLINE = 30.0
END = "SELECT pg_terminate_backend(%s)"
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"


class Worked:
    """Works on responses until it is told to end one, and remembers what it was given."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.given: list[tuple[str, int]] = []
        self.ended: dict[str, asyncio.Event] = {}
        self.cancelled: list[str] = []
        self.failure: Exception | None = None
        """Raised instead of ending the work."""
        self._news = asyncio.Condition()

    async def work(self, tenant: str, id: str, attempt: int) -> None:
        self.given.append((id, attempt))
        self.ended[id] = asyncio.Event()
        async with self._news:
            self._news.notify_all()
        await self.ended[id].wait()
        if self.failure is not None:
            raise self.failure

    def stop_work(self, id: str) -> None:
        self.cancelled.append(id)
        self.ended[id].set()

    async def has(self, *given: tuple[str, int]) -> None:
        """Wait until it has been given all of these."""
        async with asyncio.timeout(DEADLINE), self._news:
            await self._news.wait_for(lambda: set(given) <= set(self.given))


Hire = Callable[..., Awaitable[Worked]]


@pytest.fixture
async def hire(postgres_url: str) -> AsyncIterator[Hire]:
    hired: list[Worked] = []

    async def start(slots: int = 4) -> Worked:
        store = await PostgresStore.open(postgres_url, connections=2)
        hired.append(Worked(store))
        await store.work_queue.open(hired[-1], slots)
        return hired[-1]

    yield start
    for one in hired:
        for ended in one.ended.values():
            ended.set()
        await one.store.work_queue.close()
        await one.store.close()


def queued(id: str, **fields: Any) -> Any:
    return running(id, OWNER, **fields)


async def ask(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        return await (await db.execute(statement.encode(), values)).fetchall()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def either(id: str, *workers: Worked) -> Worked:
    """Wait until one of them works on this response."""
    await until(lambda: any(id in one.ended for one in workers))
    return next(one for one in workers if id in one.ended)


async def until_found(url: str, statement: str, *rows: tuple[Any, ...]) -> None:
    """Wait until this statement finds just these rows."""
    async with asyncio.timeout(DEADLINE):
        while True:
            if await ask(url, statement) == list(rows):
                return
            await asyncio.sleep(0.02)


async def test_a_stored_response_is_worked_on_once_and_its_job_goes(hire: Hire, postgres_url: str) -> None:
    here, there = await hire(), await hire()
    for n in range(4):
        await here.store.save(queued(f"r{n}"))
    await until(lambda: len(here.given) + len(there.given) == 4)
    assert sorted(here.given + there.given) == [(f"r{n}", 0) for n in range(4)]
    for one in (here, there):
        for ended in one.ended.values():
            ended.set()
    await until_found(postgres_url, "SELECT 1 FROM procrastinate_jobs")


async def give_next(worked: Worked, ending: str) -> str:
    """End the work on one response; the one that is worked on instead."""
    count = len(worked.given)
    worked.ended[ending].set()
    await until(lambda: len(worked.given) == count + 1)
    return worked.given[-1][0]


async def test_a_tenant_with_sixty_responses_makes_no_other_wait_for_more_than_one(hire: Hire) -> None:
    worked = await hire()
    for n in range(60):
        await worked.store.save(queued(f"alice{n}", tenant="alice"))
    await until(lambda: len(worked.given) == 4)
    for name in ("bob0", "bob1", "carol0"):
        await worked.store.save(queued(name, tenant=name[:-1]))
    assert await give_next(worked, "alice0") == "bob0"
    assert await give_next(worked, "alice1") == "carol0"
    # Each has one now, besides Alice, who has two.
    assert await give_next(worked, "alice2") == "alice4"
    assert await give_next(worked, "carol0") == "bob1"


async def test_where_one_response_is_worked_on_at_a_time_tenants_take_turns(hire: Hire) -> None:
    worked = await hire(slots=1)
    for n in range(10):
        await worked.store.save(queued(f"alice{n}", tenant="alice"))
    await until(lambda: len(worked.given) == 1)
    for n in range(2):
        await worked.store.save(queued(f"bob{n}", tenant="bob"))
    order = ["alice0"]
    for _ in range(5):
        order.append(await give_next(worked, order[-1]))
    assert order == ["alice0", "bob0", "alice1", "bob1", "alice2", "alice3"]


async def test_a_tenant_is_served_though_those_before_it_wait_for_their_conversations(hire: Hire) -> None:
    worked = await hire(slots=64)
    for n in range(20):
        for part in "ab":
            await worked.store.save(queued(f"t{n}{part}", tenant=f"t{n:02}", conversation=f"c{n}"))
    await until(lambda: len(worked.given) == 20)
    for n in range(2):
        await worked.store.save(queued(f"last{n}", tenant="zed"))
    await until(lambda: len(worked.given) == 22)
    assert {id for id, _ in worked.given} == {f"t{n}a" for n in range(20)} | {"last0", "last1"}


async def test_there_is_no_response_without_its_job(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await PostgresStore.open(postgres_url, connections=2)
    try:
        add = Jobs.add

        async def fail(self: Jobs, *given: Any) -> None:
            await add(self, *given)
            raise RuntimeError("the process died here")

        monkeypatch.setattr(Jobs, "add", fail)
        with pytest.raises(RuntimeError):
            await store.save(queued("r1"))
        monkeypatch.undo()
        assert await store.get("acme", "r1") is None
        assert not await ask(postgres_url, "SELECT 1 FROM procrastinate_jobs")
        await store.save(queued("r1"))
        await store.save(running("other", "somebody"))
        assert await ask(postgres_url, "SELECT args FROM procrastinate_jobs") == [
            ({"tenant": "acme", "response": "r1", "attempt": 0},)
        ]
    finally:
        await store.close()


async def test_a_connection_lost_while_a_job_is_made_is_not_noticed(
    hire: Hire, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defer, cuts = Jobs._defer, iter([True, False, True])

    async def cut(self: Jobs, connection: Connection, *given: Any) -> None:
        if next(cuts, False):
            await ask(postgres_url, END, connection.info.backend_pid)
        await defer(self, connection, *given)

    monkeypatch.setattr(Jobs, "_defer", cut)
    here = await hire()
    await here.store.save(queued("r1"))
    await here.has(("r1", 0))
    await here.store.work_queue.hand_over("r1", 0)
    await here.has(("r1", 1))
    assert next(cuts, None) is None
    assert here.given == [("r1", 0), ("r1", 1)]


async def test_a_connection_lost_while_a_job_is_aborted_is_not_noticed(
    hire: Hire, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await hire()
    manager = here.store._jobs.app.job_manager
    cancel, cuts = manager.cancel_job_by_id_async, iter([True])

    async def cut(id: int, *, abort: bool, connection: Connection) -> bool:
        if next(cuts, False):
            await ask(postgres_url, END, connection.info.backend_pid)
        return await cancel(id, abort=abort, connection=connection)

    monkeypatch.setattr(manager, "cancel_job_by_id_async", cut)
    await here.store.save(queued("r1"))
    await here.has(("r1", 0))
    found = await here.store.request_cancel("acme", "r1")
    assert found is not None
    assert found.cancel_requested
    await until(lambda: here.cancelled == ["r1"])
    assert next(cuts, None) is None


async def test_a_postgres_that_goes_away_while_a_job_is_made_is_said_to_be_away(
    own_cluster: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    defer = Jobs._defer

    async def stop(self: Jobs, connection: Connection, *given: Any) -> None:
        await asyncio.to_thread(own_cluster.stop)
        await defer(self, connection, *given)

    own_cluster.execute("CREATE DATABASE it")
    store = await PostgresStore.open(own_cluster.url("it"), connections=2, connection_timeout=0.5)
    try:
        monkeypatch.setattr(Jobs, "_defer", stop)
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await store.save(queued("r1"))
    finally:
        await store.close()


async def test_a_conversation_is_worked_on_in_order(hire: Hire) -> None:
    here, there = await hire(), await hire()
    for n in range(3):
        await here.store.save(queued(f"r{n}", conversation="conv_1"))
    await here.store.save(queued("free", conversation="conv_2"))
    for id, following in (("r0", "r1"), ("r1", "r2"), ("r2", "r3")):
        worker = await either(id, here, there)
        assert following not in {begun for begun, _ in here.given + there.given}
        worker.ended[id].set()
    assert ("free", 0) in here.given + there.given


async def test_a_cancelled_response_is_stopped_where_it_is_worked_on(hire: Hire, postgres_url: str) -> None:
    here = await hire()
    await here.store.save(queued("r1"))
    await here.has(("r1", 0))
    elsewhere = await PostgresStore.open(postgres_url, connections=2)
    try:
        assert (await elsewhere.request_cancel("somebody", "r1")) is None
        assert here.cancelled == []
        found = await elsewhere.request_cancel("acme", "r1")
        assert found is not None
        assert found.cancel_requested
        await until_found(postgres_url, "SELECT 1 FROM procrastinate_jobs")
        assert here.cancelled == ["r1"]
    finally:
        await elsewhere.close()


async def test_what_is_handed_over_goes_on_elsewhere_before_what_waits(hire: Hire, postgres_url: str) -> None:
    here = await hire()
    await here.store.save(queued("r1", conversation="conv_1"))
    await here.store.save(queued("r2", conversation="conv_1"))
    await here.has(("r1", 0))
    there = await hire()
    await here.store.work_queue.stop()
    await here.store.work_queue.hand_over("r1", 0)
    here.ended["r1"].set()
    await there.has(("r1", 1))
    assert there.given == [("r1", 1)]
    stale = Change("r1", OWNER, "failed", b"{}", attempt=0)
    assert not await here.store.update(stale)
    assert not await here.store.append_events("r1", OWNER, 0, [b"{}"], attempt=0)
    assert not await here.store.append_events("r1", OWNER, 0, [b"{}"], attempt=0, job=b"late")
    # One that was only slow to leave takes nothing from who has it now.
    await here.store.work_queue.hand_over("r1", 0)
    assert await there.store.append_events("r1", OWNER, 0, [b"{}"], attempt=1)
    there.ended["r1"].set()
    await there.has(("r2", 0))


async def test_a_response_that_ended_is_not_begun_again(hire: Hire, postgres_url: str) -> None:
    here = await hire()
    await here.store.save(queued("r1"))
    await here.has(("r1", 0))
    assert await here.store.update(Change("r1", OWNER, "completed", b"{}"))
    await here.store.work_queue.hand_over("r1", 0)
    assert not await ask(postgres_url, "SELECT 1 FROM procrastinate_jobs")
    here.ended["r1"].set()


async def test_what_could_not_be_handed_over_is_found(hire: Hire) -> None:
    here = await hire()
    await here.store.save(queued("r1"))
    await here.has(("r1", 0))
    there = await hire()
    here.failure = StoreError("away")
    await here.store.work_queue.stop()
    here.ended["r1"].set()
    await here.store.work_queue.close()
    await there.has(("r1", 1))


async def test_work_that_fails_is_tried_again_as_the_next_attempt(hire: Hire) -> None:
    here = await hire()
    here.failure = RuntimeError("a mistake")
    await here.store.save(queued("r1"))
    for attempt in range(3):
        await here.has(("r1", attempt))
        here.ended["r1"].set()
    here.failure = None


async def test_the_jobs_of_a_worker_that_vanished_are_taken(hire: Hire, postgres_url: str) -> None:
    here = await hire()
    await here.store.save(queued("r1"))
    await here.has(("r1", 0))
    there = await hire()
    # What is left of a machine that lost its power: a job that is being done, and a silent worker.
    await ask(
        postgres_url,
        "WITH gone AS (INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id) "
        "UPDATE procrastinate_jobs SET worker_id = gone.id FROM gone RETURNING 1",
    )
    await until(lambda: ("r1", 1) in here.given + there.given)
    found = await here.store.get("acme", "r1")
    assert found is not None
    assert found.attempt == 1
    here.ended["r1"].set()


async def test_a_living_worker_keeps_its_jobs_when_its_connections_are_cut(
    hire: Hire, postgres_url: str
) -> None:
    here, there = await hire(), await hire()
    await here.store.save(queued("r1"))
    await either("r1", here, there)
    await until_found(postgres_url, LOCKS, (2,))
    await ask(
        postgres_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid != pg_backend_pid()",
    )
    await until_found(postgres_url, LOCKS, (2,))
    await here.store.save(queued("r2"))
    await either("r2", here, there)
    assert sorted(here.given + there.given) == [("r1", 0), ("r2", 0)]


async def test_a_notification_that_cannot_be_read_does_not_end_the_listening(
    hire: Hire, postgres_url: str
) -> None:
    here = await hire()
    listener = here.store._listener
    since = listener.since
    await until(lambda: listener.on_job is not None)
    await ask(postgres_url, "SELECT pg_notify(%s, 'not JSON')", JOB_CHANNEL)
    await until(lambda: listener.since not in (since, None))


async def test_a_postgres_that_is_away_leaves_no_traceback_in_the_log(
    own_cluster: PostgresCluster, caplog: pytest.LogCaptureFixture
) -> None:
    own_cluster.execute("CREATE DATABASE it")
    store = await PostgresStore.open(own_cluster.url("it"), connections=2, connection_timeout=0.5)
    worked = Worked(store)
    await store.work_queue.open(worked, 4)
    await store.save(queued("r1"))
    await worked.has(("r1", 0))
    own_cluster.stop()
    # Jobs to abort are asked for more often than a heartbeat fails.
    await until(lambda: caplog.text.count("heartbeat of background work failed") > 1)
    own_cluster.start()
    await until(lambda: store._listener.since is not None)
    worked.ended["r1"].set()
    await store.work_queue.close()
    await store.close()
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
