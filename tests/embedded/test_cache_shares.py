"""Room in the cache of the model: never more than there is, in order, and free again in every case."""

import asyncio
import multiprocessing
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from antiphon.embedded.process_sharing import SHARES, CacheShares

CONTEXT = SHARES * 100


def ignore() -> None:
    return


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Asking:
    """A request for room, in a task of its own."""

    def __init__(self, shares: CacheShares, tokens: int, tenant: str = "") -> None:
        self.waited = 0
        self.has_room = asyncio.Event()
        self._end = asyncio.Event()
        self.task = asyncio.create_task(self._ask(shares, tokens, tenant))

    async def _ask(self, shares: CacheShares, tokens: int, tenant: str) -> None:
        async with shares.hold(tokens, tenant, self._wait):
            self.has_room.set()
            await self._end.wait()

    def _wait(self) -> None:
        self.waited += 1

    async def end(self) -> None:
        self._end.set()
        await self.task


async def test_what_fits_does_not_wait(tmp_path: Path) -> None:
    shares = CacheShares(tmp_path / "m", CONTEXT)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(shares.hold(CONTEXT // 4, "", pytest.fail))


async def test_what_does_not_fit_waits_in_order_and_a_small_one_overtakes_no_large_one(
    tmp_path: Path,
) -> None:
    shares = CacheShares(tmp_path / "m", CONTEXT)
    first = Asking(shares, 300)
    await first.has_room.wait()
    large, small = Asking(shares, CONTEXT), Asking(shares, 1)
    await settle()
    assert (large.waited, small.waited) > (0, 0)
    assert not large.has_room.is_set()
    assert not small.has_room.is_set()
    await first.end()
    await large.has_room.wait()
    assert not small.has_room.is_set()
    await large.end()
    await small.has_room.wait()
    await small.end()


async def test_room_is_given_to_another_tenant_before_more_of_the_same(tmp_path: Path) -> None:
    shares = CacheShares(tmp_path / "m", CONTEXT)
    first, second, third = (Asking(shares, CONTEXT, "alice") for _ in range(3))
    await first.has_room.wait()
    other = Asking(shares, CONTEXT, "bob")
    await settle()
    await first.end()
    await second.has_room.wait()  # it had the turn already
    await second.end()
    await other.has_room.wait()
    assert not third.has_room.is_set()
    await other.end()
    await third.end()


@pytest.mark.parametrize("tokens", [0, 1, CONTEXT, 100 * CONTEXT])
async def test_no_request_is_too_small_or_too_large(tmp_path: Path, tokens: int) -> None:
    async with CacheShares(tmp_path / "m", CONTEXT).hold(tokens, "", pytest.fail):
        pass


async def test_who_gives_up_waiting_leaves_nothing_behind(tmp_path: Path) -> None:
    shares = CacheShares(tmp_path / "m", CONTEXT)
    async with shares.hold(CONTEXT // 2, "", ignore):
        leaving = Asking(shares, CONTEXT)
        await settle()
        leaving.task.cancel()
        await asyncio.gather(leaving.task, return_exceptions=True)
        async with shares.hold(CONTEXT // 2, "", pytest.fail):
            pass
    async with shares.hold(CONTEXT, "", pytest.fail):
        pass


def hold_until_killed(path: Path, ready: Connection) -> None:
    async def hold() -> None:
        async with CacheShares(path, CONTEXT).hold(CONTEXT, "", ignore):
            ready.send(True)
            await asyncio.Event().wait()

    asyncio.run(hold())


async def test_the_processes_of_a_host_share_it_and_one_that_dies_gives_its_room_back(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=hold_until_killed, args=(tmp_path / "m", theirs), daemon=True)
    other.start()
    try:
        assert await asyncio.to_thread(ours.recv)
        waiting = Asking(CacheShares(tmp_path / "m", CONTEXT), 1)
        await settle()
        assert waiting.waited
        assert not waiting.has_room.is_set()
    finally:
        other.kill()
        other.join()
    await waiting.has_room.wait()
    await waiting.end()
