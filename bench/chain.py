"""What a long conversation costs: CPU time inside the database, and of the whole turn, as a chain grows.

The gateway runs in this process, so that its store can be asked for its counters; only the HTTP server in
front of it is left out. Once a chain is long, each round measures turn 10 of a new chain and then a turn of
the long one, in the same second: first with the store alone, then with whole turns. A long turn leaves the
processor's caches cold for the database, which writes after it, and a short one does not: so both are
measured again with the same long turn, one that is not stored, between the turn and its writing.
"""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.config import load as load_config
from antiphon.engine.request_context import RequestContext
from antiphon.providers.registry import TYPES
from antiphon.server.gateway import Gateway
from antiphon.spec.decode import decode_request
from antiphon.spec.ids import RESPONSE, new_id
from antiphon.store import NewResponse, Store
from bench import load
from bench.contenders import PROMPT, folder, upstream, write_config
from bench.figures import TIMES, Place, Recorder
from bench.options import Options

CALLER = RequestContext(tenant="bench")
EARLY = 10
LENGTHS = (30, 100, 300)
"""Where a growing chain is also compared with turn 10, besides at its end."""
ROUNDS = 40
ROUNDS_ON_THE_WAY = 6
CHART = "turn by chain"
_MODEL = "fake/burst-20"
_BODY = b'{"object":"response","metadata":"%b"}' % (b"x" * 800)
_INPUT = b'{"type":"message","role":"user","content":"%b"}' % (b"x" * 100)
_OUTPUT = b'{"type":"message","role":"assistant","content":"%b"}' % (b"x" * 150)

Turn = Callable[[str | None], Awaitable[str]]
After = Callable[[str], Awaitable[object]]
"""What is done between a turn and its writing, with the head of the long chain."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of one turn: in the database, and all in all."""

    database: float
    whole: float


Pairs = list[tuple[Cost, Cost]]
"""Turn 10 of a short chain and a turn of a long one, measured one after the other."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Pairs by what was done around a turn and by the length of the long chain; and the ends of both."""

    pairs: list[dict[int, Pairs]]
    heads: tuple[str, str]


def run(record: Recorder, options: Options) -> None:
    turns = options.turns
    with folder() as where, upstream(where) as behind:
        config = write_config(where / "antiphon", behind.port)
        alone, whole = load.run(_both(config, turns))
        print(f"CPU µs a turn, medians of {ROUNDS} rounds; ratios are paired")
        print(f"{'':<30}{f'turn {EARLY}':>18}{f'turn {turns:,}':>18}{'ratio':>24}")
        for name, pairs, of in (
            ("database alone", alone.pairs[0], _database),
            ("database in a whole turn", whole.pairs[0], _database),
            ("database after a long turn", whole.pairs[1], _database),
            ("whole turn", whole.pairs[0], _whole),
        ):
            _tell(record, name, pairs, of)
        cold = [load.run(_cold(config, head)) * 1e6 for head in whole.heads]
        for turn, value in zip((EARLY, turns), cold, strict=True):
            record.add(f"one read after a restart, turn {turn:,}", [value], "µs")
        print(f"{'one read after a restart':<30}{cold[0]:>18.0f}{cold[1]:>18.0f}")


def _tell(record: Recorder, name: str, by_length: dict[int, Pairs], of: Callable[[Cost], float]) -> None:
    record.add(f"{name}, turn {EARLY} / turn {EARLY}", [1.0], TIMES, place=Place(CHART, name, EARLY))
    for length, pairs in by_length.items():
        early, late = ([of(cost) * 1e6 for cost in side] for side in zip(*pairs, strict=True))
        place = Place(CHART, name, length)
        ratio = record.ratio(f"{name}, turn {length:,} / turn {EARLY}", late, early, place=place)
    first = record.add(f"{name}, turn {EARLY}", early, "µs")
    last = record.add(f"{name}, turn {length:,}", late, "µs")
    print(f"{name:<30}{first.median:>18.0f}{last.median:>18.0f}{ratio!s:>24}")


