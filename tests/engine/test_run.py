"""One run: when it may fail as plain HTTP, how it ends, and that it is stored before it says so."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from antiphon.providers.base import Sink, Turn, UpstreamError, WrappingSink, answer_from
from antiphon.spec.errors import ErrorPayload, SpecError, server_error
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import Phase
from antiphon.store import SqliteStore
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import AnyDelta, CallDelta, Finish, ItemEnd, MessageStart, TextDelta
from tests.engine.played import Heard, Playing, Step, played, start, types
from tests.providers.compose import Collected


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


REFUSED = UpstreamError(ErrorPayload("too_many_requests", "slow down", code="rate_limit_exceeded"), 429)


async def test_a_run_streams_and_is_stored_before_its_terminal_event(store: SqliteStore) -> None:
    run = await start(store, Playing([], [TextDelta("a")], [TextDelta("b"), Finish()]))

    class Looking(Heard):
        async def close(self, events: list[AnyEvent]) -> None:
            assert not any(event.is_terminal for event in self.events)
            assert [event.is_terminal for event in events] == [True]
            assert await store.get("", run.response.id) is not None
            await super().close(events)

    heard = Looking()
    await run.deliver(heard, 5)
    assert heard.is_closed
    assert run.response.output[0].get_text() == "ab"  # type: ignore[union-attr]


async def test_nothing_is_stored_before_the_answer_is_whole(store: SqliteStore) -> None:
    held = asyncio.Event()
    provider = Playing([], [TextDelta("a")], held, [Finish()])
    run = await start(store, provider)
    task = asyncio.ensure_future(played(run))
    await provider.waiting.wait()
    assert await store.get("", run.response.id) is None
    held.set()
    await task
    assert await store.get("", run.response.id) is not None


async def test_an_early_refusal_is_raised_before_anything_is_said(store: SqliteStore) -> None:
    heard = Heard()
    run = await start(store, Playing(REFUSED))
    with pytest.raises(UpstreamError):
        await run.deliver(heard, 5)
    assert not heard.is_open
    with pytest.raises(UpstreamError):
        await (await start(store, Playing(REFUSED))).result()
    assert await store.get("", run.response.id) is None


async def test_a_provider_that_says_nothing_is_an_early_refusal(store: SqliteStore) -> None:
    heard = Heard()
    with pytest.raises(UpstreamError) as refused:
        await (await start(store, Playing())).deliver(heard, 5)
    assert (refused.value.status, refused.value.payload.code) == (502, "upstream_closed")
    assert not heard.is_open


async def test_a_late_refusal_is_a_failed_response(store: SqliteStore) -> None:
    held = asyncio.Event()
    run = await start(store, Playing(held, REFUSED))

    class Opened(Heard):
        def open(self) -> None:
            super().open()
            held.set()

    heard = Opened()
    await run.deliver(heard, 0.01)
    assert types(heard.events) == ["created", "in_progress", "error", "failed"]
    assert run.problem is not None
    assert (run.problem.payload, run.problem.status) == (REFUSED.payload, 429)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ((), "upstream_closed"),
        ((UpstreamError(server_error("x").with_code("timeout"), 504),), "timeout"),
        ((RuntimeError("a bug in an adapter"),), "internal_error"),
    ],
)
async def test_whatever_breaks_there_is_one_terminal_event(
    store: SqliteStore, ending: tuple[Step, ...], code: str
) -> None:
    run = await start(store, Playing([], [TextDelta("half")], *ending))
    events = await played(run)
    assert audit(events) == []
    assert types(events)[-1] == "failed"
    assert run.response.error is not None
    assert run.response.error.code == code
    assert "bug" not in run.response.error.message


async def test_a_batch_is_told_before_put_returns(store: SqliteStore) -> None:
    """From socket to socket in one callback: whoever awaits the provider is not needed for that."""
    heard = Heard()

    def put(sink: Sink) -> None:
        before = len(heard.events)
        assert sink.put([TextDelta("b")])
        assert types(heard.events[before:]) == ["output_text.delta"]

    run = await start(store, Playing([], [TextDelta("a")], put, [TextDelta("c"), Finish()]))
    await run.deliver(heard, 5)
    assert audit(heard.events) == []
    assert run.response.output[0].get_text() == "abc"  # type: ignore[union-attr]


async def test_an_end_that_is_full_takes_the_batch_and_the_provider_waits(store: SqliteStore) -> None:
    heard = Heard(full=True)
    words: list[list[AnyDelta]] = [[TextDelta(word)] for word in "abc"]
    run = await start(store, Playing([], *words, [Finish()]))
    await run.deliver(heard, 5)
    assert heard.waits == 4
    assert audit(heard.events) == []
    assert run.response.output[0].get_text() == "abc"  # type: ignore[union-attr]


async def test_what_is_put_without_waiting_is_neither_lost_nor_overtaken(store: SqliteStore) -> None:
    """A provider should wait when it is told to; one that goes on all the same loses nothing."""

    def put(sink: Sink) -> None:
        for word in "abcd":
            assert sink.put([TextDelta(word)]) is False

    heard = Heard(full=True)
    run = await start(store, Playing([], put, [Finish()]))
    await run.deliver(heard, 5)
    assert audit(heard.events) == []
    assert run.response.output[0].get_text() == "abcd"  # type: ignore[union-attr]


async def test_an_end_that_fails_is_not_the_fault_of_the_provider(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever made the end hears of it; the upstream is left, and what was said so far is kept."""
    heard = Heard()

    def fail(sink: Sink) -> None:
        heard.broken = True

    provider = Playing([], [TextDelta("a")], fail, [TextDelta("b")], [TextDelta("c"), Finish()])
    run = await start(store, provider)
    with pytest.raises(ArithmeticError):
        await run.deliver(heard, 5)
    assert provider.closed
    assert caplog.records == []
    kept = await store.get("", run.response.id)
    assert kept is not None
    assert (kept.status, b'"ab"' in kept.body) == ("incomplete", True)


