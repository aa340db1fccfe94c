"""The sink of one attempt: what counts as content, what a probe proves, and how long an attempt took."""

import asyncio
from collections.abc import Callable

import pytest

from antiphon.engine.routing.attempt_sink import announces
from antiphon.engine.run import Run
from antiphon.providers.base import Sink, UpstreamError
from antiphon.spec.codec import Opaque
from antiphon.spec.content import UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import OutputItemAddedEvent
from antiphon.spec.items import type_of
from antiphon.spec.response import Response, Usage
from antiphon.store import SqliteStore
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Finish,
    ItemDelta,
    ItemEnd,
    MessageStart,
    PartEnd,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
    VendorDelta,
    Words,
    WordsStart,
)
from tests.engine.played import Step
from tests.engine.routed import Scenes, World, outcomes, route_of

FINE: list[Step] = [[], [TextDelta("fine")], [Finish()]]
LATE = UpstreamError(ErrorPayload("server_error", "no", "timeout"), 504)
CITED = UrlCitation(start_index=0, end_index=0, url="https://w.example", title="W")
FOREIGN = Opaque.make(type="acme:search", id="se_1", status="completed", query="paris")
COMPACTED = Opaque.make(type="compaction", id="cmp_1", status="completed", encrypted_content="x")

DELTAS: list[AnyDelta] = [
    TextDelta("x"),
    TextDelta(""),
    RefusalDelta("x"),
    RefusalDelta(""),
    ReasoningDelta("x"),
    ReasoningDelta(""),
    SummaryDelta("x"),
    SummaryDelta(""),
    SignatureDelta("x"),
    SignatureDelta(""),
    AnnotationDelta(CITED),
    CallDelta("k", "{}", name="f"),
    CallDelta("k", "{}"),
    CallDelta("k", "x", name="f", kind="custom"),
    CallDelta("k", "{}", name="f", kind="tool_search"),
    CallDelta("k", "{}", name="f", kind="local_shell"),
    WordsStart("k"),
    WordsStart("k", "reasoning"),
    Words("k", "x"),
    MessageStart(),
    PartEnd(),
    ItemEnd(),
    ItemDelta(FOREIGN),
    ItemDelta(COMPACTED),
    VendorDelta("acme:progress", {"done": 1}),
    UsageDelta(Usage.of(1, 1)),
    Finish(),
]
TYPES = (
    "message",
    "reasoning",
    "function_call",
    "custom_tool_call",
    "tool_search_call",
    "local_shell_call",
    "acme:search",
    "compaction",
)


def hiding(hidden: str) -> Callable[[str], str | None]:
    return lambda type: None if type == hidden else type


def renaming(renamed: str) -> Callable[[str], str | None]:
    return lambda type: f"own:{type}" if type == renamed else type


@pytest.mark.parametrize("shown", [hiding, renaming])
@pytest.mark.parametrize("changed", ["", *TYPES])
def test_content_is_what_makes_the_composer_announce_an_item(
    shown: Callable[[str], Callable[[str], str | None]], changed: str
) -> None:
    """Whatever the client sees, and whatever is hidden from it or has another name there."""
    shows = shown(changed)
    for delta in DELTAS:
        if isinstance(delta, TextDelta | RefusalDelta | AnnotationDelta) and changed == "message":
            continue  # no dialect hides a message
        composer = Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0, shows=shows)
        composer.start()
        added = [event for event in composer.feed([delta]) if isinstance(event, OutputItemAddedEvent)]
        assert announces(delta, shows) == bool(added), delta


@pytest.mark.parametrize(
    "said",
    [CallDelta("k", "x", name="f", call_id="c1", kind="custom"), ItemDelta(FOREIGN)],
    ids=["a call", "an item"],
)
async def test_what_the_client_does_not_see_does_not_bind_it_to_a_target(
    store: SqliteStore, said: AnyDelta
) -> None:
    """No tool of the request asks for it, so nothing of it was told, and another target begins anew."""
    a, b = Scenes("a", [[], [said], LATE]), Scenes("b", FINE)
    run, _ = await World(store, a, b).stream()
    assert outcomes(run) == [("a/m", "timeout"), ("b/m", "answered")]
    assert [type_of(item) for item in run.response.output] == ["message"]


@pytest.mark.parametrize(
    "said",
    [AnnotationDelta(CITED), WordsStart("k"), WordsStart("k", "reasoning"), ItemDelta(COMPACTED)],
    ids=["an annotation", "a message", "reasoning", "an item"],
)
async def test_an_item_that_was_announced_stays_with_its_target(store: SqliteStore, said: AnyDelta) -> None:
    a, b = Scenes("a", [[], [said], LATE]), Scenes("b", FINE)
    run, _ = await World(store, a, b).stream()
    assert run.response.status == "failed"
    assert len(run.response.output) == 1
    assert not b.turns


async def answered(world: World, stream: bool) -> Run:
    return (await world.stream())[0] if stream else await world.plain()


@pytest.mark.parametrize("stream", [True, False])
async def test_others_follow_a_probe_once_its_first_words_have_come(store: SqliteStore, stream: bool) -> None:
    first, held = asyncio.Event(), asyncio.Event()
    a = Scenes("a", [LATE], [[], first, [TextDelta("the ")], held, [TextDelta("end")], [Finish()]], FINE)
    b = Scenes("b", FINE)
    world = World(store, a, b, failures=1)
    await world.stream()
    world.now += 60
    probe = asyncio.ensure_future(answered(world, stream))
    await a.waiting.wait()
    waiting, _ = await world.stream()
    assert outcomes(waiting) == [("b/m", "answered")]
    a.waiting.clear()
    first.set()
    await a.waiting.wait()
    following, _ = await world.stream()
    assert outcomes(following) == [("a/m", "answered")]
    assert not probe.done()
    held.set()
    run = await probe
    assert run.response.output_text == "the end"
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert [attempt.reason for attempt in attempts] == ["probe"]


async def test_the_receipt_says_how_long_each_attempt_took(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    for module in ("router", "attempt_sink"):
        monkeypatch.setattr(f"antiphon.engine.routing.{module}.perf_counter", lambda: clock[0])

    def takes(seconds: float) -> Callable[[Sink], None]:
        def wait(sink: Sink) -> None:
            clock[0] += seconds

        return wait

    a, b = Scenes("a", [[], takes(1.5), LATE]), Scenes("b", [takes(0.25), *FINE])
    run, _ = await World(store, a, b).stream()
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert [attempt.milliseconds for attempt in attempts] == [1500, 250]
