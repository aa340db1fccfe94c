"""Whoever follows a response is woken by what is written about it, and by nothing else."""

import asyncio

import pytest

from antiphon.store.changes import Changes

LONG = 60.0


async def test_a_change_wakes_those_who_follow_it() -> None:
    changes = Changes(LONG)
    with changes.watch("a") as first, changes.watch("a") as second, changes.watch("b") as other:
        changes.notify("a")
        async with asyncio.timeout(5):
            await first.wait()
            await second.wait()
        waiting = asyncio.create_task(other.wait())
        await asyncio.sleep(0)
        changes.notify("a")
        await asyncio.sleep(0)
        assert not waiting.done()
        changes.notify_all()
        async with asyncio.timeout(5):
            await waiting


async def test_a_change_between_reading_and_waiting_is_not_lost() -> None:
    changes = Changes(LONG)
    with changes.watch("a") as watch:
        watch.mark_read()
        changes.notify("a")
        async with asyncio.timeout(5):
            await watch.wait()
        watch.mark_read()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await watch.wait()


async def test_who_hears_nothing_looks_by_itself() -> None:
    with Changes(0.01).watch("a") as watch:
        async with asyncio.timeout(5):
            await watch.wait()


async def test_nobody_is_remembered_after_leaving() -> None:
    changes = Changes(LONG)
    with changes.watch("a"), changes.watch("a"):
        pass
    changes.notify("a")
    changes.notify_all()
    assert not changes._watches
