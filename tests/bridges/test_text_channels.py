"""Each bridge says by itself how a growing text is told to its client; none may forget one."""

import pytest

from antiphon.bridges.ai_sdk import data_stream, ui_stream
from antiphon.spec.events import EVENTS
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
