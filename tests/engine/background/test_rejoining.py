"""The gate of a background run that another process ends: one that fails, and runs that end elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from antiphon.engine.background import takeover
from antiphon.engine.run_state import RunState
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore, StoreConflict, StoredResponse
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import TextDelta, UsageDelta
from antiphon.wires.run_gate import Admission, SettlementRow
from antiphon.wires.run_listener import RunInfo, Spent
from tests.engine.background.owners import DEADLINE
from tests.engine.routed import Scenes
from tests.engine.test_settlement import FINE, TENANT, Counting, Gateway

NO_MORE = ErrorPayload("too_many_requests", "the budget is used up", "insufficient_quota")


class Rejoining(Counting):
    """A gate that keeps the runs that it is to rejoin, and raises `failure` instead where there is one."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.rejoined: list[RunState] = []

    async def rejoin(self, run: RunInfo) -> Admission:
        assert isinstance(run, RunState)
        self.rejoined.append(run)
        if self.failure is not None:
            raise self.failure
        return self


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def left(store: SqliteStore) -> StoredResponse:
    """A response that a process has begun and left."""
    provider = Scenes("a", [[], [TextDelta("Well")], [UsageDelta(Usage.of(3, 1))], asyncio.Event()])
    gateway = Gateway(store, provider)
    async with gateway.background() as background:
        job = await gateway.queue(background)
        await provider.waiting.wait()
    found = await store.get(TENANT, job.id)
    assert found is not None
    return found


def successor(store: SqliteStore, gate: Rejoining) -> Gateway:
    gateway = Gateway(store, Scenes("a", FINE))
    gateway.gate = gateway.engine.services.gate = gate
    gateway.engine.listen(gate)
    return gateway


@pytest.mark.parametrize("failure", [SpecError(NO_MORE, 429), ValueError("a mistake in the gate")])
async def test_a_response_that_its_gate_does_not_rejoin_ends_without_a_settlement(
    store: SqliteStore, left: StoredResponse, failure: Exception
) -> None:
    gate = Rejoining(failure)
    gateway = successor(store, gate)
    async with gateway.background() as background, asyncio.timeout(DEADLINE):
        assert await gateway.end_of(left.id) == "failed"
        await background.wait_until_idle()
    found = await store.get(TENANT, left.id)
    assert found is not None
    assert (b"insufficient_quota" in found.body) == isinstance(failure, SpecError)
    assert await gateway.charges() == []
    assert gate.ended == [left.id]


async def test_a_background_response_whose_gate_cannot_settle_ends(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(spent: Spent) -> Sequence[SettlementRow]:
        raise ValueError("a mistake in the gate")

    gateway = Gateway(store, Scenes("a", FINE, FINE))
    monkeypatch.setattr(gateway.gate, "settle", fail)
    async with gateway.background() as background:
        job = await gateway.queue(background)
        assert await gateway.end_of(job.id) == "completed"
        await background.wait_until_idle()
    run = await gateway.start()
    assert (await run.result()).status == "completed"
    assert await gateway.charges() == []
    assert gateway.gate.outcomes == ["answered", "answered"]
    assert caplog.text.count("the gate could not settle request") == 2


async def test_a_run_that_cannot_be_gone_on_with_is_rejoined_once(
    store: SqliteStore, left: StoredResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(takeover, "_continue_run", fail)
    gate = Rejoining()
    gateway = successor(store, gate)
    async with gateway.background() as background, asyncio.timeout(DEADLINE):
        assert await gateway.end_of(left.id) == "failed"
        await background.wait_until_idle()
    assert len(gate.rejoined) == 1
    assert await gateway.charges() == [(left.id, [4, 1])]
    assert gate.ended == [left.id]


async def test_a_run_that_another_process_has_ended_is_left(store: SqliteStore, left: StoredResponse) -> None:
    gate = Rejoining()
    gateway = successor(store, gate)
    async with gateway.background() as background:
        assert await gateway.end_of(left.id) == "completed"
        await background.wait_until_idle()
        gate.rejoined.clear()
        gate.ended.clear()
        assert not await background._end_from_log(left, Composer.cancel)
        assert [run.phase for run in gate.rejoined] == ["over"]
    assert gate.ended == []
    assert await gateway.charges() == [(left.id, [9, 2])]


async def test_a_run_is_left_where_the_store_refuses_its_end(
    store: SqliteStore, left: StoredResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(change: object) -> bool:
        raise StoreConflict("an event of this number is there")

    gate = Rejoining()
    gateway = successor(store, gate)
    async with gateway.background() as background:
        assert await gateway.end_of(left.id) == "completed"
        await background.wait_until_idle()
        gate.rejoined.clear()
        monkeypatch.setattr(store, "update", refuse)
        with pytest.raises(StoreConflict):
            await background._end_from_log(left, Composer.cancel)
        assert [run.phase for run in gate.rejoined] == ["over"]
