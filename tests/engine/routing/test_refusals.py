"""Requests that are refused here, and what that says about the targets of a route: nothing."""

import pytest
from msgspec.structs import replace

from antiphon.config import MediaSettings, ModelFacts, Target
from antiphon.engine.media import MediaFetcher
from antiphon.providers.base import Capabilities, Turn, UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import Message
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Failure, Finish, TextDelta
from tests.engine.played import Step
from tests.engine.routed import Scenes, World, outcomes

FINE: list[Step] = [[], [TextDelta("fine")], [Finish()]]
AWAY: list[Step] = [UpstreamError(ErrorPayload("server_error", "no", "upstream_unreachable"), 502)]
PRIVATE = [{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1:9/x.png"}]}]


async def test_a_request_that_is_refused_here_says_nothing_about_the_target(store: SqliteStore) -> None:
    """It was not asked: a dead target does not come back, and no failure of it is forgotten."""
    broken, well = Scenes("a", AWAY), Scenes("b", FINE)
    broken.capabilities = well.capabilities = Capabilities(frozenset(), images=True)
    world, http = World(store, broken, well), UpstreamClient()
    engine = world.engine
    engine.settings = replace(engine.settings, media=MediaFetcher(MediaSettings(), http))
    breaker = world.engine.routes.states[Target("a", "m")].breaker
    for n in (1, 2, 3):
        await world.plain()
        with pytest.raises(SpecError):
            await world.plain(input=PRIVATE)
        assert breaker.failures == n
    world.now += 61
    assert breaker.state(world.now) == "half_open"
    with pytest.raises(SpecError):
        await world.plain(input=PRIVATE)
    assert breaker.state(world.now) == "half_open"
    assert len(broken.turns) == 3
    await http.close()


@pytest.mark.parametrize("on_cut", ["restart", "continue", "fail"])
async def test_words_of_two_targets_are_not_joined_after_a_refusal(store: SqliteStore, on_cut: str) -> None:
    refusal = Failure(ErrorPayload("invalid_request", "no", "unsupported_parameter"))
    first, second = Scenes("a", [[], [TextDelta("Hello ")], [refusal]]), Scenes("b", FINE)
    run, _ = await World(store, first, second, on_cut=on_cut).stream()
    assert (run.response.status, run.response.output_text) == ("failed", "Hello ")
    assert not second.turns


async def test_a_prompt_that_is_shortened_is_not_too_long(store: SqliteStore) -> None:
    """With `truncation: "auto"` a target that shortens it answers, after those that take it whole."""

    class Counting(Scenes):
        capabilities = Capabilities(frozenset(), counts_tokens=True, context_window=3000)

        async def count_tokens(self, turn: Turn) -> int | None:
            return sum(len(item.get_text()) for item in turn.items if isinstance(item, Message)) // 4

    said = [{"role": "user", "content": "x" * 4000}] * 10
    facts = {f"{name}/m": ModelFacts(context_window=3000) for name in "ab"}
    world = World(store, Counting("a", FINE), Counting("b", FINE), catalogue=facts)
    run = await world.plain(input=said, truncation="auto")
    assert outcomes(run) == [("a/m", "answered")]
    assert any("oldest items" in receipt.reason for receipt in run.turn.receipts)
    with pytest.raises(SpecError):
        await world.plain(input=said)


@pytest.mark.parametrize(
    ("hint", "param"),
    [
        ({"without": ["a"]}, "antiphon:route.without"),
        ({"complexity": "zz"}, "antiphon:route.complexity"),
        ([1], "antiphon:route"),
    ],
)
async def test_what_is_said_about_a_task_holds_for_a_route_with_one_target(
    store: SqliteStore, hint: object, param: str
) -> None:
    only = Scenes("a", FINE)
    with pytest.raises(SpecError) as refused:
        await World(store, only).plain(**{"antiphon:route": hint})
    assert refused.value.payload.param == param
    assert not only.turns
