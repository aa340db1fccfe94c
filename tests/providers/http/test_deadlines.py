"""One timer for many: who is looked at, and when."""

import asyncio
from itertools import pairwise
from math import inf

from antiphon.providers.http import deadlines
from antiphon.providers.http.deadlines import DeadlineTimer
from tests.providers.fake_server import SOON


class Exchange:
    """Runs out of time at `due`."""

    def __init__(self, due: float) -> None:
        self.due = due
        self.looks: list[float] = []
        self.over = asyncio.Event()

    def check(self, now: float) -> float:
        self.looks.append(now)
        if now < self.due:
            return self.due
        self.over.set()
        return inf


async def test_the_first_to_run_out_of_time_is_found_first() -> None:
    now = asyncio.get_running_loop().time()
    watching = DeadlineTimer()
    early, late, never = Exchange(now + 0.03), Exchange(now + 500), Exchange(now + 1000)
    for exchange in (never, late, early):
        watching.add(exchange, exchange.due)
    await asyncio.wait_for(early.over.wait(), SOON)
    assert not late.over.is_set()
    assert not never.over.is_set()
    watching.close()


async def test_after_the_first_the_next_is_found() -> None:
    now = asyncio.get_running_loop().time()
    watching = DeadlineTimer()
    early, late, never = Exchange(now + 0.03), Exchange(now + 0.15), Exchange(now + 1000)
    for exchange in (early, late, never):
        watching.add(exchange, exchange.due)
    await asyncio.wait_for(early.over.wait(), SOON)
    await asyncio.wait_for(late.over.wait(), SOON)
    assert not never.over.is_set()
    watching.close()


async def test_one_look_for_many() -> None:
    now = asyncio.get_running_loop().time()
    watching = DeadlineTimer()
    exchanges = [Exchange(now + 0.01 + n / 1000) for n in range(50)]
    for exchange in exchanges:
        watching.add(exchange, exchange.due)
    for exchange in exchanges:
        await asyncio.wait_for(exchange.over.wait(), SOON)
    looks = sorted({look for exchange in exchanges for look in exchange.looks})
    between = [later - look for look, later in pairwise(looks)]
    assert all(pause >= deadlines.GRAIN * 0.9 for pause in between)
    watching.close()


async def test_who_has_left_is_not_looked_at() -> None:
    now = asyncio.get_running_loop().time()
    watching = DeadlineTimer()
    gone, here = Exchange(now + 0.01), Exchange(now + 0.02)
    watching.add(gone, gone.due)
    watching.add(here, here.due)
    watching.remove(gone)
    await asyncio.wait_for(here.over.wait(), SOON)
    assert gone.looks == []
    assert watching._timer is None


async def test_nobody_is_looked_at_after_closing() -> None:
    now = asyncio.get_running_loop().time()
    closed, open_ = DeadlineTimer(), DeadlineTimer()
    unseen, seen = Exchange(now + 0.01), Exchange(now + 0.03)
    closed.add(unseen, unseen.due)
    open_.add(seen, seen.due)
    closed.close()
    await asyncio.wait_for(seen.over.wait(), SOON)
    assert unseen.looks == []
