"""What an answer of several targets has cost, and how much of its budget is left for the next."""

import pytest
from msgspec.structs import replace

from antiphon.config import Target
from antiphon.engine.routing.continuation import Unfinished, resumable
from antiphon.engine.routing.router import TargetRouter
from antiphon.engine.routing.seam import last_words
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Finish,
    ItemEnd,
    MessageStart,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from tests.engine.played import Heard, Step
from tests.engine.routed import CUT, Scenes, World, outcomes, route_of

TEXT = "The quick brown fox jumps over the lazy dog and then it sleeps very well until the morning"
"""Ninety characters, of which the last nine words are asked for once more."""


async def test_usage_and_the_budget_are_those_of_one_answer(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("x" * 400)], CUT])
    b = Scenes("b", [[], [TextDelta("y" * 40)], [UsageDelta(Usage.of(500, 10, cached=450)), Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=150)
    assert b.turns[0].request.max_output_tokens == 50 + 60 // 4
    usage = run.response.usage
    assert usage is not None
    assert usage.output_tokens == 110
    assert usage.input_tokens < 500 - 100
    assert usage.adds_up()
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert attempts[0].usage == Usage.of(0, 100)
    assert attempts[1].usage == Usage.of(500, 10, cached=450)
    (estimate,) = [receipt for receipt in run.turn.receipts if receipt.action == "estimated"]
    assert estimate.reason == "a/m broke off before it counted its tokens: estimated as 100 tokens"


async def test_what_is_sent_again_is_taken_from_the_usage_once(store: SqliteStore) -> None:
    whole: Step = [MessageStart(), TextDelta("x" * 800), ItemEnd(None, "completed")]
    call: Step = [CallDelta("k", '{"a": 1}', name="f", call_id="c1"), ItemEnd("k", "completed")]
    a = Scenes("a", [[], whole, call, [MessageStart(), TextDelta("y" * 40)], CUT])
    b = Scenes("b", [[], [TextDelta("z")], [UsageDelta(Usage.of(1000, 1)), Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    _, first, called, output, open_text, task = b.turns[0].items
    words = [item.get_text() for item in (first, open_text, task) if isinstance(item, Message)]
    assert isinstance(called, FunctionCall)
    assert isinstance(output, FunctionCallOutput)
    assert isinstance(output.output, str)
    assert run.response.usage is not None
    resent = len("".join([*words, called.arguments, output.output]))
    assert run.response.usage.input_tokens == 1000 - resent // 4


@pytest.mark.parametrize("said", [100, 101])
async def test_a_budget_that_is_used_up_is_the_end(store: SqliteStore, said: int) -> None:
    a, b = (
        Scenes("a", [[], [TextDelta("x" * 4 * said)], CUT]),
        Scenes("b", [[], [TextDelta("y")], [Finish()]]),
    )
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=100)
    assert run.response.status == "incomplete"
    assert run.response.output_text == "x" * 4 * said
    assert not b.turns
    assert (run.response.model, run.turn.target) == ("a/m", "a/m")
    assert outcomes(run) == [("a/m", "connection")]


async def test_a_budget_that_is_used_up_keeps_what_was_counted(store: SqliteStore) -> None:
    counted: Step = [TextDelta("x" * 40), UsageDelta(Usage.of(70, 100, cached=30, written=5, reasoning=90))]
    a, b = Scenes("a", [[], counted, CUT]), Scenes("b", [[], [TextDelta("y")], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=100)
    assert run.response.status == "incomplete"
    assert run.response.usage == Usage.of(70, 100, cached=30, written=5, reasoning=90)


async def test_nobody_is_probed_where_the_budget_is_used_up(store: SqliteStore) -> None:
    a, b = Scenes("a", [[], [TextDelta("x" * 400)], CUT]), Scenes("b", [[CUT[0]]], [[], [Finish()]])  # type: ignore[index]
    world = World(store, a, b, on_cut="continue", failures=1, retries=1)
    await world.stream()
    world.now += 60
    breaker = world.engine.routes.states[Target("b", "m")].breaker
    assert breaker.state(world.now) == "half_open"
    world.engine.routes.states[Target("a", "m")].breaker.follow(0.0, 0.0)
    run, _ = await world.stream(max_output_tokens=100)
    assert run.response.status == "incomplete"
    assert not breaker.is_probed(world.now)
    assert breaker.admits(world.now)


@pytest.mark.parametrize(
    ("ending", "status"), [(Finish("length"), "incomplete"), (Finish(), "completed")], ids=["length", "stop"]
)
async def test_a_repetition_that_ends_within_what_was_asked_for_is_no_text(
    store: SqliteStore, ending: AnyDelta, status: str
) -> None:
    again = last_words(TEXT)[:31]
    a = Scenes("a", [[], [TextDelta(TEXT)], CUT])
    b = Scenes("b", [[], [TextDelta(again[:9])], [TextDelta(again[9:]), UsageDelta(Usage.of(60, 8)), ending]])
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=40)
    assert (run.response.status, run.response.output_text) == (status, TEXT)
    assert run.response.model == "a/m"
    assert run.response.usage is not None
    assert run.response.usage.output_tokens == len(TEXT) // 4
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert attempts[1].usage == Usage.of(60, 8)


@pytest.mark.parametrize("start", [0, 20, 44, 70])
@pytest.mark.parametrize("length", [1, 7, 20])
async def test_whoever_is_cut_by_its_budget_in_any_repetition_says_nothing_twice(
    store: SqliteStore, start: int, length: int
) -> None:
    a = Scenes("a", [[], [TextDelta(TEXT)], CUT])
    b = Scenes("b", [[], [TextDelta(TEXT[start : start + length])], [Finish("length")]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.output_text == TEXT


async def test_what_was_asked_for_once_more_takes_nothing_of_the_budget(store: SqliteStore) -> None:
    again = last_words(TEXT)
    a = Scenes("a", [[], [TextDelta(TEXT)], CUT])
    b = Scenes("b", [[], [TextDelta(again), TextDelta(" comes.")], [UsageDelta(Usage.of(90, 18)), Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=40)
    assert run.response.output_text == f"{TEXT} comes."
    said, repeated = len(TEXT) // 4, len(again) // 4
    assert b.turns[0].request.max_output_tokens == 40 - said + repeated
    assert run.response.usage is not None
    assert run.response.usage.output_tokens == said + 18 - repeated


async def test_an_early_count_is_kept_when_the_rest_breaks_off(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta(TEXT)], CUT])
    counted: Step = [UsageDelta(Usage.of(200, 1)), TextDelta(last_words(TEXT))]
    b = Scenes("b", [[], counted, [TextDelta(" comes and goes.")], CUT])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.status == "failed"
    assert run.response.usage is not None
    assert 0 < run.response.usage.input_tokens < 200
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert [one.target for one in attempts] == ["a/m", "b/m"]


async def test_reasoning_that_was_counted_before_the_cut_stays_counted(store: SqliteStore) -> None:
    thought: Step = [ReasoningDelta("Hm."), TextDelta("The quick ")]
    counted: Step = [UsageDelta(Usage.of(50, 260, cached=20, reasoning=250))]
    a = Scenes("a", [[], thought, counted, CUT])
    b = Scenes("b", [[], [TextDelta("brown fox")], [UsageDelta(Usage.of(60, 7, reasoning=5)), Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    usage = run.response.usage
    assert usage is not None
    assert (usage.output_tokens, usage.output_tokens_details.reasoning_tokens) == (267, 255)
    assert usage.adds_up()
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert attempts[0].usage == Usage.of(50, 260, cached=20, reasoning=250)


async def test_after_a_takeover_the_budget_is_used_once(store: SqliteStore) -> None:
    a = Scenes("a", [CUT])
    b = Scenes("b", [[], [TextDelta("x" * 60 + "z" * 40), UsageDelta(Usage.of(90, 25)), Finish()]])
    world = World(store, a, b)
    run = await world.start(max_output_tokens=100)
    run.composer.feed([TextDelta("x" * 160)])
    before = resumable(run.composer.snapshot(), run.turn.request)
    assert isinstance(before, Unfinished)
    assert isinstance(run.asker, TargetRouter)
    run.asker.continue_from(before)
    await run.deliver(Heard())
    assert [target.turns[0].request.max_output_tokens for target in (a, b)] == [60 + 15, 60 + 15]
    assert run.turn.request.max_output_tokens == 100
    assert run.response.output_text == "x" * 160 + "z" * 40
    assert run.response.usage is not None
    assert run.response.usage.output_tokens == 40 + 25 - 15


async def test_what_a_target_counts_is_told_as_it_would_be_alone(store: SqliteStore) -> None:
    """Tokens put into a cache stay told, and those that stand in the total alone are output."""
    a = Scenes("a", [[], [TextDelta("The quick ")], CUT])
    counted = replace(Usage.of(900, 3, written=700), total_tokens=910)
    b = Scenes("b", [[], [TextDelta("brown fox")], [UsageDelta(counted), Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    usage = run.response.usage
    assert usage is not None
    assert usage.input_tokens_details.cache_write_tokens == 700
    assert (usage.output_tokens, usage.output_tokens_details.reasoning_tokens) == (2 + 10, 7)


async def test_no_more_is_reasoning_than_was_said(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta(TEXT)], CUT])
    b = Scenes(
        "b", [[], [TextDelta(TEXT), TextDelta("!")], [UsageDelta(Usage.of(90, 30, reasoning=9)), Finish()]]
    )
    run, _ = await World(store, a, b, on_cut="continue").stream()
    usage = run.response.usage
    assert usage is not None
    assert (usage.output_tokens, usage.output_tokens_details.reasoning_tokens) == (22 + 8, 8)
