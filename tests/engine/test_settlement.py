"""A run is settled once: its rows are stored with its response, or alone where none is stored."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, ProviderSettings
from antiphon.config.schema import BackgroundSettings
from antiphon.engine import attempt, compaction
from antiphon.engine.background.background import Background
from antiphon.engine.background.job import BackgroundJob
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.run import Run
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import Usage
from antiphon.store import NewResponse, SqliteStore, Store, StoreBusy, StoredResponse
from antiphon.store.postgres.store import PostgresStore
from antiphon.stream.deltas import Finish, TextDelta, UsageDelta
from antiphon.wires.run_gate import Admission, SettlementRow
from antiphon.wires.run_listener import AttemptInfo, RunInfo, SilentListener, Spent
from antiphon.wires.sealing import Seal
from tests.engine.background.owners import DEADLINE, QUICK
from tests.engine.played import Step
from tests.engine.routed import CUT, Scenes
from tests.postgres import needs_postgres
from tests.store.conformance.settlements import settled

FINE: list[Step] = [[], [TextDelta("fine")], [UsageDelta(Usage.of(3, 2)), Finish()]]
AWAY: list[Step] = [UpstreamError(ErrorPayload("server_error", "no", "upstream_unreachable"), 502)]
TENANT = "acme"


class Counting(SilentListener):
    """A gate that has the tokens of each run stored, and a listener that counts the runs that end."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.ended: list[str] = []
        self.outcomes: list[str] = []

    async def admit(self, run: RunInfo) -> Admission:
        self.runs.append(run.id)
        return self

    async def rejoin(self, run: RunInfo) -> Admission:
        return self

    async def reserve(self, attempt: AttemptInfo) -> None:
        return

    def settle(self, spent: Spent) -> Sequence[SettlementRow]:
        tokens = 0 if spent.usage is None else spent.usage.total_tokens
        return [SettlementRow("charge", json.dumps([tokens, spent.attempts]).encode())]

    def run_ended(self, run: RunInfo, spent: Spent) -> None:
        self.ended.append(run.id)
        self.outcomes.append(spent.outcome)


