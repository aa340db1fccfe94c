"""One run: when it may fail as plain HTTP, how it ends, and that it is stored before it says so."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, Provider
from antiphon.engine.engine import Caller, Engine
from antiphon.engine.run import Run
from antiphon.engine.sealing import Seal
from antiphon.providers.base import Capabilities, Turn, UpstreamError
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ErrorPayload, SpecError, server_error
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import Phase
from antiphon.spec.opaque import encode
from antiphon.store import SqliteStore
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import AnyDelta, CallDelta, Finish, ItemEnd, MessageStart, TextDelta

Step = list[AnyDelta] | BaseException | asyncio.Event | Callable[[Turn], None]


class Playing:
    """A provider that does what the test says, step by step."""

    name = "playing"
    capabilities = Capabilities(frozenset({"temperature"}))

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.closed = False
        self.waiting = asyncio.Event()

    async def stream(self, turn: Turn) -> AsyncIterator[list[AnyDelta]]:
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, asyncio.Event):
                    self.waiting.set()
                    await step.wait()
                elif callable(step):
                    step(turn)
                else:
                    yield step
        finally:
            self.closed = True

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        return []

    async def close(self) -> None:
        return


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


async def start(opened: SqliteStore, provider: Playing, strict: bool = False, **fields: Any) -> Run:
    config = Config(default_model="p/m", providers={"p": Provider(type="playing")})
    engine = Engine(config, {"p": provider}, opened, Seal([bytes(32)]), lambda: 1000.0)
    return await engine.start(
        decode_request(encode({"input": "hi", **fields})), Caller(receipts=True, strict=strict)
    )


async def played(run: Run) -> list[AnyEvent]:
    await run.begin(5)
    return [event async for batch in run.events() for event in batch]


def types(events: list[AnyEvent]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]


REFUSED = UpstreamError(ErrorPayload("too_many_requests", "slow down", code="rate_limit_exceeded"), 429)


async def test_a_run_streams_and_is_stored_before_its_terminal_event(store: SqliteStore) -> None:
    run = await start(store, Playing([], [TextDelta("a")], [TextDelta("b"), Finish()]))
    await run.begin(5)
    async for batch in run.events():
        if batch[-1].is_terminal:
            assert await store.get("", run.response.id) is not None
            assert len(batch) == 1
        else:
            assert await store.get("", run.response.id) is None
    assert run.response.output[0].get_text() == "ab"  # type: ignore[union-attr]


async def test_an_early_refusal_is_raised_before_anything_is_said(store: SqliteStore) -> None:
    run = await start(store, Playing(REFUSED))
    with pytest.raises(UpstreamError):
        await run.begin(5)
    with pytest.raises(UpstreamError):
        await (await start(store, Playing(REFUSED))).result()


async def test_a_late_refusal_is_a_failed_response(store: SqliteStore) -> None:
    held = asyncio.Event()
    run = await start(store, Playing(held, REFUSED))
    await run.begin(0.01)
    asyncio.get_running_loop().call_soon(held.set)
    events = [event async for batch in run.events() for event in batch]
    assert types(events) == ["created", "in_progress", "error", "failed"]
    assert run.error == REFUSED.payload


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


def taken(*deltas: AnyDelta, told: bool) -> Callable[[Turn], None]:
    """The provider says this without waiting to be asked."""

    def say(turn: Turn) -> None:
        assert turn.take is not None
        assert turn.take([*deltas]) is told

    return say


@pytest.mark.parametrize("ready", [True, False])
async def test_what_is_told_at_once_is_told_in_its_place(store: SqliteStore, ready: bool) -> None:
    heard: list[AnyEvent] = []
    at_once: list[AnyEvent] = []

    def tell(events: list[AnyEvent]) -> bool:
        if ready:
            heard.extend(events)
            at_once.extend(events)
        return ready

    said = taken(TextDelta("b"), told=ready)
    run = await start(store, Playing([], [TextDelta("a")], said, [], [TextDelta("c"), Finish()]))
    await run.begin(5)
    async for batch in run.events(tell):
        heard += batch
    assert audit(heard) == []
    assert run.response.output[0].get_text() == "abc"  # type: ignore[union-attr]
    assert types(at_once) == (["output_text.delta"] if ready else [])
    assert run.turn.take is None


async def test_what_waits_is_neither_lost_nor_overtaken(store: SqliteStore) -> None:
    """A provider should wake the task when it is told no; one that goes on all the same loses nothing."""
    answers = iter([False, True])
    at_once: list[AnyEvent] = []

    def tell(events: list[AnyEvent]) -> bool:
        if ready := next(answers):
            at_once.extend(events)
        return ready

    words = [taken(TextDelta(word), told=False) for word in "abc"]
    run = await start(store, Playing([], *words, [], taken(TextDelta("d"), told=True), [Finish()]))
    await run.begin(5)
    heard: list[AnyEvent] = []
    async for batch in run.events(tell):
        heard += [*at_once, *batch]
        at_once.clear()
    assert audit(heard) == []
    assert run.response.output[0].get_text() == "abcd"  # type: ignore[union-attr]


async def test_who_fails_to_tell_at_once_gets_the_batch_again(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    def tell(events: list[AnyEvent]) -> bool:
        raise ArithmeticError

    run = await start(store, Playing([], taken(TextDelta("a"), told=False), [], [TextDelta("b"), Finish()]))
    await run.begin(5)
    heard = [event async for batch in run.events(tell) for event in batch]
    assert audit(heard) == []
    assert run.response.status == "completed"
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "a batch could not be told at once"
    ]


async def test_the_end_is_never_told_at_once(store: SqliteStore) -> None:
    at_once: list[AnyEvent] = []
    run = await start(store, Playing([], taken(TextDelta("a"), Finish(), told=False), []))
    await run.begin(5)

    def tell(events: list[AnyEvent]) -> bool:
        at_once.extend(events)
        return True

    async for batch in run.events(tell):
        if batch[-1].is_terminal:
            assert await store.get("", run.response.id) is not None
    assert at_once == []
    assert run.response.status == "completed"


async def test_a_turn_that_waits_is_queued_first(store: SqliteStore) -> None:
    held = asyncio.Event()

    def queue(turn: Turn) -> None:
        assert turn.on_queued is not None
        turn.on_queued()

    run = await start(store, Playing(queue, held, [TextDelta("a"), Finish()]))
    await run.begin(5)
    asyncio.get_running_loop().call_soon(held.set)
    events = [event async for batch in run.events() for event in batch]
    assert types(events)[:3] == ["created", "queued", "in_progress"]
    assert audit(events) == []


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
    assert run.error is not None
    assert run.error.code == "store_failed"


async def test_store_false_writes_nothing(store: SqliteStore) -> None:
    run = await start(store, Playing([Finish()]), store=False)
    await run.result()
    assert await store.get("", run.response.id) is None


async def test_an_unknown_parameter_leaves_a_receipt_and_strict_refuses_it(store: SqliteStore) -> None:
    run = await start(store, Playing([Finish()]), seed=1, top_p=0.5, temperature=1)
    assert {receipt.param for receipt in run.turn.receipts} == {"seed", "top_p"}
    with pytest.raises(SpecError) as refused:
        await start(store, Playing([Finish()]), strict=True, top_p=0.5)
    assert (refused.value.payload.code, refused.value.payload.param) == ("unsupported_parameter", "top_p")


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(("strict", "status"), [(True, "failed"), (False, "completed")])
async def test_an_answer_that_misses_its_schema(store: SqliteStore, strict: bool, status: str) -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": strict}}
    run = await start(store, Playing([], [TextDelta('{"n":'), TextDelta('"x"}'), Finish()]), text=form)
    await run.result()
    assert run.response.status == status
    if strict:
        assert run.error is not None
        assert run.error.code == "output_schema_mismatch"
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
    assert run.error is not None
    assert "could not be applied" in run.error.message


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
    for shown in (repr(run), repr(run.composer), repr(run.turn), repr(run._save), repr(run.turn.on_queued)):
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
