"""A batch of events as server-sent events."""

import msgspec
from hypothesis import given

from antiphon.spec.opaque import Opaque
from antiphon.spec.response import Response
from antiphon.stream import sse
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Finish, ItemDelta
from antiphon.stream.framing import frames
from tests.stream.strategies import runs


def _composer() -> Composer:
    return Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0)


@given(runs)
def test_every_event_is_one_frame_named_after_its_type(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, _ = run
    events = _composer().feed([*body, ending])
    decoded = sse.Decoder().feed(frames(events))
    assert [(e.event, msgspec.json.decode(e.data)) for e in decoded] == [
        (e.type, msgspec.json.decode(e.to_json())) for e in events
    ]


def test_line_breaks_inside_a_carried_item_do_not_break_the_frame() -> None:
    item = Opaque(b'{"type": "acme:x",\r\n "id": "a",\n "status": "completed"}')
    chunk = frames(_composer().feed([ItemDelta(item), Finish()]))
    assert all(line.startswith((b"event: ", b"data: ")) for line in chunk.split(b"\n") if line)