class Gateway:
    """An engine with a gate over a store; several on one store stand for several processes."""

    def __init__(self, store: Store, provider: Scenes, **background: Any) -> None:
        config = Config(
            default_model="a/m",
            providers={"a": ProviderSettings(type="playing")},
            background=BackgroundSettings(**background),
        )
        self.gate, self.store = Counting(), store
        self.engine = Engine(config, {"a": provider}, store, Seal([bytes(32)]), time.time)
        self.engine.services.gate = self.gate
        self.engine.listen(self.gate)

    async def start(self, **fields: Any) -> Run:
        run = self.engine.new_run(RequestContext(tenant=TENANT))
        return await self.engine.start(Request(input="hi", **fields), run)

    @asynccontextmanager
    async def background(self) -> AsyncIterator[Background]:
        background = Background(self.engine, QUICK)
        await background.open()
        yield background
        await background.close()

    async def queue(self, background: Background) -> BackgroundJob:
        run = self.engine.new_run(RequestContext(tenant=TENANT))
        return await background.start(Request(input="hi", background=True), run)

    async def charges(self) -> list[tuple[str, list[int]]]:
        """The run of each row with its tokens and attempts."""
        rows = await settled(self.store)
        assert all((row.kind, row.tenant) == ("charge", TENANT) for row in rows)
        return [(row.run, json.loads(row.data)) for row in rows]

    async def end_of(self, id: str) -> str:
        """The status of a response once it has ended."""
        async with asyncio.timeout(DEADLINE):
            with self.store.changes.watch(id) as watch:
                while True:
                    watch.mark_read()
                    found = await self.store.get(TENANT, id)
                    assert found is not None
                    if found.owner is None:
                        return found.status
                    await watch.wait()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The folder or the address of an empty store."""
    if request.param == "sqlite":
        return tmp_path
    url: str = request.getfixturevalue("postgres_url")
    return url


async def open_store(place: Path | str) -> Store:
    if isinstance(place, Path):
        return await SqliteStore.open(place)
    return await PostgresStore.open(place, connections=4)


@pytest.fixture
async def store(place: Path | str) -> AsyncIterator[Store]:
    opened = await open_store(place)
    yield opened
    await opened.close()


@pytest.fixture
async def second_store(place: Path | str) -> AsyncIterator[Store]:
    """The same one, as another process has it."""
    opened = await open_store(place)
    yield opened
    await opened.close()


async def test_a_stored_response_brings_its_settlement(store: Store) -> None:
    gateway = Gateway(store, Scenes("a", FINE))
    run = await gateway.start()
    await run.result()
    assert await gateway.charges() == [(run.response.id, [5, 1])]
    assert gateway.gate.ended == [run.response.id]
    assert gateway.gate.outcomes == ["answered"]


async def test_they_are_one_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, saved = Gateway(store, Scenes("a", FINE)), store.save
    written: list[NewResponse] = []

    def save(new: NewResponse) -> Any:
        written.append(new)
        return saved(new)

    async def settle(rows: object) -> None:
        raise AssertionError("a second write")

    monkeypatch.setattr(store, "save", save)
    monkeypatch.setattr(store, "settle", settle)
    run = await gateway.start()
    await run.result()
    (new,) = written
    assert [row.run for row in new.settlements] == [new.id]


async def test_a_run_whose_response_is_not_stored_is_settled_alone(store: Store) -> None:
    gateway = Gateway(store, Scenes("a", FINE))
    run = await gateway.start(store=False)
    await run.result()
    assert await gateway.charges() == [(run.response.id, [5, 1])]
    assert await store.get(TENANT, run.response.id) is None


async def test_a_response_that_could_not_be_stored_is_settled_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(new: NewResponse) -> None:
        raise StoreBusy("locked")

    monkeypatch.setattr(store, "save", fail)
    gateway = Gateway(store, Scenes("a", FINE))
    run = await gateway.start()
    response = await run.result()
    assert response.status == "failed"
    assert await gateway.charges() == [(run.response.id, [5, 1])]
    assert gateway.gate.outcomes == ["failed"]


async def test_a_store_that_takes_no_settlement_breaks_no_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(rows: object) -> None:
        raise StoreBusy("locked")

    monkeypatch.setattr(store, "settle", fail)
    gateway = Gateway(store, Scenes("a", FINE))
    run = await gateway.start(store=False)
    assert (await run.result()).status == "completed"
    assert len(gateway.gate.ended) == 1


async def test_a_run_that_failed_before_it_had_a_response_is_settled(store: Store) -> None:
    gateway = Gateway(store, Scenes("a", AWAY))
    run = await gateway.start()
    with pytest.raises(UpstreamError):
        await run.result()
    assert [charge for _, charge in await gateway.charges()] == [[0, 1]]
    assert len(gateway.gate.ended) == 1
    assert gateway.gate.outcomes == ["failed"]


async def test_a_client_that_leaves_pays_what_was_known_by_then(store: Store) -> None:
    """The usage that came before the end counts, in the write of the response that was cut off."""
    scene: list[Step] = [[], [TextDelta("Well")], [UsageDelta(Usage.of(3, 1))], asyncio.Event()]
    provider = Scenes("a", scene)
    gateway = Gateway(store, provider)
    run = await gateway.start()
    task = asyncio.create_task(run.result())
    await provider.waiting.wait()
    task.cancel()
    await asyncio.wait({task})
    assert await gateway.charges() == [(run.response.id, [4, 1])]
    assert gateway.gate.ended == [run.response.id]
    assert gateway.gate.outcomes == ["cancelled"]
    assert await store.get(TENANT, run.response.id) is not None


async def test_a_run_without_a_response_is_settled_alone(store: Store) -> None:
    gateway = Gateway(store, Scenes("a", FINE))
    state = gateway.engine.new_run(RequestContext(tenant=TENANT), "compaction")
    await compaction.finish(
        gateway.engine, await compaction.start(gateway.engine, CompactRequest(model="a/m", input="hi"), state)
    )
    state = gateway.engine.new_run(RequestContext(tenant=TENANT), "search")
    async with attempt.open_run(state) as upstreams:
        await upstreams.call_service("web_search", lambda: asyncio.sleep(0))
    assert sorted(charge for _, charge in await gateway.charges()) == [[0, 1], [5, 1]]
    assert len(gateway.gate.ended) == 2


async def test_a_background_response_is_settled_once(store: Store) -> None:
    gateway = Gateway(store, Scenes("a", FINE))
    async with gateway.background() as background:
        job = await gateway.queue(background)
        assert await gateway.end_of(job.id) == "completed"
        await background.wait_until_idle()
    assert await gateway.charges() == [(job.id, [5, 1])]
    assert gateway.gate.ended == [job.id]
    assert gateway.gate.outcomes == ["answered"]


async def test_a_client_that_leaves_while_its_response_is_saved_does_not_stop_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write goes on, so the response runs and is charged for what it took, not for nothing."""
    gateway, saved, ids = Gateway(store, Scenes("a", FINE)), store.save, list[str]()

    async def save(new: NewResponse) -> None:
        ids.append(new.id)
        writing = asyncio.ensure_future(saved(new))
        await asyncio.sleep(0)
        task.cancel()
        await writing

    monkeypatch.setattr(store, "save", save)
    async with gateway.background() as background:
        task = asyncio.create_task(gateway.queue(background))
        with pytest.raises(asyncio.CancelledError):
            await task
        await background.wait_until_idle()
        assert await gateway.end_of(ids[0]) == "completed"
        await background.wait_until_idle()
    assert await gateway.charges() == [(ids[0], [5, 1])]
    assert gateway.gate.ended == ids


