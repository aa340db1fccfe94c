"""The target for a context that is too long for the others."""

import pytest

from antiphon.config import Config, ModelFacts, ProviderSettings, RouteSettings, Target
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.providers.base import UpstreamError
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import CONTEXT_LENGTH_EXCEEDED, ErrorPayload, SpecError
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Finish, TextDelta, UsageDelta
from antiphon.wires.sealing import Seal
from tests.engine.played import Step
from tests.engine.routed import Scenes, World, outcomes, route_of

FINE: list[Step] = [[], [TextDelta("fine")], [UsageDelta(Usage.of(900, 5)), Finish()]]
PAYLOAD = ErrorPayload("invalid_request", "too long", CONTEXT_LENGTH_EXCEEDED, "input")
TOO_LONG: list[Step] = [UpstreamError(PAYLOAD, 400)]
DOWN: list[Step] = [UpstreamError(ErrorPayload("server_error", "no", "upstream_error"), 502)]


@pytest.mark.parametrize("restarts", [False, True], ids=["the same gateway", "after a restart"])
async def test_a_chain_stays_on_the_spare_target(store: SqliteStore, restarts: bool) -> None:
    """It has outgrown the others: they would be asked in vain with every turn, and may be away."""
    first, spare = Scenes("a", FINE, TOO_LONG, DOWN), Scenes("b", FINE)
    world = World(store, first, spare, context_window_fallback="b/m")
    began, _ = await world.stream(store=True)
    moved, _ = await world.stream(store=True, previous_response_id=began.response.id)
    assert outcomes(moved) == [("a/m", "too_long"), ("b/m", "answered")]
    if restarts:
        world = World(store, first, spare, context_window_fallback="b/m")
    last = moved
    for _ in range(2):
        last, _ = await world.stream(store=True, previous_response_id=last.response.id)
        assert outcomes(last) == [("b/m", "answered")]
        assert route_of(last).attempts[0].reason == "affinity"  # type: ignore[index]


async def test_the_others_are_asked_when_the_spare_target_of_a_chain_fails(store: SqliteStore) -> None:
    first, spare = Scenes("a", FINE, TOO_LONG, FINE), Scenes("b", FINE, DOWN)
    world = World(store, first, spare, context_window_fallback="b/m")
    began, _ = await world.stream(store=True)
    moved, _ = await world.stream(store=True, previous_response_id=began.response.id)
    last, _ = await world.stream(store=True, previous_response_id=moved.response.id)
    assert outcomes(last) == [("b/m", "server_error"), ("a/m", "answered")]


@pytest.mark.parametrize("raised", [SpecError(PAYLOAD, 400), UpstreamError(PAYLOAD, 400)])
async def test_the_spare_target_is_asked_while_another_rests(store: SqliteStore, raised: Exception) -> None:
    """Whoever says that the context is too long: we by our own count, or the upstream."""
    first, resting, spare = Scenes("a", [raised]), Scenes("b", FINE), Scenes("c", FINE)
    world = World(store, first, resting, spare, context_window_fallback="c/m")
    breaker = world.engine.routes.states[Target("b", "m")].breaker
    breaker.note_failure(world.now, "ordinary", limit=1, cooldown=60, retry_after=60, is_limited=True)
    run = await world.plain()
    assert outcomes(run) == [("a/m", "too_long"), ("c/m", "answered")]


async def test_a_spare_target_that_the_caller_may_not_use_is_not_asked(store: SqliteStore) -> None:
    """A request through a proxy does not reach a provider that was found and not configured."""
    first, found = Scenes("a", TOO_LONG), Scenes("b", FINE)
    config = Config(
        default_model="r",
        providers={name: ProviderSettings(type="playing") for name in "ab"},
        models={"r": ("a/m",)},
        routes={"r": RouteSettings(context_window_fallback="b/m")},
        discovered={"b": None},  # type: ignore[dict-item]
    )
    engine = Engine(config, {"a": first, "b": found}, store, Seal([bytes(32)]), lambda: 1000.0)
    for context, is_asked in ((RequestContext(via="X-Forwarded-For"), False), (RequestContext(), True)):
        run = await engine.start(decode_request(encode({"input": "hi"})), engine.new_run(context))
        if is_asked:
            await run.result()
        else:
            with pytest.raises(UpstreamError):
                await run.result()
        assert bool(found.turns) == is_asked


async def test_who_would_be_asked_is_the_spare_target_where_no_other_fits(store: SqliteStore) -> None:
    small = {"a/m": ModelFacts(context_window=10)}
    world = World(store, Scenes("a", FINE), Scenes("b", FINE), catalogue=small, context_window_fallback="b/m")
    request = decode_request(encode({"input": "word " * 200}))
    decided = world.engine.decide(request, RequestContext())
    assert (decided.provider_name, decided.reasoning) == ("b", "the context is too long for the others")
    assert outcomes(await world.plain(input="word " * 200)) == [("b/m", "answered")]
