"""How long an answer may be: what is counted, and what is left of an answer that is too long."""

from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec.codec import Opaque
from antiphon.spec.content import LogProb, OutputText, UrlCitation
from antiphon.spec.events import AnyEvent, LifecycleEvent
from antiphon.spec.items import FunctionCall, Message
from antiphon.spec.response import Response, Usage
from antiphon.stream import plain_answer
from antiphon.stream.answer_limit import MOST_ITEMS, AnswerRoom
from antiphon.stream.auditor import audit
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

ROOM = 4096


class Limited:
    """A composer with little room, and what it says when that is used up."""

    def __init__(self, room: int = ROOM, deltas: int = 100, **fields: Any) -> None:
        self.reached = 0
        begun = Response.new("resp_1", "m", now=1_700_000_000)
        options = {"room": AnswerRoom(room, deltas), "limited": self._reach, **fields}
        self.composer = Composer(begun, clock=lambda: 1_700_000_001.0, **options)

    def _reach(self) -> None:
        self.reached += 1

    @property
    def text(self) -> str:
        [message] = self.composer.response.output
        assert isinstance(message, Message)
        part = message.content[0]
        assert isinstance(part, OutputText)
        return part.text


def is_incomplete(events: list[AnyEvent]) -> bool:
    last = events[-1]
    assert isinstance(last, LifecycleEvent)
    return last.type == "response.incomplete" and last.response.incomplete_details is not None


def test_a_text_ends_at_the_last_character_that_fits() -> None:
    limited = Limited(room=10)
    events = limited.composer.feed([TextDelta("äöü"), TextDelta("ß€"), TextDelta("x"), Finish()])
    assert is_incomplete(events)
    assert limited.text == "äöüß"  # eight bytes, and the next character has three
    assert (limited.reached, limited.composer.is_too_long) == (1, True)
    assert limited.composer.feed([TextDelta("more"), Finish()]) == []


@given(st.lists(st.text(max_size=20), max_size=30), st.integers(0, 200))
def test_no_more_is_said_than_there_is_room_for(pieces: list[str], room: int) -> None:
    limited = Limited(room=room)
    events = limited.composer.feed([*map(TextDelta, pieces), Finish()])
    said = "".join(pieces)
    if len(said.encode()) <= room:
        assert limited.composer.response.status == "completed"
        assert not limited.reached
        return
    assert is_incomplete(events)
    text = "".join(getattr(event, "delta", "") for event in events)
    assert said.startswith(text)
    assert room - 4 < len(text.encode()) <= room or not room


def test_a_whole_answer_that_is_too_long_is_cut_as_well() -> None:
    limited = Limited(room=8, muted=True)
    deltas: list[AnyDelta] = [TextDelta("0123456789"), UsageDelta(Usage.of(1, 1)), Finish()]
    assert not plain_answer.compose(limited.composer, deltas)
    limited.composer.feed(deltas)
    assert limited.composer.response.status == "incomplete"
    assert limited.text == "01234567"


CITATION = UrlCitation(url="https://example.org/" + "x" * 50, title="t", start_index=0, end_index=0)
ENDLESS: dict[str, list[AnyDelta]] = {
    "reasoning": [ReasoningDelta("x")],
    "summary": [SummaryDelta("x")],
    "parts of a summary": [SummaryDelta("x", 1), SummaryDelta("x", 2)],
    "refusal": [RefusalDelta("x")],
    "signatures": [SignatureDelta("x")],
    "annotations": [AnnotationDelta(CITATION)],
    "arguments": [CallDelta("k", "x", "f")],
    "arguments without a name": [CallDelta("k", "x")],
    "calls": [CallDelta("k", "{}", "f", "1"), CallDelta("k", "{}", "f", "2")],
    "messages": [MessageStart(), TextDelta("x")],
    "empty messages": [MessageStart()],
    "parts": [TextDelta("x"), PartEnd()],
    "probabilities": [TextDelta("x", [LogProb("x", -1.0)])],
    "probabilities without a text": [TextDelta("", [LogProb("x", -1.0)])],
    "items": [ItemDelta(Opaque.make(type="web_search_call", id="", status="completed"))],
    "one item": [ItemDelta(Opaque.make(type="web_search_call", id="", status="in_progress"), "k")],
    "events": [VendorDelta("x.y", {"a": "b"})],
    "words under keys": [WordsStart("k"), Words("k", "x"), ItemEnd("k", "completed")],
}


@pytest.mark.parametrize("deltas", ENDLESS.values(), ids=list(ENDLESS))
def test_nothing_that_a_provider_can_say_goes_on_for_ever(deltas: list[AnyDelta]) -> None:
    limited = Limited(deltas=10**9)
    events = limited.composer.start()
    for _ in range(1000):
        events += limited.composer.feed(deltas)
    assert is_incomplete(events)
    assert limited.reached == 1
    assert len(events) < 1500
    assert not [one for one in audit(events) if not one.rule.startswith("union.")]


@pytest.mark.parametrize("delta", [TextDelta(""), TextDelta("x"), UsageDelta(Usage.of(1, 1))])
def test_the_number_of_deltas_is_limited_too(delta: AnyDelta) -> None:
    limited = Limited()
    events = limited.composer.start()
    for _ in range(50):
        events += limited.composer.feed([delta, delta])
    assert not limited.composer.finished
    events += limited.composer.feed([TextDelta("one more")])
    assert is_incomplete(events)


def test_the_number_of_items_is_limited_too() -> None:
    limited = Limited(room=10**9, deltas=10**9)
    events = limited.composer.start()
    for _ in range(MOST_ITEMS):
        events += limited.composer.feed([TextDelta("x"), ReasoningDelta("x")])
    assert is_incomplete(events)
    assert len(limited.composer.response.output) == MOST_ITEMS + 1


def test_arguments_that_may_be_whole_are_looked_at_within_a_bound() -> None:
    """Each look is at all of them: a name in each piece, and a brace at its end, took quadratic time."""
    limited = Limited(room=10**9, deltas=10**9)
    limited.composer.feed([CallDelta("k", '{"a": "' + "x" * 10**6, "f")])
    began = process_time()
    for _ in range(5000):
        limited.composer.feed([CallDelta("k", "}", "f")])
    assert process_time() - began < 2  # coarse: five thousand looks at a megabyte take far longer
    events = limited.composer.feed([CallDelta("k", '"}'), Finish("tool_calls")])
    assert events[-1].type == "response.completed"
    [call] = limited.composer.response.output
    assert isinstance(call, FunctionCall)
    assert len(call.arguments) == 7 + 10**6 + 5000 + 2


@given(
    st.lists(
        st.one_of(
            st.text("aä€", max_size=3).map(TextDelta),
            st.just(TextDelta("p", [LogProb("p", -1.0)])),
            st.just(ReasoningDelta("r")),
            st.just(PartEnd()),
            st.just(UsageDelta(Usage.of(1, 1))),
        ),
        max_size=12,
    ),
    st.integers(0, 30),
    st.booleans(),
)
def test_a_batch_tells_what_its_deltas_tell_one_by_one(
    deltas: list[AnyDelta], room: int, keeps: bool
) -> None:
    """Many plain texts are added in one step, and a text that comes alone in another way."""
    together, apart = (Limited(room=room, keeps_chunks=keeps) for _ in range(2))
    for limited in (together, apart):
        limited.composer.new_id = "{}_1".format
    ended = [*deltas, Finish()]
    events = [event for delta in ended for event in apart.composer.feed([delta])]
    assert together.composer.feed(ended) == events
    assert together.composer.response == apart.composer.response
    assert together.composer.room.bytes == apart.composer.room.bytes
