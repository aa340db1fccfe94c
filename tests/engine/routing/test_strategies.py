"""Strategies of a route with real attempts: weights are kept, and the faster target is asked."""

from collections import Counter
from itertools import product

import pytest

from antiphon.config import Config, ProviderSettings, RouteSettings
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.routes import Routes
from antiphon.providers.base import Sink, Turn
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Finish, TextDelta, UsageDelta
from antiphon.wires.sealing import Seal
from tests.engine.played import Playing, Step
from tests.engine.routed import Scenes, World, outcomes

FINE: list[Step] = [[], [TextDelta("fine")], [Finish()]]


@pytest.mark.parametrize(("weights", "asked"), [((3, 1), [30, 10]), ((1, 3), [10, 30]), ((), [20, 20])])
async def test_the_weights_of_a_route_are_kept(
    store: SqliteStore, weights: tuple[float, ...], asked: list[int]
) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    world = World(store, a, b, strategy="weighted", weights=weights)
    for n in range(40):
        await (world.stream() if n % 2 else world.plain())
    assert [len(a.turns), len(b.turns)] == asked


async def drawn(store: SqliteStore, seed: int) -> list[str]:
    """Who is chosen first by each of many routes."""
    names, providers = "abcde", {name: Playing() for name in "abcde"}
    aliases = [f"r{n}" for n in range(12)]
    config = Config(
        default_model="r0",
        providers={name: ProviderSettings(type="playing") for name in names},
        models={alias: tuple(f"{name}/m" for name in names) for alias in aliases},
        routes={alias: RouteSettings(strategy="weighted") for alias in aliases},
    )
    routes = Routes(config, providers, lambda: 1000.0, seed=seed)
    engine = Engine(config, providers, store, Seal([bytes(32)]), lambda: 1000.0, routes=routes)
    asked = [decode_request(encode({"model": alias, "input": "hi"})) for alias in aliases]
    return [engine.decide(request, RequestContext()).provider_name for request in asked * 2]


async def test_routes_with_the_same_seed_draw_alike(store: SqliteStore) -> None:
    first = await drawn(store, 7)
    assert await drawn(store, 7) == first
    assert await drawn(store, 8) != first
    assert len(Counter(first)) > 1


class Timed(Playing):
    """A thousand tokens at a speed, after a wait; an answer that nobody streams comes at once at the end."""

    def __init__(self, name: str, clock: list[float], first: float, speed: float) -> None:
        super().__init__()
        self.name = name
        self.asked = 0
        self._clock, self._first, self._seconds = clock, first, 1000 / speed

    async def answer(self, turn: Turn, sink: Sink) -> None:
        self.asked += 1
        sink.accepted()
        self._clock[0] += self._first
        if turn.stream:
            sink.put([TextDelta("a thousand ")])
        self._clock[0] += self._seconds
        sink.put([TextDelta("tokens"), UsageDelta(Usage.of(10, 1000)), Finish()])


@pytest.mark.parametrize("faster", ["a", "b"])
async def test_the_faster_target_is_asked_once_both_are_known(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, faster: str
) -> None:
    """Whichever of the requests are streamed: a whole answer does not look slower than a streamed one."""
    clock = [100.0]
    for module in ("router", "attempt_sink"):
        monkeypatch.setattr(f"antiphon.engine.routing.{module}.perf_counter", lambda: clock[0])
    for streamed in product((True, False), repeat=6):
        slow, fast = (0.5, 100.0), (0.1, 200.0)
        a = Timed("a", clock, *(fast if faster == "a" else slow))
        b = Timed("b", clock, *(fast if faster == "b" else slow))
        world = World(store, a, b, strategy="fastest")
        models = []
        for stream in streamed:
            run = (await world.stream())[0] if stream else await world.plain()
            models.append(run.response.model)
        assert models == ["a/m", "b/m", *[f"{faster}/m"] * 4], streamed


async def test_a_target_that_becomes_slower_is_left_for_the_other(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    for module in ("router", "attempt_sink"):
        monkeypatch.setattr(f"antiphon.engine.routing.{module}.perf_counter", lambda: clock[0])
    a, b = Timed("a", clock, 0.1, 200.0), Timed("b", clock, 0.5, 100.0)
    world = World(store, a, b, strategy="fastest")
    for _ in range(4):
        await world.stream()
    assert (a.asked, b.asked) == (3, 1)
    a._first = 60.0
    for _ in range(4):
        await world.stream()
    assert (a.asked, b.asked) == (4, 4)


async def test_to_ask_who_would_be_asked_changes_nothing(store: SqliteStore) -> None:
    world = World(store, Scenes("a", FINE), Scenes("b", FINE), strategy="weighted")
    said, asked = [], []
    for _ in range(8):
        said.append(
            world.engine.decide(decode_request(encode({"input": "hi"})), RequestContext()).provider_name
        )
        asked.append(outcomes(await world.plain())[0][0][0])
    assert said == asked
    assert asked.count("a") == 4
