"""An answer that breaks off and that another target goes on with: one answer, told as one."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.seam import LEAST, last_words
from antiphon.engine.run import Run
from antiphon.providers.base import Capabilities
from antiphon.spec.codec import Opaque
from antiphon.spec.content import OutputText, UrlCitation
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message, type_of
from antiphon.spec.response import Receipt, Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import (
    AnnotationDelta,
    CallDelta,
    Finish,
    ItemDelta,
    ItemEnd,
    MessageStart,
    PartEnd,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
    Words,
    WordsStart,
)
from antiphon.stream.dialects import DIALECTS
from tests.engine.played import Heard, Step
from tests.engine.routed import CUT, Scenes, World, outcomes, route_of

TEXT = "The quick brown fox jumps over the lazy dog."


def pieces(text: str, size: int) -> list[Step]:
    return [[TextDelta(text[at : at + size])] for at in range(0, len(text), size)]


def seams(receipts: list[Receipt]) -> list[Receipt]:
    return [receipt for receipt in receipts if receipt.action == "continued"]


def text_part(run: Run, number: int = 0) -> OutputText:
    """A part of the only message."""
    (message,) = run.response.output
    assert isinstance(message, Message)
    part = message.content[number]
    assert isinstance(part, OutputText)
    return part


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
    assert seam.reason == "b/m continues this text at character 20"
    assert outcomes(run) == [("a/m", "connection"), ("b/m", "answered")]
    assert run.response.model == "b/m"


async def test_a_model_that_takes_a_beginning_is_given_nothing_else(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick ")], CUT])
    b = Scenes("b", [[], [TextDelta(" brown fox")], [Finish()]])
    b.capabilities = Capabilities(frozenset(), prefill=re.compile("^m$"))
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.output_text == "The quick brown fox"
    assert [type_of(item) for item in b.turns[0].items] == ["message", "message"]


async def test_of_whoever_was_given_the_beginning_nothing_but_all_of_it_is_a_repetition(
    store: SqliteStore,
) -> None:
    for rest in ("00000000 bytes", "n = 10000000000000000 bytes"):
        a = Scenes("a", [[], [TextDelta("n = 100000000")], CUT])
        b = Scenes("b", [[], [TextDelta(rest)], [Finish()]])
        a.capabilities = b.capabilities = Capabilities(frozenset(), prefill=re.compile("^m$"))
        run, _ = await World(store, a, b, on_cut="continue").stream(max_output_tokens=20)
        assert run.response.output_text == "n = 10000000000000000 bytes"
        assert b.turns[0].request.max_output_tokens == 20 - 3


async def test_who_is_asked_to_think_first_is_given_no_beginning(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick ")], CUT])
    b = Scenes("b", [[], [TextDelta("brown")], [Finish()]])
    a.capabilities = b.capabilities = Capabilities(frozenset(), prefill=re.compile("^m$"))
    run, _ = await World(store, a, b, on_cut="continue").stream(reasoning={"effort": "low"})
    assert run.response.output_text == "The quick brown"
    assert b.turns[0].items[-1].role == "user"  # type: ignore[union-attr]


async def test_after_finished_items_the_next_target_is_asked_for_what_is_missing(store: SqliteStore) -> None:
    whole: Step = [MessageStart(), TextDelta("First."), ItemEnd(None, "completed")]
    a, b = Scenes("a", [[], whole, CUT]), Scenes("b", [[], [TextDelta("Second.")], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert [item.get_text() for item in run.response.output if isinstance(item, Message)] == [
        "First.",
        "Second.",
    ]
    _, first, task = b.turns[0].items
    assert isinstance(first, Message)
    assert isinstance(task, Message)
    assert (first.get_text(), task.role) == ("First.", "user")
    assert task.get_text().startswith("Your answer broke off after what you have said so far.")


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


async def test_a_call_of_the_next_target_is_its_own_though_it_has_the_same_key(store: SqliteStore) -> None:
    a = Scenes("a", [[], [CallDelta(0, '{"a": 1}', name="f"), ItemEnd(0, "completed")], CUT])
    more: list[Step] = [[CallDelta(0, name="f")], [CallDelta(0, '{"b": 2}')], [ItemEnd(0, "completed")]]
    b = Scenes("b", [[], *more, [Finish("tool_calls")]])
    tools = [{"type": "function", "name": "f"}]
    run, _ = await World(store, a, b, on_cut="continue").stream(tools=tools)
    calls = [item.arguments for item in run.response.output if isinstance(item, FunctionCall)]
    assert calls == ['{"a": 1}', '{"b": 2}']


GRAMMAR = {"type": "custom", "name": "c", "format": {"type": "text"}}
SCHEMA = {"type": "json_schema", "name": "s", "schema": {"type": "object"}}
OPEN: list[tuple[str, Step, dict[str, Any]]] = [
    ("input of a custom call", [CallDelta(0, "half of", "c", "c1", "custom")], {"tools": [GRAMMAR]}),
    ("item of its own", [ItemDelta(Opaque.make(type="acme:work", id="w_1", status="in_progress"), 0)], {}),
    ("two texts", [WordsStart(0), Words(0, "One"), WordsStart(1), Words(1, "Two")], {}),
    ("text with a schema", [TextDelta('{"a": ')], {"text": {"format": SCHEMA}}),
]


@pytest.mark.parametrize(("what", "opened", "fields"), OPEN, ids=[what for what, *_ in OPEN])
async def test_what_may_not_be_guessed_is_the_end(
    store: SqliteStore, what: str, opened: Step, fields: dict[str, Any]
) -> None:
    a, b = Scenes("a", [[], opened, CUT]), Scenes("b", [[], [TextDelta("x")], [Finish()]])
    for target in (a, b):
        target.capabilities = Capabilities(frozenset(), custom_tools=True)
    context = RequestContext(receipts=True, dialect=DIALECTS["vtcode"])
    run = await World(store, a, b, on_cut="continue").start(context, **fields)
    await run.deliver(Heard())
    assert run.response.status == "failed"
    assert not b.turns


async def test_who_hid_something_is_named_for_it(store: SqliteStore) -> None:
    hidden: Step = [ItemDelta(Opaque.make(type="secret_call", id="s_1", status="completed"))]
    a = Scenes("a", [[], [TextDelta("The quick ")], CUT])
    b = Scenes("b", [[], [TextDelta("brown fox")], hidden, [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    (told,) = [receipt for receipt in run.turn.receipts if "secret_call" in receipt.reason]
    assert told.provider == "b"


async def test_an_answer_can_break_off_more_than_once(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("one, two, ")], CUT])
    b = Scenes("b", [[], [TextDelta("one, two, three, ")], CUT])
    c = Scenes("c", [[], [TextDelta("two, three, four")], [Finish()]])
    run, _ = await World(store, a, b, c, on_cut="continue").stream()
    assert run.response.output_text == "one, two, three, four"
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
    assert text_part(run).annotations == [UrlCitation("http://x", "x", 2, 5)]


async def test_the_place_of_a_seam_is_within_its_part(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("Eleven char"), PartEnd(), TextDelta("Nine char")], CUT])
    citation = AnnotationDelta(UrlCitation("http://x", "x", 10, 13))
    b = Scenes("b", [[], [TextDelta("Nine chars end"), citation], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    (seam,) = seams(run.turn.receipts)
    assert seam.param == "output[0].content[1]"
    assert seam.reason == "b/m continues this text at character 9"
    part = text_part(run, 1)
    assert part.text == "Nine chars end"
    assert part.annotations == [UrlCitation("http://x", "x", 10, 13)]


async def test_a_citation_of_an_earlier_part_is_not_put_into_the_open_one(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("Eleven char"), PartEnd(), TextDelta("Nine char")], CUT])
    notes = [AnnotationDelta(UrlCitation("http://x", "x", start, start + 2)) for start in (3, 11, 22)]
    b = Scenes("b", [[], [TextDelta("Eleven charNine chars end"), *notes], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    part = text_part(run, 1)
    assert part.text == "Nine chars end"
    assert [note.start_index for note in part.annotations if isinstance(note, UrlCitation)] == [0, 11]


async def test_a_citation_within_a_repetition_does_not_end_it(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick brown fox ")], CUT])
    note = AnnotationDelta(UrlCitation("http://x", "x", 4, 9))
    b = Scenes("b", [[], [TextDelta("The quick"), note], [TextDelta(" brown fox jumps.")], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.output_text == "The quick brown fox jumps."
    assert text_part(run).annotations == [UrlCitation("http://x", "x", 4, 9)]


async def test_a_target_that_only_repeats_adds_no_citation_and_no_name(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick brown fox ")], CUT])
    note = AnnotationDelta(UrlCitation("http://x", "x", 4, 9))
    b = Scenes("b", [[], [TextDelta("")], [TextDelta("The quick"), note], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert text_part(run) == OutputText("The quick brown fox ")
    assert run.response.model == "a/m"


async def test_a_text_without_words_after_a_repetition_adds_nothing(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick brown fox")], CUT])
    b = Scenes("b", [[], [TextDelta("The quick brown fox")], [TextDelta("")], [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.model == "a/m"


async def test_after_a_whole_repetition_a_further_message_is_one(store: SqliteStore) -> None:
    a = Scenes("a", [[], [TextDelta("The quick brown fox")], CUT])
    more: list[Step] = [
        [TextDelta("The quick brown fox")],
        [TextDelta(" jumps.")],
        [MessageStart(), TextDelta("End.")],
    ]
    b = Scenes("b", [[], *more, [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    texts = [item.get_text() for item in run.response.output if isinstance(item, Message)]
    assert texts == ["The quick brown fox jumps.", "End."]


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
    # A last piece that is also a beginning of what was to be repeated may be either.
    assume(before == len(text) or not last_words(text[:before].rstrip()).startswith(text[start:].lstrip()))
    scenes.append([[], *pieces(text[start:], size), [Finish()]])
    targets = [Scenes("abc"[n], scene) for n, scene in enumerate(scenes)]
    run, _ = await World(store, *targets, on_cut="continue").stream(store=False)
    assert run.response.status == "completed"
    assert run.response.output_text == text