class LosesAnswers:
    """A store whose next `save` fails, after or before it has written, and whose next reads fail as well."""

    def __init__(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, *, writes: bool, unreadable: int
    ) -> None:
        self.ids: list[str] = []
        self._save, self._get = store.save, store.get
        self._writes, self._unreadable = writes, unreadable
        monkeypatch.setattr(store, "save", self.save)
        monkeypatch.setattr(store, "get", self.get)

    async def save(self, new: NewResponse) -> None:
        self.ids.append(new.id)
        if self._writes:
            await self._save(new)
        raise StoreBusy("the answer was lost")

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        if self._unreadable:
            self._unreadable -= 1
            raise StoreBusy("locked")
        return await self._get(tenant, id)


async def test_a_response_whose_save_was_said_to_have_failed_is_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = Gateway(store, Scenes("a", FINE))
    LosesAnswers(store, monkeypatch, writes=True, unreadable=0)
    async with gateway.background() as background:
        job = await gateway.queue(background)
        assert await gateway.end_of(job.id) == "completed"
        await background.wait_until_idle()
    assert await gateway.charges() == [(job.id, [5, 1])]
    assert gateway.gate.ended == [job.id]


async def test_a_response_that_may_be_stored_is_settled_by_its_end(tmp_path: Path) -> None:
    """Its client was refused, and the store cannot be asked; once it can, the response ends as failed."""
    store = await SqliteStore.open(tmp_path)
    gateway = Gateway(store, Scenes("a", FINE))
    with pytest.MonkeyPatch.context() as monkeypatch:
        lost = LosesAnswers(store, monkeypatch, writes=True, unreadable=3)
        async with gateway.background() as background:
            with pytest.raises(StoreBusy, match="the answer was lost"):
                await gateway.queue(background)
            assert await gateway.charges() == []
            await background.wait_until_idle()
    assert await gateway.end_of(lost.ids[0]) == "failed"
    assert await gateway.charges() == [(lost.ids[0], [0, 0])]
    assert gateway.gate.ended == lost.ids
    await store.close()


@pytest.mark.parametrize("unreadable", [0, 3])
async def test_a_background_response_that_is_not_stored_is_settled_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, unreadable: int
) -> None:
    gateway = Gateway(store, Scenes("a", FINE))
    lost = LosesAnswers(store, monkeypatch, writes=False, unreadable=unreadable)
    async with gateway.background() as background:
        with pytest.raises(StoreBusy, match="the answer was lost"):
            await gateway.queue(background)
        await background.wait_until_idle()
    assert await gateway.charges() == [(lost.ids[0], [0, 0])]
    assert gateway.gate.ended == lost.ids
    assert gateway.gate.outcomes == ["failed"]


async def test_a_background_response_that_is_cancelled_reports_what_was_known(store: Store) -> None:
    scene: list[Step] = [[], [TextDelta("Well")], [UsageDelta(Usage.of(3, 1))], asyncio.Event()]
    provider = Scenes("a", scene)
    gateway = Gateway(store, provider)
    async with gateway.background() as background:
        job = await gateway.queue(background)
        await provider.waiting.wait()
        found = await background.cancel(TENANT, job.id)
        assert found is not None
        assert found.status == "incomplete"
        assert await gateway.charges() == [(job.id, [4, 1])]
        await background.wait_until_idle()
    assert gateway.gate.ended == [job.id]
    assert gateway.gate.outcomes == ["cancelled"]


