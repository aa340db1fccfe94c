"""What a server sent is recorded whatever it is."""

import pytest

from antiphon.stream.sse import SSEEvent
from antiphon.tui.recording import CallRecording, TimedEvent

DEEP = "[" * 5000


@pytest.mark.parametrize("data", ["{", "3", DEEP])
def test_an_event_that_is_none_is_shown_as_it_came(data: str) -> None:
    event = TimedEvent(SSEEvent("response.created", data), 0.0)
    assert (event.type, event.sequence_number) == ("response.created", None)
    assert event.payload in (data, 3)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", DEEP.encode()])
def test_a_request_that_is_none_is_not_shown(body: bytes) -> None:
    recording = CallRecording()
    recording.body = body
    assert recording.request is None
