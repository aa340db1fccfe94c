"""Settings are swapped whole: a run keeps those that it began with, and what is known of targets stays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.config import Config, ConfigErrors, ProviderSettings, replace_models
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Finish, TextDelta
from tests.engine.played import Step
from tests.engine.routed import CUT, Scenes, World, outcomes

AWAY: list[Step] = [UpstreamError(ErrorPayload("server_error", "no", "upstream_unreachable"), 502)]
FINE: list[Step] = [[], [TextDelta("fine")], [Finish()]]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


def swap(world: World, **models: list[str]) -> None:
    world.engine.use(replace_models(world.engine.config, models))


async def test_a_run_keeps_the_settings_that_it_began_with(store: SqliteStore) -> None:
    """Its second target is that of the route as it was, and the next run is asked of the new one."""
    held = asyncio.Event()
    a, b = Scenes("a", [[], [TextDelta("Well, ")], held, CUT]), Scenes("b", FINE)
    c = Scenes("c", FINE)
    world = World(store, a, b, c, on_cut="continue")
    swap(world, r=["a/m", "b/m"])
    task = asyncio.create_task(world.stream())
    await a.waiting.wait()
    swap(world, r=["c/m"])
    held.set()
    run, _ = await task
    assert [target for target, _ in outcomes(run)] == ["a/m", "b/m"]
    assert run.response.output_text == "Well, fine"
    assert (len(a.turns), len(b.turns), len(c.turns)) == (1, 1, 0)
    await world.stream()
    assert (len(a.turns), len(b.turns), len(c.turns)) == (1, 1, 1)


async def test_a_breaker_survives_a_swap(store: SqliteStore) -> None:
    a, b = Scenes("a", AWAY), Scenes("b", FINE)
    world = World(store, a, b, failures=1, cooldown=60.0)
    await world.stream()
    assert len(a.turns) == 1
    swap(world, r=["b/m", "a/m"], other=["a/m", "b/m"])
    await world.stream(model="other")
    assert len(a.turns) == 1
    swap(world, r=["b/m"])
    swap(world, r=["a/m", "b/m"])
    await world.stream()
    assert len(a.turns) == 1
    world.now += 61
    await world.stream()
    assert len(a.turns) == 2


async def test_a_name_that_is_gone_is_unknown_and_a_new_one_is_served(store: SqliteStore) -> None:
    a = Scenes("a", FINE)
    world = World(store, a)
    swap(world, r=["a/m"], new=["a/other"])
    await world.stream(model="new")
    assert a.turns[-1].model == "other"
    swap(world, r=["a/m"])
    with pytest.raises(SpecError, match="new"):
        await world.start(model="new")


def test_models_that_lead_nowhere_are_refused() -> None:
    config = Config(models={"r": ("a/m",)}, providers={"a": ProviderSettings(type="playing")})
    with pytest.raises(ConfigErrors, match="nowhere"):
        replace_models(config, {"r": ["nowhere/m"]})
    with pytest.raises(ConfigErrors, match="empty list"):
        replace_models(config, {"r": []})
    assert replace_models(config, {"s": ["a/m"]}).models == {"s": ("a/m",)}
