"""What a long conversation costs: CPU time inside the database, and of the whole turn, as a chain grows.

The gateway runs in this process, so that its store can be asked for its counters; only the HTTP server in
front of it is left out. Once a chain is long, each round measures turn 10 of a new chain and then the next
turn of the long one, in the same second: first with the store alone, then with whole turns, whose other
work leaves the processor's caches cold for the database.
"""

import json
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
from bench.figures import TIMES, Place, Recorder
from bench.options import Options

CALLER = Caller(tenant="bench")
EARLY = 10
LENGTHS = (30, 100, 300)
"""Where a growing chain is also compared with turn 10, besides at its end."""
ROUNDS = 30
ROUNDS_ON_THE_WAY = 8
CHART = "turn by chain"
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


Pairs = list[tuple[Cost, Cost]]
"""Turn 10 of a short chain and the next turn of a long one, measured one after the other."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Pairs by the length of the long chain, and the ids at the ends of both."""

    pairs: dict[int, Pairs]
    heads: tuple[str, str]


def run(record: Recorder, options: Options) -> None:
    turns = options.turns
    with folder() as where, upstream(where) as behind:
        config = write_config(where / "antiphon", behind.port)
        alone, whole = load.run(_both(config, turns))
        print(f"CPU µs a turn, medians of {ROUNDS} rounds; ratios are paired")
        print(f"{'':<30}{f'turn {EARLY}':>18}{f'turn {turns:,}':>18}{'ratio':>24}")
        for name, measured, of in (
            ("database alone", alone, _database),
            ("database in a whole turn", whole, _database),
            ("whole turn", whole, _whole),
        ):
            _tell(record, name, measured, of)
        cold = [load.run(_cold(config, head)) * 1e6 for head in whole.heads]
        for turn, value in zip((EARLY, turns), cold, strict=True):
            record.add(f"one read after a restart, turn {turn:,}", [value], "µs")
        print(f"{'one read after a restart':<30}{cold[0]:>18.0f}{cold[1]:>18.0f}")


def _tell(record: Recorder, name: str, measured: Measured, of: Callable[[Cost], float]) -> None:
    record.add(f"{name}, turn {EARLY} / turn {EARLY}", [1.0], TIMES, place=Place(CHART, name, EARLY))
    for length, pairs in measured.pairs.items():
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
        # A response is written a moment after its turn; looking one up waits for all that are on their way.
        await store.get(CALLER.tenant, head)
        before, clock = store.stats, time.process_time()
        head = await turn(head)
        spent, read = time.process_time() - clock, store.stats.read_cpu - before.read_cpu
        await store.get(CALLER.tenant, head)
        written = store.stats.write_cpu - before.write_cpu
        return head, Cost(read + written, spent + written)

    found: dict[int, Pairs] = {}
    long, length = await turn(None), 1
    for goal in (*(one for one in LENGTHS if one < turns - ROUNDS), turns):
        rounds = ROUNDS if goal == turns else ROUNDS_ON_THE_WAY
        while length < goal - rounds:
            long, length = await turn(long), length + 1
        found[goal] = []
        for _ in range(rounds):
            short, early = await measured(await grown(EARLY - 1))
            long, late = await measured(long)
            found[goal].append((early, late))
        length += rounds
    return Measured(found, (short, long))


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
