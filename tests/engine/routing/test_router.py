"""One request over several targets: who answers, what a failure leads to, and what is told about it."""

import asyncio
import gc
import json
from typing import Any

import pytest

from antiphon.config import ModelFacts, Target
from antiphon.engine import compaction
from antiphon.engine.background.background import Background
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing import dispatch
from antiphon.providers.base import Capabilities, Sink, UpstreamError
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ErrorPayload, SpecError, rate_limit
from antiphon.spec.request import CompactRequest
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Finish, ReasoningDelta, TextDelta
from tests.engine.played import Heard, Step
from tests.engine.routed import CUT, Scenes, World, outcomes, route_of

FINE: list[Step] = [[], [TextDelta("fine")], [Finish()]]


def error(
    code: str, status: int, type: str = "server_error", retry_after: float | None = None
) -> UpstreamError:
    return UpstreamError(ErrorPayload(type, "no", code), status, retry_after)


LATE: list[list[Step]] = [[error("timeout", 504)]]


async def test_the_first_target_answers_when_it_is_well(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    world = World(store, a, b)
    run, _ = await world.stream()
    assert run.response.output_text == "fine"
    assert run.response.model == "a/m"
    assert outcomes(run) == [("a/m", "answered")]
    assert not b.turns


async def test_the_next_target_is_asked_when_one_fails_before_content(store: SqliteStore) -> None:
    a, b = Scenes("a", [error("model_overloaded", 503)]), Scenes("b", FINE)
    run, events = await World(store, a, b).stream()
    assert run.response.output_text == "fine"
    assert run.response.model == "b/m"
    assert events[0].response.model == "b/m"  # type: ignore[union-attr]
    assert outcomes(run) == [("a/m", "overloaded"), ("b/m", "answered")]
    assert route_of(run).reason == "b/m answered, after 1 other attempt"
    plain = await World(store, Scenes("a", [error("timeout", 504)]), Scenes("b", FINE)).plain()
    assert plain.response.output_text == "fine"


async def test_a_mistake_of_the_client_is_never_asked_elsewhere(store: SqliteStore) -> None:
    a, b = Scenes("a", [error("upstream_rejected", 400, "invalid_request")]), Scenes("b", FINE)
    with pytest.raises(UpstreamError) as refused:
        await World(store, a, b).stream()
    assert refused.value.status == 400
    assert not b.turns


async def test_only_the_kinds_that_are_listed_lead_on(store: SqliteStore) -> None:
    a, b = Scenes("a", [error("timeout", 504)]), Scenes("b", FINE)
    with pytest.raises(UpstreamError):
        await World(store, a, b, fallback_on=("connection",)).stream()
    assert not b.turns


async def test_attempts_are_bounded_over_all_targets(store: SqliteStore) -> None:
    targets = [Scenes(name, [error("upstream_error", 502)]) for name in "abcd"]
    with pytest.raises(UpstreamError):
        await World(store, *targets, retries=2).stream()
    assert [len(target.turns) for target in targets] == [1, 1, 1, 0]
    targets = [Scenes(name, [error("upstream_error", 502)]) for name in "ab"]
    with pytest.raises(UpstreamError):
        await World(store, *targets, retries=5, failures=10).stream()
    assert [len(target.turns) for target in targets] == [5, 1]


async def test_a_target_is_asked_again_when_there_is_no_other(store: SqliteStore) -> None:
    a = Scenes("a", [error("timeout", 504)], FINE)
    run, _ = await World(store, a).stream()
    assert outcomes(run) == [("a/m", "timeout"), ("a/m", "answered")]
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert [attempt.reason for attempt in attempts] == ["listed", "again after timeout of a/m"]


async def test_a_key_that_is_not_accepted_is_not_sent_again(store: SqliteStore) -> None:
    a = Scenes("a", [error("upstream_auth", 502)], FINE)
    with pytest.raises(UpstreamError):
        await World(store, a).stream()
    assert len(a.turns) == 1


async def test_a_target_that_fails_rests_and_comes_back(store: SqliteStore) -> None:
    a, b = Scenes("a", *LATE * 3, FINE), Scenes("b", FINE)
    world = World(store, a, b)
    for _ in range(5):
        await world.stream()
    assert (len(a.turns), len(b.turns)) == (3, 5)
    world.now += 60
    run, _ = await world.stream()
    assert run.response.model == "a/m"
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert attempts[0].reason == "probe"
    run, _ = await world.stream()
    assert run.response.model == "a/m"


async def test_a_rate_limit_opens_the_breaker_for_as_long_as_it_says(store: SqliteStore) -> None:
    limited = error("rate_limit_exceeded", 429, "too_many_requests", retry_after=30)
    a, b = Scenes("a", [limited], FINE), Scenes("b", FINE)
    world = World(store, a, b)
    await world.stream()
    world.now += 29
    await world.stream()
    assert (len(a.turns), len(b.turns)) == (1, 2)
    world.now += 1
    run, _ = await world.stream()
    assert run.response.model == "a/m"


async def test_when_all_rest_one_probe_goes_out_and_all_others_are_told_when_to_come_back(
    store: SqliteStore,
) -> None:
    held = asyncio.Event()
    a = Scenes("a", *LATE * 3, [[], held, *FINE])
    world = World(store, a, retries=0)
    for _ in range(3):
        with pytest.raises(UpstreamError):
            await world.stream()
    world.now += 10
    probe = asyncio.ensure_future(world.stream())
    await a.waiting.wait()
    for _ in range(3):
        with pytest.raises(UpstreamError) as refused:
            await world.stream()
        assert (refused.value.status, refused.value.payload.code) == (503, "targets_unavailable")
        assert refused.value.retry_after == 50
    assert len(a.turns) == 4
    held.set()
    run, _ = await probe
    assert run.response.output_text == "fine"
    await world.stream()
    assert len(a.turns) == 5


async def test_targets_that_are_all_dead_get_one_probe_in_a_cooldown(store: SqliteStore) -> None:
    a, b = Scenes("a", *LATE), Scenes("b", *LATE)
    world = World(store, a, b)
    for _ in range(50):
        with pytest.raises(UpstreamError) as refused:
            await world.stream()
    assert (refused.value.status, refused.value.payload.code) == (503, "targets_unavailable")
    assert (len(a.turns), len(b.turns)) == (4, 4)


async def test_nobody_is_probed_before_the_time_that_it_named(store: SqliteStore) -> None:
    a = Scenes("a", [error("rate_limit_exceeded", 429, "too_many_requests", retry_after=20)], FINE)
    world = World(store, a, retries=0)
    with pytest.raises(UpstreamError):
        await world.stream()
    world.now += 19
    with pytest.raises(UpstreamError) as refused:
        await world.stream()
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    world.now += 1
    await world.stream()


async def test_a_probe_that_is_cancelled_leaves_the_place_to_another(store: SqliteStore) -> None:
    held = asyncio.Event()
    a = Scenes("a", [error("timeout", 504)], [[], held], FINE)
    world = World(store, a, retries=0, failures=1)
    with pytest.raises(UpstreamError):
        await world.stream()
    world.now += 60
    probe = asyncio.ensure_future(world.stream())
    await a.waiting.wait()
    probe.cancel()
    await asyncio.wait({probe})
    assert a.closed
    run, _ = await world.stream()
    assert run.response.output_text == "fine"


async def test_a_probe_whose_client_is_gone_leaves_the_place_to_another(store: SqliteStore) -> None:
    heard = Heard()

    def leave(sink: Sink) -> None:
        heard.broken = True

    a, b = Scenes("a", [[], [ReasoningDelta("Hm.")], leave, CUT]), Scenes("b", [error("timeout", 504)], FINE)
    world = World(store, a, b, on_cut="continue", retries=1, failures=1)
    only_b: dict[str, Any] = {"antiphon:route": {"without": ["a"]}}
    with pytest.raises(UpstreamError):
        await world.stream(**only_b)
    world.now += 60
    run = await world.start()
    with pytest.raises(ArithmeticError):
        await run.deliver(heard)
    run, _ = await world.stream(**only_b)
    assert run.response.output_text == "fine"


@pytest.mark.parametrize("late", [error("upstream_closed", 502), ValueError("a mistake of the provider")])
async def test_what_goes_wrong_after_the_end_of_an_answer_changes_nothing(
    store: SqliteStore, late: Exception
) -> None:
    whole: list[Step] = [[], [TextDelta("whole")], [Finish()], late]
    a, b = Scenes("a", [error("timeout", 504)], whole), Scenes("b", FINE)
    for on_cut in ("restart", "continue"):
        a.turns.clear()
        world = World(store, a, b, on_cut=on_cut)
        await world.stream()
        b.turns.clear()
        run, _ = await world.stream()
        assert (run.response.status, run.response.output_text) == ("completed", "whole")
        assert run.response.model == "a/m"
        assert outcomes(run) == [("a/m", "answered")]
        assert not b.turns
        assert world.engine.routes.states[Target("a", "m")].breaker.failures == 0


async def test_who_is_cancelled_after_the_end_of_an_answer_has_not_answered(store: SqliteStore) -> None:
    held = asyncio.Event()
    a = Scenes("a", [error("timeout", 504)], [[], [TextDelta("whole")], [Finish()], held])
    world = World(store, a, Scenes("b", FINE))
    await world.stream()
    task = asyncio.ensure_future(world.stream())
    await a.waiting.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert world.engine.routes.states[Target("a", "m")].breaker.failures == 1


async def test_a_further_attempt_knows_nothing_of_the_upstream_before(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)

    def refuse(sink: Sink) -> None:
        a.turns[-1].upstream_status, a.turns[-1].upstream_id = 503, "req_of_a"
        raise error("model_overloaded", 503)

    a.scenes = ([refuse],)
    run, _ = await World(store, a, b).stream()
    assert run.response.model == "b/m"
    assert (b.turns[0].upstream_status, b.turns[0].upstream_id) == (0, "")


async def test_a_context_that_is_too_long_goes_to_the_spare_target(store: SqliteStore) -> None:
    too_long = error("context_length_exceeded", 400, "invalid_request")
    a, b, c = Scenes("a", [too_long]), Scenes("b", FINE), Scenes("c", FINE)
    run, _ = await World(store, a, b, c, context_window_fallback="c/m").stream()
    assert outcomes(run) == [("a/m", "too_long"), ("c/m", "answered")]
    assert not b.turns
    with pytest.raises(UpstreamError):
        await World(store, Scenes("a", [too_long]), b).stream()
    assert not b.turns


async def test_a_prompt_that_is_known_not_to_fit_is_not_sent(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    small = {"a/m": ModelFacts(context_window=1000)}
    run, _ = await World(store, a, b, catalogue=small).stream(input="word " * 4000)
    assert run.response.model == "b/m"
    assert not a.turns
    small["b/m"] = ModelFacts(context_window=1000)
    with pytest.raises(SpecError) as refused:
        await World(store, a, b, catalogue=small).stream(input="word " * 4000)
    assert refused.value.payload.code == "context_length_exceeded"
    c = Scenes("c", FINE)
    world = World(store, a, b, c, catalogue=small, context_window_fallback="c/m")
    run, _ = await world.stream(input="word " * 4000)
    assert run.response.model == "c/m"


async def test_a_prompt_is_not_sent_to_the_only_target_left_if_it_does_not_fit(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    world = World(store, a, b, catalogue={"b/m": ModelFacts(context_window=1000)})
    asked: dict[str, Any] = {"input": "word " * 4000, "antiphon:route": {"without": ["a"]}}
    with pytest.raises(SpecError) as refused:
        await world.stream(**asked)
    assert refused.value.payload.code == "context_length_exceeded"
    assert not b.turns


async def test_a_target_that_would_lose_something_is_tried_last(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    b.capabilities = Capabilities(frozenset({"temperature", "top_p"}))
    run, _ = await World(store, a, b).stream(top_p=0.5)
    assert run.response.model == "b/m"
    b.scenes = ([error("timeout", 504)],)
    run, _ = await World(store, a, b).stream(top_p=0.5)
    assert run.response.model == "a/m"
    assert [receipt.param for receipt in run.turn.receipts] == ["top_p", "model"]


async def test_a_strict_request_goes_to_whoever_takes_it_as_it_is(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    b.capabilities = Capabilities(frozenset({"top_p"}))
    run, _ = await World(store, a, b).stream(context=RequestContext(strict=True), top_p=0.5)
    assert run.response.model == "b/m"
    with pytest.raises(SpecError) as refused:
        await World(store, a, Scenes("c", FINE)).stream(context=RequestContext(strict=True), top_p=0.5)
    assert refused.value.payload.code == "unsupported_parameter"
    assert not a.turns


async def test_receipts_are_those_of_the_target_that_answered(store: SqliteStore) -> None:
    a, b = Scenes("a", [error("timeout", 504)]), Scenes("b", FINE)
    a.capabilities = b.capabilities = Capabilities(frozenset())
    run, _ = await World(store, a, b).stream(top_p=0.5)
    assert [receipt.provider for receipt in run.turn.receipts] == ["b", "router"]


async def test_a_background_response_is_answered_by_whoever_can(store: SqliteStore) -> None:
    a, b = Scenes("a", [[], error("timeout", 504)]), Scenes("b", FINE)
    world = World(store, a, b)
    background = Background(world.engine)
    await background.open()
    request = decode_request(encode({"input": "hi", "background": True}))
    job = await background.start(request, world.engine.new_run(RequestContext(receipts=True)))
    assert job.created.model == "a/m"
    await background.wait_until_idle()
    stored = await store.get("", job.id)
    assert stored is not None
    assert json.loads(stored.body)["model"] == "b/m"
    assert json.loads(stored.body)["output"][0]["content"][0]["text"] == "fine"
    await background.close()


async def test_a_cancelled_request_cancels_the_attempt_and_the_wait_before_one(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = asyncio.Event()
    a, b = Scenes("a", [error("timeout", 504)]), Scenes("b", [[], held])
    task = asyncio.ensure_future(World(store, a, b).stream())
    await b.waiting.wait()
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert b.closed
    monkeypatch.setattr(dispatch, "FIRST_WAIT", 3600.0)
    monkeypatch.setattr(dispatch, "LONGEST_WAIT", 3600.0)
    failed = asyncio.Event()

    def fail(sink: Sink) -> None:
        failed.set()
        raise error("timeout", 504)

    task = asyncio.ensure_future(World(store, Scenes("a", [fail])).stream())
    await failed.wait()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=60)
    assert done


@pytest.mark.parametrize("stream", [True, False])
async def test_nothing_is_left_of_a_thousand_failing_requests(store: SqliteStore, stream: bool) -> None:

    def fail(sink: Sink) -> None:
        raise error("timeout", 504)

    a, b = Scenes("a", [[], [TextDelta("x")], fail]), Scenes("b", [fail])
    world = World(store, a, b, failures=60000, on_cut="continue", retries=1)
    tasks = len(asyncio.all_tasks())
    for n in range(1000):
        run = await world.start(store=False, stream=stream)
        await (run.deliver(Heard()) if stream else run.result())
        assert run.response.status == "failed"
        assert (len(a.turns), len(b.turns)) == (1, 1)
        a.turns.clear()
        b.turns.clear()
        if n == 100:
            gc.collect()
            before = len(gc.get_objects())
    del run
    gc.collect()
    assert len(asyncio.all_tasks()) == tasks
    assert len(gc.get_objects()) - before < 500


async def test_a_conversation_is_compacted_by_whoever_can(store: SqliteStore) -> None:
    a, b = Scenes("a", [error("timeout", 504)]), Scenes("b", FINE)
    world = World(store, a, b)
    request = CompactRequest(model="r", input="a long conversation")
    run = await compaction.start(world.engine, request, world.engine.new_run(RequestContext(), "compaction"))
    resource = await compaction.finish(world.engine, run)
    assert resource.object == "response.compaction"
    assert [len(target.turns[0].items) for target in (a, b)] == [2, 2]


async def test_a_warm_up_asks_nobody(store: SqliteStore) -> None:
    a = Scenes("a", FINE)
    run, _ = await World(store, a, Scenes("b", FINE)).stream(is_socket=True, generate=False)
    assert run.response.status == "completed"
    assert not a.turns


async def test_what_is_refused_before_anything_is_sent_is_not_held_against_the_target(
    store: SqliteStore,
) -> None:
    """A limit that a program sets itself, say: the target is well, and is asked again at once."""
    a, b = Scenes("a", [SpecError(rate_limit("enough for today"))], FINE), Scenes("b", FINE)
    world = World(store, a, b, retries=0)
    first, _ = await world.stream()
    assert first.response.model == "b/m"
    state = world.engine.routes.states[Target("a", "m")]
    assert state.breaker.is_closed
    assert state.errors == state.breaker.failures == 0
    then, _ = await world.stream()
    assert then.response.model == "a/m"
