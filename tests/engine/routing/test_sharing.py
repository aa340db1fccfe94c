"""Machines in simulated time: what one finds out all know, one probes, and retries do not multiply."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.config import Target
from antiphon.engine.routing.retry_budget import LEAST, SHARE
from antiphon.engine.routing.sharing import INTERVAL, STALE, StateSharing, next_turn
from antiphon.engine.routing.states import States, TargetState
from antiphon.store import SqliteStore

TARGET = Target("up", "model")
STEP = INTERVAL / 8
LIMIT, COOLDOWN = 3, 5.0


class Machine:
    """One machine: its state, and the phase at which it ticks."""

    def __init__(self, store: SqliteStore, name: str, world: "World", phase: int) -> None:
        self.states = States([TARGET])
        self.sharing = StateSharing(self.states, store, name, lambda: world.now)
        self.phase = phase
        self.ends_at: float | None = None

    @property
    def state(self) -> TargetState:
        return self.states[TARGET]

    def fails(self, now: float) -> None:
        for _ in range(LIMIT):
            self.state.breaker.note_failure(now, "ordinary", limit=LIMIT, cooldown=COOLDOWN)


class World:
    """Machines over one data folder, each with a store of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.steps = 0
        self.machines: list[Machine] = []

    async def step(self) -> None:
        self.now += STEP
        self.steps += 1
        for machine in self.machines:
            if self.steps % 8 == machine.phase:
                await machine.sharing.tick()

    async def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            await self.step()


def played(phases: list[int], play: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            world = World()
            for n, phase in enumerate(phases):
                store = await SqliteStore.open(folder)
                stack.push_async_callback(store.close)
                world.machines.append(Machine(store, f"m{n}", world, phase))
                stack.callback(world.machines[-1].states.close)
            await world.wait(INTERVAL * 2)
            await play(world)

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


phases = st.lists(st.integers(0, 7), min_size=2, max_size=4)


@settings(max_examples=10, deadline=None)
@given(phases, st.integers(0, 3))
def test_what_opens_on_one_machine_is_open_on_all_within_two_ticks(phases: list[int], which: int) -> None:
    async def play(world: World) -> None:
        world.machines[which % len(phases)].fails(world.now)
        opened = world.now
        await world.wait(INTERVAL * 2)
        while world.now < opened + COOLDOWN:
            assert not any(machine.state.breaker.admits(world.now) for machine in world.machines)
            await world.step()

    played(phases, play)


@settings(max_examples=10, deadline=None)
@given(phases, st.integers(0, 2**32))
def test_one_machine_at_a_time_probes(phases: list[int], seed: int) -> None:
    random = Random(seed)

    async def play(world: World) -> None:
        world.machines[0].fails(world.now)
        probes = 0
        ends = world.now + COOLDOWN + STALE * 8
        while world.now < ends:
            await world.step()
            for machine in world.machines:
                breaker = machine.state.breaker
                if machine.ends_at is not None and world.now >= machine.ends_at:
                    machine.ends_at = None
                    if random.random() < 0.5:
                        breaker.release("probe")
                    else:
                        breaker.note_failure(
                            world.now, "probe", limit=LIMIT, cooldown=random.uniform(1.0, 3.0)
                        )
                elif (
                    machine.ends_at is None
                    and random.random() < 0.5
                    and breaker.admit(world.now, machine.states.owner) == "probe"
                ):
                    machine.ends_at = world.now + random.uniform(0.0, 2.0)
                    probes += 1
            assert sum(machine.ends_at is not None for machine in world.machines) <= 1
        assert probes

    played(phases, play)


@settings(max_examples=5, deadline=None)
@given(phases)
def test_a_probe_that_is_answered_closes_it_on_all(phases: list[int]) -> None:
    async def play(world: World) -> None:
        world.machines[0].fails(world.now)
        await world.wait(COOLDOWN)
        prober: Machine | None = None
        while prober is None:
            await world.step()
            for machine in world.machines:
                if machine.state.breaker.admit(world.now, machine.states.owner) == "probe":
                    prober = machine
                    break
        prober.state.breaker.note_success("probe")
        await world.wait(INTERVAL * 2)
        assert all(machine.state.breaker.is_closed for machine in world.machines)
        assert not any(machine.state.breaker.is_probed(world.now) for machine in world.machines)

    played(phases, play)


@settings(max_examples=10, deadline=None)
@given(phases, st.lists(st.integers(0, 60), min_size=4, max_size=4))
def test_the_retries_of_all_machines_have_a_bound(phases: list[int], sent: list[int]) -> None:
    async def play(world: World) -> None:
        taken = 0
        for machine, requests in zip(world.machines, sent, strict=False):
            for _ in range(requests):
                machine.state.budget.count_sent(world.now)
        for _ in range(20):
            await world.step()
            for machine in world.machines:
                while machine.state.budget.take(world.now):
                    taken += 1
        machines = len(world.machines)
        assert taken <= sum(sent[:machines]) // SHARE + LEAST + machines - 1

    played(phases, play)


def test_a_machine_that_is_silent_loses_its_probe_and_its_turn() -> None:
    async def play(world: World) -> None:
        dead, alive = world.machines
        dead.fails(world.now)
        await world.wait(COOLDOWN)
        while dead.state.breaker.admit(world.now, dead.states.owner) is None:
            await world.step()
        await world.wait(INTERVAL * 2)
        assert alive.state.breaker.is_probed(world.now)
        world.machines.remove(dead)
        died = world.now
        while not alive.state.breaker.admits(world.now):
            await world.step()
            assert world.now < died + STALE + INTERVAL * 2

    played([0, 3], play)


async def test_a_machine_of_another_version_does_not_end_the_sharing(tmp_path: Path) -> None:
    store, states, now = await SqliteStore.open(tmp_path), States([TARGET]), 1000.0
    sharing = StateSharing(states, store, "me", lambda: now, interval=0.01)
    breaker, name = states[TARGET].breaker, f"breaker:{TARGET}"
    try:
        await store.share("other", {name: (now, now + COOLDOWN)}, now, now)
        with pytest.raises(ValueError, match="values to unpack"):
            await sharing.tick()
        sharing.start()
        await until(lambda: sharing._is_failing)
        await store.share("other", {name: (now, now + COOLDOWN, 0.0, 0.0)}, now, now)
        await until(lambda: not breaker.is_closed)
    finally:
        await sharing.close()
        states.close()
        await store.close()


@given(st.integers(1, 5), st.floats(0, 100), st.floats(0, 300))
def test_turns_never_meet(machines: int, reopens_at: float, now: float) -> None:
    starts = [next_turn(reopens_at, turn, machines, now, INTERVAL) for turn in range(machines)]
    assert all(start >= reopens_at for start in starts)
    assert all(start > now - INTERVAL for start in starts) or machines == 1
    for one in range(machines):
        for other in range(one):
            assert abs(starts[one] - starts[other]) >= 4 * INTERVAL - 1e-6
