"""Resident memory of our gateway: at rest, for each idle connection and open stream, and over many deltas."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import load
from bench.contenders import Contender, folder, ours, over_socket, start_ours, upstream
from bench.figures import Recorder
from bench.options import Options
from bench.outcome import Outcome, Request
from bench.processes import Program

MB = 1_000_000
WARM_UP = 200
IDLE = 500
_SETTLE = 1.0


@dataclass(frozen=True, slots=True)
class Held:
    """So many connections with so many requests each, looked at after `wait` seconds."""

    request: Request
    count: int
    requests: int
    wait: float


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


def run(record: Recorder, options: Options) -> None:
    with folder() as where, upstream(where) as behind:
        # Each kind has a process of its own: what one leaves behind would be room for the next.
        with started(where / "http", behind.port, record) as program:
            request = replace(ours(program).request("each-64", stream=False), keeps=True)
            held(record, program, "idle HTTP connection", Held(request, IDLE, 1, 0.0))
        with started(where / "socket", behind.port) as program:
            request = replace(over_socket(program).request("each-64", stream=True), keeps=True)
            held(record, program, "idle WebSocket", Held(request, IDLE, 0, 0.5))
        with started(where / "streams", behind.port) as program:
            request = ours(program).request("paced-600-1000", stream=True)
            count = options.streams
            resident = held(record, program, "open stream", Held(request, count, 1, 3.0))
            tell(record, f"resident with {count:,} open streams, one token a second", resident / MB, "MB")
        # With a small cache of contexts, which is soon full, whatever still grows is a leak.
        with start_ours(where / "growth", behind.port, cache="1 MiB") as program:
            growth(record, ours(program), LONG if options.long else SHORT)


def tell(record: Recorder, name: str, value: float, unit: str) -> None:
    print(f"{name:<52}{record.add(name, [value], unit).median:>10.1f} {unit}", flush=True)


@contextmanager
def started(where: Path, behind: int, record: Recorder | None = None) -> Iterator[Program]:
    """A gateway that has answered some requests."""
    with start_ours(where, behind) as program:
        program.wait_until_up("/healthz")
        if record:
            tell(record, "resident when it starts", program.resident() / MB, "MB")
        for stream in (False, True):
            request = ours(program).request("each-64", stream=stream)
            load.run(load.send(request, count=WARM_UP, connections=16, limit=20))
        if record:
            tell(record, f"resident after {2 * WARM_UP} requests", program.resident() / MB, "MB")
        yield program


def held(record: Recorder, program: Program, name: str, what: Held) -> int:
    """Resident bytes while all of them are open."""
    before = program.resident()
    resident = load.run(_held(program, what))
    tell(record, f"each {name}, of {what.count:,}", (resident - before) / what.count / 1000, "kB")
    return resident


async def _held(program: Program, what: Held) -> int:
    opened = await load.hold(what.request, streams=what.count, outcome=Outcome(), requests=what.requests)
    try:
        await asyncio.sleep(what.wait)
        return program.resident()
    finally:
        for connection in opened:
            connection.close()
        await asyncio.sleep(_SETTLE)


def growth(record: Recorder, one: Contender, stretch: Stretch) -> None:
    """The first quarter fills every pool and cache; what counts is what comes after it."""
    one.program.wait_until_up("/healthz")
    request = one.request(stretch.model, stream=True)
    marks: list[float] = []
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
            marks.append(one.program.resident() / MB)
    for quarter, mark in enumerate(marks, 1):
        record.add(f"resident after quarter {quarter} of the deltas", [mark], "MB")
    record.ratio("resident, last quarter / first", marks[-1:], marks[:1])
    shown = ", ".join(f"{mark:.1f}" for mark in marks)
    print(f"{f'{deltas:,} deltas in {seconds:.0f} s, after each quarter':<52}  {shown} MB")
