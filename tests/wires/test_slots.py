"""The slots that runs of code and readers of files wait for: never too many, and a turn for every tenant."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from antiphon.wires.slots import FairSlots


class Runs:
    """Runs that go on until they are told to end."""

    def __init__(self, count: int, *, all_for_one: bool = False) -> None:
        self.slots = FairSlots(count, all_for_one=all_for_one)
        self.running: list[str] = []
        self.ends: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, *tenants: str) -> None:
        self.tasks += [asyncio.create_task(self._run(tenant)) for tenant in tenants]
        await self.settle()

    async def _run(self, tenant: str) -> None:
        async with self.slots.hold(tenant):
            end = asyncio.Event()
            self.running.append(tenant)
            self.ends.append(end)
            try:
                await end.wait()
            finally:
                self.running.remove(tenant)
                if end in self.ends:
                    self.ends.remove(end)

    async def end_first(self) -> None:
        self.ends.pop(0).set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_whoever_comes_late_waits_for_one_run_and_not_for_all_that_came_before() -> None:
    runs = Runs(2)
    await runs.start(*["many"] * 20, "few")
    assert runs.running == ["many", "few"]
    await runs.start("third")
    await runs.end_first()
    assert sorted(runs.running) == ["few", "third"]
    while runs.ends:
        await runs.end_first()
    assert all(task.done() for task in runs.tasks)


async def test_where_one_may_have_all_slots_another_has_the_next() -> None:
    runs = Runs(4, all_for_one=True)
    await runs.start(*["many"] * 6)
    assert runs.running == ["many"] * 4
    await runs.start("few")
    await runs.end_first()
    assert runs.running == ["many"] * 3 + ["few"]
    while runs.ends:
        await runs.end_first()


async def test_two_tenants_leave_a_slot_for_a_third() -> None:
    """They held all eight for as long as their code ran, up to a minute, and the third waited for that."""
    runs = Runs(8)
    await runs.start(*["one"] * 10, *["two"] * 10)
    assert Counter(runs.running) == {"one": 4, "two": 3}
    await runs.start("three")
    assert runs.running[-1] == "three"
    while runs.ends:
        await runs.end_first()
    assert all(task.done() for task in runs.tasks)


async def test_tenants_that_come_again_and_again_do_not_keep_one_waiting() -> None:
    """Each was taken for one that never had a turn, and went before those that had one long ago."""
    runs = Runs(1)
    await runs.start("patient", "patient", "new 1")
    order: list[str] = []
    for n in range(2, 6):
        order += runs.running
        await runs.start(f"new {n}")
        await runs.end_first()
    assert order == ["patient", "new 1", "new 2", "patient"]
    while runs.ends:
        await runs.end_first()
    assert all(task.done() for task in runs.tasks)


async def test_nothing_is_kept_of_tenants_that_are_gone() -> None:
    runs = Runs(2)
    await runs.start("one", "one", "two")
    runs.tasks[1].cancel()
    await runs.start("three")
    runs.tasks[-1].cancel()
    await runs.settle()
    while runs.ends:
        await runs.end_first()
    assert not runs.slots._running
    assert not runs.slots._since
    assert not runs.slots._waiting


async def test_a_tenant_alone_has_half_of_the_slots_and_at_least_one() -> None:
    for count, most in ((8, 4), (3, 1), (1, 1)):
        runs = Runs(count)
        await runs.start(*["one"] * 10)
        assert len(runs.running) == most
        while runs.ends:
            await runs.end_first()
        assert all(task.done() for task in runs.tasks)


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from(["start", "end", "cancel"]), st.sampled_from("abc")), max_size=60),
)
def test_whatever_happens_slots_are_neither_lost_nor_doubled(
    count: int, steps: list[tuple[str, str]]
) -> None:
    async def main() -> None:
        runs = Runs(count)
        for what, tenant in steps:
            if what == "start":
                await runs.start(tenant)
            elif what == "end" and runs.ends:
                await runs.end_first()
            elif what == "cancel":
                for task in [task for task in runs.tasks if not task.done()][:1]:
                    task.cancel()
                    await runs.settle()
            assert len(runs.running) <= count
            assert all(n <= max(1, count // 2) for n in Counter(runs.running).values())
        while runs.ends:
            await runs.end_first()
        await runs.settle()
        assert all(task.done() for task in runs.tasks)
        await runs.start("a")
        assert runs.running[-1:] == ["a"]
        await runs.end_first()

    asyncio.run(main())
