"""Which target suits which task."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Target
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.order import Candidate
from antiphon.engine.routing.states import TargetState
from antiphon.engine.routing.tiers import decision, in_tiers, wanted_position
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.routing import RouteHint, SpeedRequirement, TaskComplexity
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Finish, TextDelta
from tests.engine.routed import Scenes, World, route_of

Known = tuple[float | None, float | None]
"""Seconds to the first token, and dollars."""


def candidates(*known: Known) -> list[Candidate]:
    made = []
    for n, (seconds, dollars) in enumerate(known):
        target = Target("up", f"m{n}")
        state = TargetState.alone(target)
        if seconds is not None:
            state.estimates.note_answer(1.0, seconds, 0, 0.0)
        made.append(Candidate(target, state, position=n, cost=dollars))
    return made


def positions(complexity: str, speed: str, *known: Known) -> list[int]:
    hint = RouteHint(TaskComplexity(complexity), SpeedRequirement(speed))
    return [one.position for one in in_tiers(candidates(*known), 1.0, hint, len(known))]


NOTHING: Known = (None, None)


@pytest.mark.parametrize(
    ("complexity", "order"),
    [
        ("simple", [0, 1, 2, 3]),
        ("moderate", [1, 2, 0, 3]),
        ("complex", [2, 3, 1, 0]),
        ("critical", [3, 2, 1, 0]),
    ],
)
def test_the_nearest_tier_comes_first(complexity: str, order: list[int]) -> None:
    assert positions(complexity, "normal", NOTHING, NOTHING, NOTHING, NOTHING) == order


def test_two_and_three_targets() -> None:
    assert [wanted_position(one, 2) for one in TaskComplexity] == [0, 0, 1, 1]
    assert [wanted_position(one, 3) for one in TaskComplexity] == [0, 1, 1, 2]
    assert [wanted_position(one, 1) for one in TaskComplexity] == [0, 0, 0, 0]


def test_an_instant_answer_comes_from_the_fastest() -> None:
    known: list[Known] = [(3.0, None), (2.0, None), (1.0, None)]
    assert positions("simple", "instant", *known) == [2, 1, 0]
    assert positions("simple", "normal", *known) == [0, 1, 2]


def test_a_fast_answer_comes_from_the_faster_of_neighbours() -> None:
    assert positions("simple", "fast", (3.0, None), (2.0, None), (1.0, None)) == [1, 0, 2]


def test_who_has_time_gets_the_cheapest_that_is_strong_enough() -> None:
    known: list[Known] = [(None, 0.1), (None, 3.0), (None, 1.0), (None, None)]
    assert positions("moderate", "relaxed", *known) == [2, 1, 3, 0]


def test_a_decision_says_why() -> None:
    made = in_tiers(candidates((2.0, 0.5), NOTHING), 1.0, RouteHint(TaskComplexity.SIMPLE), 2)
    found = decision(made)
    assert found is not None
    assert (found.provider_name, found.model_name) == ("up", "m0")
    assert found.reasoning == "simple task, normal answer: the tier for it"
    assert found.fallback_providers == ["up/m1"]
    assert (found.estimated_cost, found.estimated_speed) == (0.5, 2.0)
    assert decision([]) is None


@given(
    st.sampled_from(TaskComplexity),
    st.sampled_from(SpeedRequirement),
    st.lists(
        st.tuples(st.none() | st.floats(0.01, 10), st.none() | st.floats(0, 10)), min_size=1, max_size=6
    ),
)
def test_nobody_is_lost(complexity: TaskComplexity, speed: SpeedRequirement, known: list[Known]) -> None:
    assert sorted(positions(complexity, speed, *known)) == list(range(len(known)))


# --- in a route -------------------------------------------------------------------------------------------


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


async def answering(
    store: SqliteStore, context: RequestContext | None = None, **fields: Any
) -> tuple[str, str]:
    """Which of three targets answers, and why."""
    three = [Scenes(name, [[TextDelta("hi")], [Finish()]]) for name in ("small", "middle", "large")]
    run = await World(store, *three, strategy="tiers").start(context, stream=False, **fields)
    await run.result()
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    return run.response.model, attempts[0].reason


async def test_the_task_of_a_request_chooses(store: SqliteStore) -> None:
    route = {"complexity": "critical"}
    assert await answering(store, None, **{"antiphon:route": route}) == (
        "large/m",
        "critical task, normal answer: the tier for it",
    )
    assert (await answering(store))[0] == "middle/m"


async def test_the_header_does_too_and_the_field_wins(store: SqliteStore) -> None:
    context = RequestContext(receipts=True, hint=RouteHint(TaskComplexity.SIMPLE))
    assert (await answering(store, context))[0] == "small/m"
    told = await answering(store, context, **{"antiphon:route": {"complexity": "critical"}})
    assert told[0] == "large/m"


async def test_a_task_that_cannot_be_read_is_refused(store: SqliteStore) -> None:
    with pytest.raises(SpecError) as caught:
        await answering(store, None, **{"antiphon:route": {"complexity": "hard"}})
    assert caught.value.payload.param == "antiphon:route.complexity"


async def test_other_strategies_take_no_notice_of_the_task(store: SqliteStore) -> None:
    two = [Scenes(name, [[TextDelta("hi")], [Finish()]]) for name in ("first", "second")]
    hint: dict[str, Any] = {"antiphon:route": {"complexity": "critical"}}
    run = await World(store, *two).start(None, stream=False, **hint)
    await run.result()
    assert run.response.model == "first/m"
    assert [receipt.param for receipt in run.turn.receipts] == ["model"]


async def test_without_holds_for_every_strategy_and_for_the_spare_target(store: SqliteStore) -> None:
    names = ("first", "second", "spare")
    first, second, spare = (Scenes(name, [[TextDelta("hi")], [Finish()]]) for name in names)
    second.scenes = ([UpstreamError(ErrorPayload("invalid_request", "", "context_length_exceeded"), 400)],)
    world = World(store, first, second, spare, context_window_fallback="spare/m")
    hint: dict[str, Any] = {"antiphon:route": {"without": ["first", "spare"]}}
    with pytest.raises(UpstreamError):
        await world.plain(**hint)
    assert (len(first.turns), len(second.turns), len(spare.turns)) == (0, 1, 0)


async def test_a_request_that_leaves_nobody_is_told_so(store: SqliteStore) -> None:
    world = World(store, *(Scenes(name, [[TextDelta("hi")], [Finish()]]) for name in ("first", "second")))
    hint: dict[str, Any] = {"antiphon:route": {"without": ["first", "second"]}}
    with pytest.raises(SpecError) as caught:
        await world.start(**hint)
    assert caught.value.payload.param == "antiphon:route.without"
