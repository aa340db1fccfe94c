"""An answer that breaks off and that another target goes on with: one answer, told as one."""

import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from antiphon.engine.routing.seam import LEAST
from antiphon.providers.base import Capabilities
from antiphon.spec.content import UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message, type_of
from antiphon.spec.response import Receipt, Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import (
    AnnotationDelta,
    CallDelta,
    Failure,
    Finish,
    ItemEnd,
    MessageStart,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from tests.engine.played import Step
from tests.engine.routed import Scenes, World, outcomes, route_of

CUT: Step = [Failure(ErrorPayload("server_error", "cut", "upstream_closed"))]
TEXT = "The quick brown fox jumps over the lazy dog."


def said(text: str, *more: Step) -> list[Step]:
    return [[], *([TextDelta(text)] if text else []), *more]  # type: ignore[list-item]


def pieces(text: str, size: int) -> list[Step]:
    return [[TextDelta(text[at : at + size])] for at in range(0, len(text), size)]


def seams(receipts: list[Receipt]) -> list[Receipt]:
    return [receipt for receipt in receipts if receipt.action == "continued"]


async def test_the_next_target_is_given_the_text_so_far_and_asked_to_go_on(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick brown fox ")], CUT])
    b = Scenes("b", [[], [TextDelta("quick brown fox jumps.")], [Finish()]])
    run, events = await World(store, a, b, on_cut="continue").stream()
    assert run.response.output_text == "The quick brown fox jumps."
    assert len(run.response.output) == 1
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]  # type: ignore[union-attr]
    assert deltas == ["The quick brown fox ", "jumps."]
    _, so_far, task = b.turns[0].items
    assert isinstance(so_far, Message)
    assert (so_far.role, so_far.get_text()) == ("assistant", "The quick brown fox")
    assert isinstance(task, Message)
    assert task.role == "user"
    assert task.get_text().endswith("\nThe quick brown fox")
    (seam,) = seams(run.turn.receipts)
    assert seam.param == "output[0].content[0]"
    assert seam.reason == "b/m goes on with this text at character 20"
    assert outcomes(run) == [("a/m", "connection"), ("b/m", "answered")]
    assert run.response.model == "b/m"


async def test_a_model_that_takes_a_beginning_is_given_nothing_else(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick ")], CUT])
    b = Scenes("b", [[], [TextDelta(" brown fox")], [Finish()]])
    b.capabilities = Capabilities(frozenset(), prefill=re.compile("^m$"))
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.output_text == "The quick brown fox"
    assert [type_of(item) for item in b.turns[0].items] == ["message", "message"]


async def test_what_is_thought_in_the_middle_of_a_text_does_not_tear_it_apart(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick ")], CUT])
    b = Scenes("b", [[], [ReasoningDelta("Hm.")], [MessageStart(), TextDelta("brown fox")], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.output_text == "The quick brown fox"
    assert len(run.response.output) == 1
    assert any("left out" in receipt.reason for receipt in run.turn.receipts)


async def test_finished_items_stay_and_keys_do_not_collide(store: SqliteStore) -> None:
    call: Step = [CallDelta(0, '{"a": 1}', name="f", call_id="c1"), ItemEnd(0, "completed")]
    a = Scenes("a", [[], [TextDelta("Look:"), MessageStart()], call, CUT])
    b = Scenes("b", [[], [CallDelta(0, '{"b": 2}', name="g", call_id="c1")], [Finish("tool_calls")]])
    run, _ = await World(store, a, b, on_cut="continue").stream(
        tools=[{"type": "function", "name": name} for name in "fg"], tool_choice="required"
    )
    _, first, second = run.response.output
    assert isinstance(first, FunctionCall)
    assert isinstance(second, FunctionCall)
    assert (first.name, first.arguments) == ("f", '{"a": 1}')
    assert (second.name, second.arguments) == ("g", '{"b": 2}')
    assert first.call_id != second.call_id
    given = b.turns[0].items
    assert [type_of(item) for item in given[1:4]] == ["message", "function_call", "function_call_output"]
    assert isinstance(given[3], FunctionCallOutput)
    assert b.turns[0].request.tool_choice is None


async def test_usage_and_the_budget_are_those_of_one_answer(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("x" * 400)], CUT])
    b = Scenes("b", [[], [TextDelta("y" * 40)], [UsageDelta(Usage.of(500, 10, cached=450)), Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=150)
    assert b.turns[0].request.max_output_tokens == 50
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
    assert estimate.reason == "a/m broke off before it had counted its words: taken as 100 tokens"


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


async def test_a_budget_that_is_used_up_is_the_end(store: SqliteStore) -> None:
    a, b = Scenes("a", [[], [TextDelta("x" * 400)], CUT]), Scenes("b", said("y", [Finish()]))
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=100)
    assert run.response.status == "incomplete"
    assert run.response.output_text == "x" * 400
    assert not b.turns


async def test_an_answer_can_break_off_more_than_once(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("one, two, ")], CUT])
    b = Scenes("b", [[], [TextDelta("one, two, three, ")], CUT])
    c = Scenes("c", [[], [TextDelta("three, four")], [Finish()]])
    run, _ = await World(store, a, b, c, on_cut="continue").stream()
    # "three, " alone is too short to be told from chance.
    assert run.response.output_text in ("one, two, three, four", "one, two, three, three, four")
    assert [receipt.reason.split()[0] for receipt in seams(run.turn.receipts)] == ["b/m", "c/m"]


async def test_when_nobody_can_go_on_the_response_fails_with_what_there_is(store: SqliteStore) -> None:
    a, b = Scenes("a", [[], [TextDelta("Half")], CUT]), Scenes("b", [CUT])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.status == "failed"
    assert run.response.output_text == "Half"


async def test_what_has_content_is_never_asked_of_the_same_target_again(store: SqliteStore) -> None:
    a, b = Scenes("a", [[], [TextDelta("Half")], CUT]), Scenes("b", [CUT])
    run, _ = await World(store, a, b, on_cut="continue", retries=5).stream()
    assert run.response.status == "failed"
    assert (len(a.turns), len(b.turns)) == (1, 1)


@pytest.mark.parametrize(
    ("second", "status"),
    [
        ([CUT], "failed"),
        ([[], [TextDelta("Half of th")], CUT], "failed"),
        ([[], [Finish()]], "completed"),
        ([[], [TextDelta("Half of the text")], [UsageDelta(Usage.of(9, 4)), Finish()]], "completed"),
    ],
)
async def test_the_model_is_the_one_whose_words_are_there(
    store: SqliteStore, second: list[Step], status: str
) -> None:
    a, b = Scenes("a", [[], [TextDelta("Half of the text")], CUT]), Scenes("b", second)
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert (run.response.status, run.response.output_text) == (status, "Half of the text")
    assert run.response.model == "a/m"


async def test_a_budget_that_is_used_up_leaves_the_model_as_it_is(store: SqliteStore) -> None:
    a, b = Scenes("a", [[], [TextDelta("x" * 400)], CUT]), Scenes("b", said("y", [Finish()]))
    run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=100)
    assert run.response.model == "a/m"


@pytest.mark.parametrize("dead", [[CUT], [[], [TextDelta("Half of th")], CUT]])
async def test_a_target_that_adds_nothing_leaves_no_receipt_but_its_attempt(
    store: SqliteStore, dead: list[Step]
) -> None:
    a, b = Scenes("a", [[], [TextDelta("Half of the text ")], CUT]), Scenes("b", dead)
    c = Scenes("c", [[], [TextDelta("is here.")], [UsageDelta(Usage.of(90, 2)), Finish()]])
    run, _ = await World(store, a, b, c, on_cut="continue").stream()
    assert run.response.output_text == "Half of the text is here."
    assert [receipt.reason.split()[0] for receipt in seams(run.turn.receipts)] == ["c/m"]
    (estimate,) = [receipt for receipt in run.turn.receipts if receipt.action == "estimated"]
    assert estimate.reason.startswith("a/m ")
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    assert [one.target for one in attempts if isinstance(one.usage, Usage)] == ["a/m", "c/m"]


async def test_citations_of_the_rest_stand_at_their_place(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("0123456789")], CUT])
    citation = AnnotationDelta(UrlCitation("http://x", "x", 2, 5))
    b = Scenes("b", [[], [TextDelta("0123456789abcdef"), citation], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    (message,) = run.response.output
    assert isinstance(message, Message)
    part = message.content[0]
    assert part.annotations == [UrlCitation("http://x", "x", 2, 5)]  # type: ignore[union-attr]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(TEXT.split()), min_size=1, max_size=25),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40)), min_size=1, max_size=2),
    st.integers(1, 30),
)
async def test_cut_anywhere_and_repeated_from_anywhere_the_text_is_whole(
    store: SqliteStore, words: list[str], cuts: list[tuple[float, int]], size: int
) -> None:
    text = " ".join(words)
    scenes: list[list[Step]] = []
    start, before = 0, 0
    for where, overlap in sorted(cuts):
        at = max(before, round(where * len(text)))
        scenes.append([[], *pieces(text[start:at], size), CUT])
        before, start = at, max(0, at - overlap)
        so_far, rest = text[:at], text[start:]
        real = at - start
        found = [n for n in range(1, min(at, len(rest)) + 1) if so_far.endswith(rest[:n])]
        longest = max((n for n in found if n >= min(LEAST, at)), default=0)
        assume(longest == (real if real >= min(LEAST, at) else 0))
        assume(real == 0 or real >= min(LEAST, at))
    scenes.append([[], *pieces(text[start:], size), [Finish()]])
    targets = [Scenes("abc"[n], scene) for n, scene in enumerate(scenes)]
    run, _ = await World(store, *targets, on_cut="continue").stream(store=False)
    assert run.response.status == "completed"
    assert run.response.output_text == text