def _database(cost: Cost) -> float:
    return cost.database


def _whole(cost: Cost) -> float:
    return cost.whole


async def _both(config: Path, turns: int) -> tuple[Measured, Measured]:
    gateway = await Gateway.open(load_config(config, types=TYPES))

    async def save(previous: str | None) -> str:
        return await save_turn(gateway.store, previous)

    async def turn(previous: str | None) -> str:
        return await _turn(gateway, previous)

    async def unstored(previous: str) -> str:
        return await _turn(gateway, previous, store=False)

    try:
        alone = await _measure(gateway.store, save, turns, [_nothing])
        return alone, await _measure(gateway.store, turn, turns, [_nothing, unstored])
    finally:
        await gateway.close()


async def _nothing(head: str) -> None:
    return None


async def _measure(store: Store, turn: Turn, turns: int, afters: Sequence[After]) -> Measured:
    async def grown(length: int) -> str:
        head = await turn(None)
        for _ in range(length - 1):
            head = await turn(head)
        return head

    async def measured(head: str, after: After, beside: str | None = None) -> tuple[str, Cost]:
        # Both find the end of their chain as it was written just before. A response is written a moment after
        # its turn; looking one up waits for all that are on their way.
        head = await turn(head)
        await store.get(CALLER.tenant, head)
        before, clock = store.stats, time.process_time()
        head = await turn(head)
        spent, read = time.process_time() - clock, store.stats.read_cpu - before.read_cpu
        await after(beside or head)
        await store.get(CALLER.tenant, head)
        written = store.stats.write_cpu - before.write_cpu
        return head, Cost(read + written, spent + written)

    found: list[dict[int, Pairs]] = [{} for _ in afters]
    long, length = await turn(None), 1
    for goal in (*(one for one in LENGTHS if one < turns - 2 * ROUNDS), turns):
        rounds = ROUNDS if goal == turns else ROUNDS_ON_THE_WAY
        while length < goal - rounds * len(afters):  # half of what the rounds will add
            long, length = await turn(long), length + 1
        for _ in range(rounds):
            for after, by_length in zip(afters, found, strict=True):
                short, early = await measured(await grown(EARLY - 2), after, beside=long)
                long, late = await measured(long, after)
                by_length.setdefault(goal, []).append((early, late))
                length += 2
                # Of twelve rows a round always the same ones would begin a new page of the table.
                await turn(None)
    return Measured(found, (short, long))


async def save_turn(store: Store, previous: str | None) -> str:
    """A turn without a model: read the context, store a response after it."""
    context = await store.context(CALLER.tenant, previous) if previous else None
    id = new_id(RESPONSE)
    names = [f"{id}_given", f"{id}_made"]
    await store.save(
        NewResponse(id, CALLER.tenant, "completed", "m", 0, _BODY, _INPUT, _OUTPUT, names, context)
    )
    return id


async def _turn(gateway: Gateway, previous: str | None, *, store: bool = True) -> str:
    body = {"model": _MODEL, "input": PROMPT, "previous_response_id": previous, "store": store}
    run = await gateway.engine.start(
        decode_request(json.dumps(body).encode()), gateway.engine.new_run(CALLER)
    )
    response = await run.result()
    if response.status != "completed":
        raise SystemExit(f"bench: a turn ended as {response.status}: {response.error}")
    return response.id


async def _cold(config: Path, id: str) -> float:
    """CPU seconds of the database for one context, when nothing is cached."""
    gateway = await Gateway.open(load_config(config, types=TYPES))
    try:
        before = gateway.store.stats
        await gateway.store.context(CALLER.tenant, id)
        after = gateway.store.stats
        assert after.reads - before.reads == 1
        return after.read_cpu - before.read_cpu
    finally:
        await gateway.close()