async def test_a_takeover_settles_once_with_what_both_processes_took(
    store: Store, second_store: Store
) -> None:
    scene: list[Step] = [[], [TextDelta("Well")], [UsageDelta(Usage.of(3, 1))], asyncio.Event()]
    provider = Scenes("a", scene, FINE)
    one, two = Gateway(store, provider), Gateway(second_store, provider)
    async with one.background() as first:
        job = await one.queue(first)
        await provider.waiting.wait()
        assert await one.charges() == []
    async with two.background() as second:
        assert await two.end_of(job.id) == "completed"
        await second.wait_until_idle()
    assert await two.charges() == [(job.id, [9, 2])]
    assert (one.gate.ended, two.gate.ended) == ([], [job.id])
    assert two.gate.outcomes == ["answered"]


async def test_a_response_that_another_process_can_only_end_is_settled_by_it(
    store: Store, second_store: Store
) -> None:
    """It is ended from its log: the second process may not go on with what the first has left."""
    scene: list[Step] = [[], [TextDelta("Well")], [UsageDelta(Usage.of(3, 1))], asyncio.Event()]
    provider = Scenes("a", scene)
    one, two = Gateway(store, provider), Gateway(second_store, provider, on_death="fail")
    async with one.background() as first:
        job = await one.queue(first)
        await provider.waiting.wait()
    async with two.background() as second:
        assert await two.end_of(job.id) == "failed"
        await second.wait_until_idle()
    assert await two.charges() == [(job.id, [4, 1])]
    assert (one.gate.ended, two.gate.ended) == ([], [job.id])
    assert two.gate.outcomes == ["failed"]


@needs_postgres
async def test_a_response_that_nobody_has_begun_is_settled_when_it_is_cancelled(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url, connections=4)
    gateway = Gateway(store, Scenes("a", FINE), work=0)
    async with gateway.background() as background:
        job = await gateway.queue(background)
        found = await background.cancel(TENANT, job.id)
        assert found is not None
        assert found.status == "incomplete"
    assert await gateway.charges() == [(job.id, [0, 0])]
    assert gateway.gate.ended == [job.id]
    assert gateway.gate.outcomes == ["cancelled"]
    await store.close()


async def test_a_response_that_is_deleted_while_its_process_is_gone_is_settled(tmp_path: Path) -> None:
    """Nobody hears that it is to be cancelled, so the one who deletes it ends it."""
    store = await SqliteStore.open(tmp_path)
    provider = Scenes("a", [[], [TextDelta("Well")], asyncio.Event()])
    one, two = Gateway(store, provider), Gateway(store, provider)
    async with one.background() as first:
        job = await one.queue(first)
        await provider.waiting.wait()
        background = Background(two.engine, replace(QUICK, patience=0.05))
        first._jobs.clear()  # the process that has it hears of nothing any more
        await background.cancel_for_deletion(TENANT, job.id)
        await store.delete(TENANT, job.id)
        job.progress_changed()
        await job.ended.wait()
        await first.wait_until_idle()
    assert await two.charges() == [(job.id, [0, 0])]
    assert (one.gate.ended, two.gate.ended) == ([], [job.id])
    await store.close()


@pytest.mark.parametrize("is_background", [False, True])
async def test_a_gate_is_called_on_the_event_loop_for_large_responses_too(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_background: bool
) -> None:
    gateway, threads = Gateway(store, Scenes("a", FINE)), list[threading.Thread]()
    settle = gateway.gate.settle

    def note_thread(spent: Spent) -> Sequence[SettlementRow]:
        threads.append(threading.current_thread())
        return settle(spent)

    monkeypatch.setattr(gateway.gate, "settle", note_thread)
    state = gateway.engine.new_run(RequestContext(tenant=TENANT, is_large=True))
    if is_background:
        async with gateway.background() as background:
            request = Request(input="hi", background=True)
            job = await background.start(request, state)
            assert await gateway.end_of(job.id) == "completed"
            await background.wait_until_idle()
    else:
        run = await gateway.engine.start(Request(input="hi"), state)
        assert run.turn.is_large
        await run.result()
    assert [charge for _, charge in await gateway.charges()] == [[5, 1]]
    assert threads == [threading.main_thread()]


@pytest.mark.parametrize("is_background", [False, True])
async def test_an_answer_that_breaks_off_is_a_run_that_failed(store: Store, is_background: bool) -> None:
    gateway = Gateway(store, Scenes("a", [[], [TextDelta("Well")], [UsageDelta(Usage.of(3, 1))], CUT]))
    if is_background:
        async with gateway.background() as background:
            job = await gateway.queue(background)
            assert await gateway.end_of(job.id) == "failed"
            await background.wait_until_idle()
    else:
        run = await gateway.start()
        assert (await run.result()).status == "failed"
    assert [charge for _, charge in await gateway.charges()] == [[4, 1]]
    assert gateway.gate.outcomes == ["failed"]
