"""The one interface of all encoders, and the two that speak the specification."""

import json

import pytest

from antiphon.bridges.encoder import Encoder, JsonLines, ServerSentEvents
from antiphon.spec.codec import Opaque
from antiphon.stream import deltas as d
from antiphon.stream.auditor import audit_sse
from antiphon.stream.dialects import DIALECTS
from antiphon.stream.framing import frames
from tests.bridges.golden_run import ENCODERS, events
from tests.stream.composed import compose


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_is_one(name: str) -> None:
    encoder: Encoder = ENCODERS[name]()
    assert isinstance(encoder.content_type, bytes)
    assert all(isinstance(part, bytes) for header in encoder.headers for part in header)
    assert all(key == key.lower() for key, _ in encoder.headers)
    assert encoder.encode(events())
    assert encoder.encode([]) == b""
    assert isinstance(encoder.keepalive(), bytes)


@pytest.mark.parametrize("name", ENCODERS)
def test_units_are_whole_however_events_are_cut(name: str) -> None:
    """What one call gives is what the same events give one by one: no unit waits for its other half."""
    told = events()
    together, apart = ENCODERS[name](), ENCODERS[name]()
    assert together.encode(told) == b"".join(apart.encode([event]) for event in told)


def test_server_sent_events_are_the_specifications() -> None:
    told, _ = compose(d.TextDelta("hi"), d.Finish())
    encoder = ServerSentEvents()
    assert encoder.encode(told) == frames(told)
    assert audit_sse(encoder.encode(told) + encoder.end()) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_line_is_one_event(dialect: str) -> None:
    odd = Opaque(b'{\n  "type": "acme:search",\r\n  "id": "se_1", "text": "a\\nb"}')
    told, _ = compose(d.TextDelta("a\nb"), d.TextDelta("c"), d.ItemDelta(odd), d.Finish())
    lines = JsonLines(DIALECTS[dialect]).encode(told).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line)["type"] for line in lines] == [
        DIALECTS[dialect].type_of(event) for event in told
    ]
