"""The stream of a response that is over, made from the response alone, is one that could have been sent."""

import msgspec
import pytest
from hypothesis import assume, given

from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import LogProb
from antiphon.spec.decode import decode_response
from antiphon.spec.response import Usage
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Finish,
    ItemDelta,
    ItemEnd,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
    Words,
    WordsStart,
)
from antiphon.stream.reader import Reader
from antiphon.stream.replaying import recompose
from tests.stream.composed import composer
from tests.stream.strategies import core_runs, runs
from tests.stream.test_resume_state import ANSWERS

ENDED: dict[str, list[AnyDelta]] = {
    **{name: [*deltas, Finish()] for name, deltas in ANSWERS.items()},
    "cut text": [TextDelta("Half a sent"), Finish("length")],
    "cut call": [CallDelta("a", '{"x":', "look_up", "call_1"), Finish("length")],
    "cut reasoning": [ReasoningDelta("hm"), Finish("length")],
    "cut while a tool runs": [
        ItemDelta(Opaque.make(type="web_search_call", id="ws_1", status="in_progress"), "a"),
        Finish("length"),
    ],
    "words without a word": [WordsStart("a"), Words("a", ""), ItemEnd("a"), TextDelta("Hi"), Finish()],
    "reasoning that grows beside words": [
        WordsStart("a", "reasoning"),
        WordsStart("b", phase="commentary"),
        Words("a", "hm"),
        Words("b", "Well"),
        UsageDelta(Usage.of(3, 4)),
        Finish("length"),
    ],
    "probabilities without a text": [TextDelta("", [LogProb("", -0.5, [], [])]), Finish()],
}


@pytest.mark.parametrize("deltas", ENDED.values(), ids=ENDED)
def test_an_answer_composed_anew_is_the_same(deltas: list[AnyDelta]) -> None:
    machine = composer()
    machine.feed(deltas)
    stored = encode(machine.response)
    events = recompose(decode_response(stored))
    payloads = [msgspec.json.decode(event.to_json()) for event in events]
    assert audit(payloads, extensions=True, solicited={"custom_tool_call", "web_search_call"}) == []
    assert payloads[-1]["response"] == msgspec.json.decode(stored)


@given(core_runs)
def test_a_stream_composed_anew_ends_with_the_same_response(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, _ = run
    machine = composer()
    machine.feed([*body, ending])
    assume(machine.response.status in ("completed", "incomplete"))
    stored = encode(machine.response)
    events = recompose(decode_response(stored))
    payloads = [msgspec.json.decode(event.to_json()) for event in events]
    assert audit(payloads) == []
    assert payloads[-1]["response"] == msgspec.json.decode(stored)
    assert [event.sequence_number for event in events] == list(range(len(events)))


@given(runs)
def test_whoever_reads_it_has_the_same_items(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, _ = run
    machine = composer()
    machine.feed([*body, ending])
    assume(machine.response.status in ("completed", "incomplete"))
    stored = encode(machine.response)
    reader = Reader()
    for event in recompose(decode_response(stored)):
        reader.feed(msgspec.json.decode(event.to_json()))
    assert msgspec.json.decode(encode(reader.response)) == msgspec.json.decode(stored)
