"""Each bridge says by itself how a growing text is told to its client; none may forget one."""

import pytest

from antiphon.bridges.ai_sdk import data_stream, ui_stream
from antiphon.bridges.vscode.stream import PartStream
from antiphon.spec.codec import encode
from antiphon.spec.events import EVENTS
from antiphon.spec.response import Response
from antiphon.stream import lifecycle
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Finish,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
)
from antiphon.stream.lifecycle import CHANNELS, EXTENSION_EVENTS
from antiphon.wires.hashbrown import frames

DELTAS = {EVENTS[channel.delta] for channel in CHANNELS}
STANDARD = {EVENTS[channel.delta] for channel in CHANNELS if channel.delta not in EXTENSION_EVENTS}


@pytest.mark.parametrize(
    ("told", "deltas"),
    [
        ({*data_stream._WORDS, *data_stream._ARGUMENTS}, DELTAS),
        ({*ui_stream._HOT}, DELTAS),
        ({*frames._LIKE_FIRST}, STANDARD),
    ],
    ids=["data stream", "ui stream", "hashbrown"],
)
def test_every_text_that_grows_is_told(told: set[type], deltas: set[type]) -> None:
    assert told == deltas


# VS Code's stream has no table: it tells some texts as they grow, and the others once they are whole.
SAID = "said so at some length"
GROWING: dict[lifecycle.Channel, tuple[AnyDelta, bool]] = {
    lifecycle.TEXT: (TextDelta(SAID), True),
    lifecycle.REASONING: (ReasoningDelta(SAID), True),
    lifecycle.SUMMARY: (SummaryDelta(SAID), True),
    lifecycle.REFUSAL: (RefusalDelta(SAID), False),
    lifecycle.CALL_ARGUMENTS: (CallDelta(0, f'{{"a":"{SAID}"}}', "f", "call_1"), False),
    lifecycle.CALL_INPUT: (CallDelta(0, SAID, "f", "call_1", kind="custom"), False),
}


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.delta)
def test_every_text_that_grows_is_told_to_vscode(channel: lifecycle.Channel) -> None:
    delta, is_told_as_it_grows = GROWING[channel]
    events = Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0).feed([delta, Finish()])
    whole = [event.type for event in events].index(channel.done)
    stream = PartStream()
    told = [
        [SAID.encode() in encode(line) for line in stream.feed(part)].count(True)
        for part in (events[:whole], events[whole:])
    ]
    assert told == ([1, 0] if is_told_as_it_grows else [0, 1])
