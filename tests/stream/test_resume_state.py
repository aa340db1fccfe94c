"""A stream that breaks off after any of its events is ended by another Composer, and is whole then."""

from typing import Any

import msgspec
import pytest

from antiphon.spec.codec import Opaque
from antiphon.spec.content import LogProb, UrlCitation
from antiphon.spec.errors import server_error
from antiphon.spec.items import Message
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
from antiphon.stream.resume_state import SentEvents
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


def sent_of(events: list[Any]) -> SentEvents:
    """What was sent of a stream that broke off after these events."""
    sent, reader = SentEvents(), Reader()
    for event in events:
        reader.feed(event.to_json())
        for read in reader.events:
            sent.add(read)
        sent.next_number = event.sequence_number + 1
    return sent


def payloads_of(events: list[Any]) -> list[dict[str, Any]]:
    """The events as a client gets them, which have no fault."""
    payloads = [msgspec.json.decode(event.to_json()) for event in events]
    assert audit(payloads, extensions=True, solicited={"custom_tool_call", "web_search_call"}) == []
    return payloads


@pytest.mark.parametrize("deltas", ANSWERS.values(), ids=ANSWERS)
def test_a_stream_that_breaks_off_anywhere_is_ended_in_good_order(deltas: list[AnyDelta]) -> None:
    whole = composer().feed([*deltas, Finish()])
    for cut in range(1, len(whole)):
        second = composer()
        second.resume(sent_of(whole[:cut]))
        payloads = payloads_of([*whole[:cut], *second.fail(server_error("cut"))])
        assert payloads[-1]["type"] == "response.failed"


@pytest.mark.parametrize("deltas", ANSWERS.values(), ids=ANSWERS)
def test_a_stream_that_breaks_off_anywhere_goes_on_after_what_is_whole(deltas: list[AnyDelta]) -> None:
    whole = composer().feed([*deltas, Finish()])
    for cut in range(1, len(whole)):
        sent, second = sent_of(whole[:cut]), composer(first_id=100)
        second.resume(sent)
        events = [*whole[:cut], *second.go_on(sent)]
        still_open = [
            item for item in second.snapshot().output if getattr(item, "status", "") == "in_progress"
        ]
        # Words go on in their own item; whatever else is open and not whole is the end.
        may_go_on = all(isinstance(item, Message) for item in still_open)
        last = (
            second.feed([TextDelta(" And on."), Finish()]) if may_go_on else second.fail(server_error("cut"))
        )
        payloads = payloads_of([*events, *last])
        assert payloads[-1]["type"] == f"response.{'completed' if may_go_on else 'failed'}"
        if still_open and may_go_on:
            final = {item["id"]: item for item in payloads[-1]["response"]["output"]}
            assert " And on." in str(final[still_open[0].id])


def test_what_a_log_says_of_an_error_is_kept() -> None:
    first, sent = composer(error_event=True), SentEvents()
    for event in first.feed([TextDelta("Hi")]):
        sent.add(event)
    (error, *_) = [event for event in first.fail(server_error("cut")) if event.type == "error"]
    sent.add(error)
    assert sent.error is not None
    assert sent.error.message == "cut"
