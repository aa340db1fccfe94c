"""The gate of a run: it lets a run in once, and is asked before each attempt."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.engine import compaction
from antiphon.engine.background.background import Background
from antiphon.engine.failures import problem_of
from antiphon.engine.request_context import RequestContext
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Finish, TextDelta, UsageDelta
from antiphon.wires.run_gate import Admission, RunStopped, SettlementRow
from antiphon.wires.run_listener import AttemptInfo, RunInfo, SilentListener, Spent
from tests.engine.played import Step
from tests.engine.routed import CUT, Scenes, World

FINE: list[Step] = [[], [TextDelta("fine")], [UsageDelta(Usage.of(3, 2)), Finish()]]
AWAY: list[Step] = [UpstreamError(ErrorPayload("server_error", "no", "upstream_unreachable"), 502)]
NO_MORE = ErrorPayload("too_many_requests", "the budget is used up", "insufficient_quota")


class Limited:
    """A gate that allows so many attempts; `refuses` are providers that may not be asked."""

    def __init__(self, attempts: int = 100, *, admits: bool = True, refuses: tuple[str, ...] = ()) -> None:
        self.left = attempts
        self.admits = admits
        self.refuses = refuses
        self.calls: list[str] = []

    async def admit(self, run: RunInfo) -> Admission:
        self.calls.append("admit")
        await asyncio.sleep(0)
        if not self.admits:
            raise SpecError(NO_MORE, 429)
        return self

    async def rejoin(self, run: RunInfo) -> Admission:
        self.calls.append(f"rejoin {run.id}")
        return self

    async def reserve(self, attempt: AttemptInfo) -> None:
        self.calls.append(f"reserve {attempt.provider}")
        await asyncio.sleep(0)
        if attempt.provider in self.refuses:
            raise SpecError(NO_MORE, 429)
        if not self.left:
            raise RunStopped(NO_MORE)
        self.left -= 1

    def settle(self, spent: Spent) -> tuple[SettlementRow, ...]:
        return ()


class Ends(SilentListener):
    def __init__(self) -> None:
        self.attempts: list[tuple[str, str]] = []
        self.runs: list[Spent] = []

    def attempt_ended(self, run: RunInfo, attempt: AttemptInfo, spent: Spent) -> None:
        self.attempts.append((attempt.provider, spent.outcome))

    def run_ended(self, run: RunInfo, spent: Spent) -> None:
        self.runs.append(spent)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


def guarded(store: SqliteStore, gate: Limited, *providers: Scenes, **settings: Any) -> tuple[World, Ends]:
    world, ends = World(store, *providers, **settings), Ends()
    world.engine.services.gate = gate
    world.engine.listen(ends)
    return world, ends


async def test_a_run_is_admitted_once_and_each_attempt_is_reserved(store: SqliteStore) -> None:
    gate, a, b = Limited(), Scenes("a", AWAY), Scenes("b", FINE)
    world, ends = guarded(store, gate, a, b)
    run, _ = await world.stream()
    assert run.response.status == "completed"
    assert gate.calls == ["admit", "reserve a", "reserve b"]
    assert ends.attempts == [("a", "failed"), ("b", "answered")]


async def test_a_run_that_is_refused_asks_nothing_and_never_begins(store: SqliteStore) -> None:
    a = Scenes("a", FINE)
    world, ends = guarded(store, Limited(admits=False), a)
    run = await world.start()
    with pytest.raises(SpecError) as refused:
        await run.result()
    assert refused.value.status == 429
    assert (a.turns, ends.attempts, ends.runs) == ([], [], [])


async def test_a_target_that_is_refused_leaves_its_turn_to_the_next(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    world, ends = guarded(store, Limited(refuses=("a",)), a, b)
    run, _ = await world.stream()
    assert run.response.model == "b/m"
    assert a.turns == []
    assert ends.attempts == [("b", "answered")]


async def test_a_run_that_is_stopped_between_attempts_is_incomplete_and_keeps_its_words(
    store: SqliteStore,
) -> None:
    a, b = Scenes("a", [[], [TextDelta("Well, ")], CUT]), Scenes("b", FINE)
    world, ends = guarded(store, Limited(1), a, b, on_cut="continue")
    run, events = await world.stream()
    assert events[-1].type == "response.incomplete"
    assert run.response.incomplete_details is not None
    assert run.response.incomplete_details.reason == "budget"
    assert run.response.output_text == "Well, "
    assert run.problem is None
    assert b.turns == []
    assert (len(ends.runs), ends.attempts) == (1, [("a", "failed")])
    assert await store.get("", run.response.id) is not None


async def test_where_there_is_no_response_a_stopped_run_is_an_error(store: SqliteStore) -> None:
    world, ends = guarded(store, Limited(0), Scenes("a", FINE))
    state = world.engine.new_run(RequestContext(), "compaction")
    run = await compaction.start(world.engine, CompactRequest(model="r", input="hi"), state)
    with pytest.raises(SpecError) as refused:
        await compaction.finish(world.engine, run)
    assert (refused.value.status, refused.value.payload.code) == (429, "insufficient_quota")
    assert len(ends.runs) == 1
    assert problem_of(RunStopped(NO_MORE), "req_1").status == 429


@pytest.mark.parametrize("admits", [True, False])
async def test_a_background_response_is_admitted_before_it_is_queued(
    store: SqliteStore, admits: bool
) -> None:
    gate = Limited(admits=admits)
    world, ends = guarded(store, gate, Scenes("a", FINE))
    background = Background(world.engine)
    await background.open()
    state = world.engine.new_run(RequestContext())
    request = Request(model="r", input="hi", background=True)
    if admits:
        job = await background.start(request, state)
        assert gate.calls[0] == "admit"
        await job.ended.wait()
        await background.wait_until_idle()
        assert (gate.calls, len(ends.runs)) == (["admit", "reserve a"], 1)
    else:
        with pytest.raises(SpecError):
            await background.start(request, state)
        assert await store.get("", state.id) is None
        assert ends.runs == []
    await background.close()


async def test_an_attempt_that_is_cancelled_ends_once(store: SqliteStore) -> None:
    held = asyncio.Event()
    a = Scenes("a", [[], [TextDelta("Well")], held])
    world, ends = guarded(store, Limited(), a)
    task = asyncio.ensure_future(world.stream())
    await a.waiting.wait()
    task.cancel()
    await asyncio.wait({task})
    assert ends.attempts == [("a", "cancelled")]
    assert len(ends.runs) == 1