async def test_the_end_is_never_told_at_once(store: SqliteStore) -> None:
    heard = Heard()

    def put(sink: Sink) -> None:
        sink.put([TextDelta("a"), Finish()])
        assert not any(event.is_terminal for event in heard.events)
        assert sink.put([TextDelta("too late")])

    run = await start(store, Playing([], put))
    await run.deliver(heard, 5)
    assert types(heard.events)[-1] == "completed"
    assert run.response.output[0].get_text() == "a"  # type: ignore[union-attr]


async def test_a_turn_that_waits_is_queued_first(store: SqliteStore) -> None:
    def queue(sink: Sink) -> None:
        sink.queued()
        sink.queued()
        assert types(heard.events) == ["created", "queued"]

    heard = Heard()
    run = await start(store, Playing(queue, [TextDelta("a"), Finish()]))
    await run.deliver(heard, 5)
    assert types(heard.events)[:3] == ["created", "queued", "in_progress"]
    assert audit(heard.events) == []


async def test_a_second_attempt_says_nothing_of_its_beginning(store: SqliteStore) -> None:
    """`accepted` and `queued` mean nothing once the response is in progress."""

    def again(sink: Sink) -> None:
        before = len(heard.events)
        sink.queued()
        sink.accepted()
        assert len(heard.events) == before

    heard = Heard()
    run = await start(store, Playing([], again, [TextDelta("a")], again, [TextDelta("b"), Finish()]))
    await run.deliver(heard, 5)
    assert types(heard.events)[:2] == ["created", "in_progress"]
    assert audit(heard.events) == []


class Twice(Playing):
    """A provider that wraps another, and asks it twice for one response."""

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await super().answer(turn, WithoutEnd(sink))
        await super().answer(turn, sink)


class WithoutEnd(WrappingSink):
    def put(self, deltas: list[AnyDelta]) -> bool:
        return super().put([delta for delta in deltas if not isinstance(delta, Finish)])


async def test_one_response_of_several_answers(store: SqliteStore) -> None:
    run = await start(store, Twice([], [TextDelta("a"), Finish()]))
    events = await played(run)
    assert audit(events) == []
    assert types(events).count("in_progress") == 1
    assert run.response.output[0].get_text() == "aa"  # type: ignore[union-attr]


async def test_a_generator_of_batches_is_an_answer() -> None:
    left = False

    async def batches() -> AsyncGenerator[list[AnyDelta], None]:
        nonlocal left
        try:
            yield []
            yield [TextDelta("a")]
            yield [Finish()]
        finally:
            left = True

    sink = Collected()
    await answer_from(batches(), sink)
    assert [sink.batches.get_nowait() for _ in range(3)] == [[], [TextDelta("a")], [Finish()]]
    slow = Collected(has_room=False)
    task = asyncio.ensure_future(answer_from(batches(), slow))
    assert [await slow.batches.get() for _ in range(2)] == [[], [TextDelta("a")]]
    left = False
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left
    assert slow.batches.empty()


async def test_a_listener_that_leaves_closes_the_upstream_and_keeps_what_was_said(store: SqliteStore) -> None:
    provider = Playing([], [TextDelta("half")], asyncio.Event())
    run = await start(store, provider)

    async def listen() -> None:
        await played(run)

    task = asyncio.ensure_future(listen())
    await provider.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.closed
    kept = await store.get("", run.response.id)
    assert kept is not None
    assert kept.status == "incomplete"


async def test_a_stopped_run_fails_and_still_says_so(store: SqliteStore) -> None:
    provider = Playing([], [TextDelta("half")], asyncio.Event())
    run = await start(store, provider)
    task = asyncio.ensure_future(played(run))
    await provider.waiting.wait()
    run.stop()
    events = await task
    assert types(events)[-1] == "failed"
    assert run.response.error is not None
    assert run.response.error.code == "server_shutdown"


