"""What a long conversation costs: CPU time inside the database, and of the whole turn, as a chain grows.

The gateway runs in this process, so that its store can be asked for its counters; only the HTTP server in
front of it is left out. Once a chain is long, each round measures turn 10 of a new chain and then the next
turn of the long one, in the same second: first with the store alone, then with whole turns, whose other
work leaves the processor's caches cold for the database.
"""

import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from antiphon.config import load as load_config
from antiphon.engine.engine import Caller
from antiphon.server.gateway import Gateway
from antiphon.spec.decode import decode_request
from antiphon.spec.ids import RESPONSE, new_id
from antiphon.store import Item, NewResponse, Store
from bench import load
from bench.contenders import PROMPT, folder, upstream, write_config

CALLER = Caller(tenant="bench")
EARLY = 10
ROUNDS = 30
_MODEL = "fake/burst-20"
_BODY = b'{"object":"response","metadata":"%b"}' % (b"x" * 800)
_INPUT = b'{"type":"message","role":"user","content":"%b"}' % (b"x" * 100)
_OUTPUT = b'{"type":"message","role":"assistant","content":"%b"}' % (b"x" * 150)

Turn = Callable[[str | None], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of one turn: in the database, and all in all."""

    database: float
    whole: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Turn 10 of short chains and the last turns of a long one, in pairs, and the ids at their ends."""

    pairs: list[tuple[Cost, Cost]]
    heads: tuple[str, str]

    def line(self, name: str, field: str) -> str:
        early, late = (
            [getattr(cost, field) * 1e6 for cost in side] for side in zip(*self.pairs, strict=True)
        )
        ratio = statistics.median(b / a for a, b in zip(early, late, strict=True))
        return f"{name:<30}{_figures(early):>18}{_figures(late):>18}{ratio:>9.2f}"


def run(*, turns: int) -> None:
    with folder() as where, upstream(where) as behind:
        config = write_config(where / "antiphon", behind.port)
        alone, whole = load.run(_both(config, turns))
        print(f"CPU µs a turn, medians of {ROUNDS} rounds (means in brackets); ratios are paired")
        print(f"{'':<30}{f'turn {EARLY}':>18}{f'turn {turns:,}':>18}{'ratio':>9}")
        print(alone.line("database alone", "database"))
        print(whole.line("database in a whole turn", "database"))
        print(whole.line("whole turn", "whole"))
        cold = [load.run(_cold(config, head)) * 1e6 for head in whole.heads]
        print(f"{'one read after a restart':<30}{cold[0]:>18.0f}{cold[1]:>18.0f}")


async def _both(config: Path, turns: int) -> tuple[Measured, Measured]:
    gateway = await Gateway.open(load_config(config))

    async def save(previous: str | None) -> str:
        return await _save(gateway.store, previous)

    async def turn(previous: str | None) -> str:
        return await _turn(gateway, previous)

    try:
        return await _measure(gateway.store, save, turns), await _measure(gateway.store, turn, turns)
    finally:
        await gateway.close()


async def _measure(store: Store, turn: Turn, turns: int) -> Measured:
    async def grown(length: int) -> str:
        head = await turn(None)
        for _ in range(length - 1):
            head = await turn(head)
        return head

    async def measured(head: str) -> tuple[str, Cost]:
        before, clock = store.stats, time.process_time()
        head = await turn(head)
        whole, after = time.process_time() - clock, store.stats
        database = after.read_cpu + after.write_cpu - before.read_cpu - before.write_cpu
        return head, Cost(database, whole)

    long = await grown(turns - ROUNDS)
    pairs: list[tuple[Cost, Cost]] = []
    for _ in range(ROUNDS):
        short, early = await measured(await grown(EARLY - 1))
        long, late = await measured(long)
        pairs.append((early, late))
    return Measured(pairs, (short, long))


async def _save(store: Store, previous: str | None) -> str:
    """A turn without a model: read the context, store a response after it."""
    context = await store.context(CALLER.tenant, previous) if previous else None
    id = new_id(RESPONSE)
    given, made = [Item(f"{id}_given", _INPUT)], [Item(f"{id}_made", _OUTPUT)]
    await store.save(
        NewResponse(id, CALLER.tenant, "completed", "m", 0, _BODY, given, made, previous=context)
    )
    return id


async def _turn(gateway: Gateway, previous: str | None) -> str:
    body = {"model": _MODEL, "input": PROMPT, "previous_response_id": previous}
    run = await gateway.engine.start(decode_request(json.dumps(body).encode()), CALLER)
    response = await run.result()
    if response.status != "completed":
        raise SystemExit(f"bench: a turn ended as {response.status}: {response.error}")
    return response.id


async def _cold(config: Path, id: str) -> float:
    """CPU seconds of the database for one context, when nothing is cached."""
    gateway = await Gateway.open(load_config(config))
    try:
        before = gateway.store.stats
        await gateway.store.context(CALLER.tenant, id)
        after = gateway.store.stats
        assert after.reads - before.reads == 1
        return after.read_cpu - before.read_cpu
    finally:
        await gateway.close()


def _figures(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({statistics.fmean(values):.0f})"
