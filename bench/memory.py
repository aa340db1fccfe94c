"""Resident memory of our gateway: at rest, for each open stream, and its growth over many deltas."""

import asyncio
import time
from dataclasses import dataclass

from bench import load
from bench.contenders import Contender, folder, start_ours, upstream

MB = 1_000_000
WARM_UP = 200
_SETTLE = 1.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """How long the growth is watched: until so many deltas and so many seconds have passed."""

    model: str
    tokens: int
    connections: int
    deltas: int
    seconds: float


SHORT = Stretch("burst-2000", 2000, 16, 1_000_000, 0)
LONG = Stretch("paced-500-20", 500, 100, 1_000_000, 600)


def run(*, streams: int, long: bool) -> None:
    with folder() as where, upstream(where) as behind:
        with start_ours(where / "defaults", behind.port) as program:
            at_rest(Contender(program, speaks_responses=True), streams)
        # With a small cache of contexts, which is soon full, whatever still grows is a leak.
        with start_ours(where / "growth", behind.port, cache="1 MiB") as program:
            growth(Contender(program, speaks_responses=True), LONG if long else SHORT)


def at_rest(ours: Contender, streams: int) -> None:
    ours.program.wait_until_up("/healthz")
    print(f"{'resident when it starts':<44}{ours.program.resident() / MB:>10.1f} MB   aim < 90")
    for stream in (False, True):
        request = ours.request("each-64", stream=stream)
        load.run(load.send(request, count=WARM_UP, connections=16, limit=20))
    warm = ours.program.resident()
    print(f"{f'after {2 * WARM_UP} requests':<44}{warm / MB:>10.1f} MB   aim < 90")
    held = load.run(_held(ours, streams))
    each = (held - warm) / streams / 1000
    print(f"{f'with {streams} open streams, one token a second':<44}{held / MB:>10.1f} MB")
    print(f"{'for each open stream':<44}{each:>10.1f} kB   aim < 30")


async def _held(ours: Contender, streams: int) -> int:
    """Resident bytes while all of them are open and each has had some deltas."""
    opened = await load.hold(ours.request("paced-600-1000", stream=True), streams=streams)
    try:
        await asyncio.sleep(3)
        return ours.program.resident()
    finally:
        for connection in opened:
            connection.close()
        await asyncio.sleep(_SETTLE)


def growth(ours: Contender, stretch: Stretch) -> None:
    """The first quarter fills every pool and cache; what counts is what comes after it."""
    ours.program.wait_until_up("/healthz")
    request = ours.request(stretch.model, stream=True)
    marks: list[int] = []
    deltas = 0
    seconds = passed = 0.0
    started = time.perf_counter()
    while passed < 1:
        outcome = load.run(
            load.send(request, count=stretch.connections, connections=stretch.connections, limit=60)
        )
        if outcome.failed or not outcome.answers:
            raise SystemExit(f"bench: {outcome.failed} of {outcome.answers} streams failed")
        deltas += outcome.answers * stretch.tokens
        seconds = time.perf_counter() - started
        passed = deltas / stretch.deltas
        if stretch.seconds:
            passed = min(passed, seconds / stretch.seconds)
        while len(marks) < min(4, int(passed * 4)):
            marks.append(ours.program.resident())
    shown = ", ".join(f"{mark / MB:.1f}" for mark in marks)
    print(f"{f'{deltas:,} deltas in {seconds:.0f} s, after each quarter':<44}  {shown} MB   aim flat")
