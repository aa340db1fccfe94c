"""A batch of events as server-sent events."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque, extend_struct
from antiphon.spec.content import LogProb
from antiphon.spec.decode import decode_event
from antiphon.spec.response import Response
from antiphon.stream import sse
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Finish, ItemDelta, TextDelta
from antiphon.stream.dialects import DIALECTS, Dialect
from antiphon.stream.framing import frames, lines
from tests.stream.strategies import logprobs, runs


def _composer() -> Composer:
    return Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)
@pytest.mark.parametrize(
    "kind", ["response.output_text.delta", "response.refusal.delta", "response.reasoning.delta", "error"]
)
def test_an_event_with_unknown_fields_is_framed_in_every_dialect(dialect: Dialect, kind: str) -> None:
    place = {"item_id": "m", "output_index": 0, "content_index": 0, "delta": "a"}
    error = {"error": {"type": "server_error", "code": None, "message": "m", "param": None}}
    payload = {
        "type": kind,
        "sequence_number": 1,
        **(error if kind == "error" else place),
        "acme:y": {"z": 1},
    }
    (event,) = sse.Decoder().feed(frames([decode_event(msgspec.json.encode(payload))], dialect))
    told = msgspec.json.decode(event.data)
    assert event.event == told["type"] == dialect.event_types.get(kind, kind)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)
def test_a_run_of_like_deltas_is_framed_as_each_of_them_is(dialect: Dialect) -> None:
    events = _composer().feed([TextDelta("a"), TextDelta("b\n"), TextDelta("c"), Finish()])
    assert frames(events, dialect) == b"".join(frames([event], dialect) for event in events)
    assert lines(events, dialect) == b"".join(lines([event], dialect) for event in events)
    told = [msgspec.json.decode(line)["type"] for line in lines(events, dialect).splitlines()]
    assert told == [one.event for one in sse.Decoder().feed(frames(events, dialect))]


_places = (st.integers(0, 10**6), st.sampled_from(["msg_1", 'a"b\\']), st.integers(0, 9), st.integers(0, 9))
_text_deltas = st.builds(
    ev.OutputTextDeltaEvent,
    *_places,
    st.text(max_size=8) | st.sampled_from(['"logprobs":[]}', ',"logprobs":', "}\n{", "\r\n"]),
    st.just(UNSET) | st.lists(logprobs, max_size=1),
    st.just(UNSET) | st.text(max_size=4),
)
_deltas = st.one_of(
    _text_deltas,
    st.builds(ev.ReasoningDeltaEvent, *_places, st.text(max_size=8)),
    st.builds(ev.RefusalDeltaEvent, *_places, st.text(max_size=8)),
    st.builds(ev.FunctionCallArgumentsDeltaEvent, *_places[:3], st.text(max_size=8)),
)


@given(st.lists(_deltas, max_size=8), st.sampled_from([*DIALECTS.values()]))
def test_deltas_in_bulk_are_the_bytes_of_each_in_its_dialect(
    events: list[ev.AnyEvent], named: Dialect
) -> None:
    dialect = named.for_response(Response.new('resp_"1\\', "m", now=1))
    each = [(dialect.type_of(event), dialect.encode(event)) for event in events]
    assert frames(events, dialect) == b"".join(sse.encode(kind, data) for kind, data in each)
    assert lines(events, dialect) == b"".join(data + b"\n" for _, data in each)


def test_a_text_delta_has_no_second_list_of_logprobs() -> None:
    empty = ev.OutputTextDeltaEvent(1, "msg_1", 0, 0, "a", [])
    for events in ([empty], [empty, empty]):
        assert frames(events, DIALECTS["openai"]).count(b'"logprobs":') == len(events)


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


def test_line_breaks_inside_a_foreign_logprob_do_not_break_the_frame() -> None:
    raw = b'{"token":"a","logprob":-1.5,"bytes":[1],"top_logprobs":[],"acme:x":{\n\n"a":1}}'
    logprob = msgspec.json.decode(raw, type=extend_struct(LogProb, ("acme:x",)))
    events = _composer().feed([TextDelta("x", [logprob]), TextDelta("y", [logprob]), Finish()])
    decoded = sse.Decoder().feed(frames(events))
    assert [e.event for e in decoded] == [e.type for e in events]
    assert [msgspec.json.decode(e.data)["type"] for e in decoded] == [e.type for e in events]
