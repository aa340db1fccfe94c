"""A stream that breaks off after any of its events is ended by another Composer, and is whole then."""

from typing import Any

import msgspec
import pytest

from antiphon.spec.codec import Opaque
from antiphon.spec.content import LogProb, UrlCitation
from antiphon.spec.errors import server_error
from antiphon.stream.auditor import audit
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
)
from antiphon.stream.reader import Reader
from antiphon.stream.sent_events import SentEvents
from tests.stream.composed import composer

ANSWERS: dict[str, list[AnyDelta]] = {
    "text": [
        MessageStart("commentary"),
        TextDelta("Let me "),
        TextDelta("see.", [LogProb("see.", -0.5, [], [])]),
        AnnotationDelta(UrlCitation("https://example.com", "A page", 0, 3)),
        PartEnd(),
        RefusalDelta("No."),
    ],
    "reasoning": [
        SummaryDelta("First.", 0),
        SummaryDelta("Then.", 1),
        ReasoningDelta("hm"),
        SignatureDelta("proof"),
        TextDelta("Yes."),
    ],
    "calls": [
        CallDelta("a", '{"x":', "look_up", "call_1"),
        CallDelta("a", "1}"),
        ItemEnd("a", "completed"),
        CallDelta("b", "any text", "write", "call_2", "custom"),
    ],
    "whole items": [
        ItemDelta(Opaque.make(type="web_search_call", id="ws_1", status="completed")),
        TextDelta("Hi"),
    ],
}


@pytest.mark.parametrize("deltas", ANSWERS.values(), ids=ANSWERS)
def test_a_stream_that_breaks_off_anywhere_is_ended_in_good_order(deltas: list[AnyDelta]) -> None:
    whole = composer().feed([*deltas, Finish()])
    for cut in range(1, len(whole)):
        sent, reader = SentEvents(), Reader()
        for event in whole[:cut]:
            reader.feed(event.to_json())
            for read in reader.events:
                sent.add(read)
            sent.next_number = event.sequence_number + 1
        second = composer()
        second.resume(sent)
        events: list[Any] = [*whole[:cut], *second.fail(server_error("cut"))]
        payloads = [msgspec.json.decode(event.to_json()) for event in events]
        asked = {"custom_tool_call", "web_search_call"}
        assert audit(payloads, extensions=True, solicited=asked) == [], cut
        assert payloads[-1]["type"] == "response.failed"


def test_what_a_log_says_of_an_error_is_kept() -> None:
    first, sent = composer(error_event=True), SentEvents()
    for event in first.feed([TextDelta("Hi")]):
        sent.add(event)
    (error, *_) = [event for event in first.fail(server_error("cut")) if event.type == "error"]
    sent.add(error)
    assert sent.error is not None
    assert sent.error.message == "cut"