async def test_a_store_that_fails_fails_the_response(store: SqliteStore) -> None:
    run = await start(store, Playing([], [TextDelta("a"), Finish()]))
    await store.close()
    events = await played(run)
    assert audit(events) == []
    assert types(events)[-2:] == ["error", "failed"]
    assert run.problem is not None
    assert run.problem.payload.code == "store_failed"


async def test_store_false_writes_nothing(store: SqliteStore) -> None:
    run = await start(store, Playing([Finish()]), store=False)
    await run.result()
    assert await store.get("", run.response.id) is None


async def test_an_unknown_parameter_leaves_a_receipt_and_strict_refuses_it(store: SqliteStore) -> None:
    run = await start(store, Playing([Finish()]), seed=1, top_p=0.5, temperature=1)
    await run.result()
    assert {receipt.param for receipt in run.turn.receipts} == {"seed", "top_p"}
    strict = await start(store, Playing(AssertionError()), strict=True, top_p=0.5)
    with pytest.raises(SpecError) as refused:
        await strict.result()
    assert (refused.value.payload.code, refused.value.payload.param) == ("unsupported_parameter", "top_p")


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(("strict", "status"), [(True, "failed"), (False, "completed")])
async def test_an_answer_that_misses_its_schema(store: SqliteStore, strict: bool, status: str) -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": strict}}
    run = await start(store, Playing([], [TextDelta('{"n":'), TextDelta('"x"}'), Finish()]), text=form)
    await run.result()
    assert run.response.status == status
    if strict:
        assert run.problem is not None
        assert run.problem.payload.code == "output_schema_mismatch"
    else:
        assert [r.action for r in run.turn.receipts] == ["unmet"]


async def test_an_answer_that_meets_its_schema_passes(store: SqliteStore) -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}
    run = await start(store, Playing([], [TextDelta('{"n": 3}'), Finish()]), text=form)
    assert (await run.result()).status == "completed"


async def test_a_schema_that_is_none_is_refused_before_the_model_is_asked(store: SqliteStore) -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": 5}}}
    with pytest.raises(SpecError) as refused:
        await start(store, Playing([Finish()]), text=form)
    assert refused.value.payload.param == "text.format.schema"


async def test_a_remote_reference_in_a_schema_is_never_fetched(store: SqliteStore) -> None:
    schema = {"$ref": "http://127.0.0.1:9/schema.json"}
    form = {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}
    run = await start(store, Playing([], [TextDelta("{}"), Finish()]), text=form)
    await run.result()
    assert run.problem is not None
    assert "could not be applied" in run.problem.payload.message


async def test_a_forbidden_call_never_gets_an_index(store: SqliteStore) -> None:
    tools = [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
    steps: list[AnyDelta] = [CallDelta(0, "{}", name="g"), CallDelta(1, "{}", name="f"), Finish("tool_calls")]
    run = await start(store, Playing([], steps), tools=tools, tool_choice=choice)
    events = await played(run)
    assert audit(events) == []
    assert [getattr(item, "name", None) for item in run.response.output] == ["f"]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_finished_run_leaves_nothing_to_the_garbage_collector(
    store: SqliteStore, streams: bool
) -> None:
    run = await start(store, Playing([], [TextDelta("a"), CallDelta("k", "{}", name="f")], [Finish()]))
    gc.disable()
    try:
        if streams:
            await played(run)
        else:
            await run.result()
        gone = weakref.ref(run), weakref.ref(run.composer)
        del run
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


async def test_a_run_shows_nothing_of_what_was_said(store: SqliteStore) -> None:
    run = await start(store, Playing([TextDelta("an answer")], [Finish()]), input="a prompt")
    await run.result()
    for shown in (repr(run), repr(run.composer), repr(run.turn), repr(run._save)):
        assert "a prompt" not in shown
        assert "an answer" not in shown


def _messages(*texts: str, phase: Phase | None = None) -> list[AnyDelta]:
    """One message for each text; the last is the final answer, if the others have a phase."""
    deltas: list[AnyDelta] = []
    for n, text in enumerate(texts):
        final: Phase | None = "final_answer" if phase else None
        deltas += [MessageStart(phase if n < len(texts) - 1 else final), TextDelta(text)]
        deltas.append(ItemEnd(status="completed"))
    return [*deltas, Finish()]


@pytest.mark.parametrize(
    ("deltas", "status"),
    [
        (_messages('{"n": 1}', '{"n": 2}'), "completed"),
        (_messages('{"n": 1}', '{"n": "x"}'), "failed"),
        (_messages('{"n": "x"}', '{"n": 2}'), "failed"),
        (_messages("Let me see.", '{"n": 2}', phase="commentary"), "completed"),
    ],
)
async def test_each_message_is_held_to_the_schema_by_itself(
    store: SqliteStore, deltas: list[AnyDelta], status: str
) -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}
    run = await start(store, Playing([], deltas), text=form)
    await run.result()
    assert run.response.status == status
