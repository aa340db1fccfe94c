"""What the Reader makes of good streams, of every tolerated oddity, and of rubbish."""

import doctest
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.spec import events as ev
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import ResponseError
from antiphon.spec.items import Message, type_of
from antiphon.spec.response import IncompleteDetails, Response
from antiphon.stream import reader as reader_module
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import ItemDelta, SignatureDelta
from antiphon.stream.dialects import DIALECTS, Dialect
from antiphon.stream.reader import MAX_ODDITIES, MAX_ODDITY, Oddity, Reader
from tests.stream import streams
from tests.stream.reading import (
    Payload,
    Run,
    compose,
    delta,
    follow,
    numbered_ids,
    read,
    statuses,
    texts,
    what,
    words,
)
from tests.stream.strategies import runs

STREAMS = streams.STANDARD | streams.EXTENDED
with_each_stream = pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS.keys())


# --- good streams -----------------------------------------------------------------------------------------


@with_each_stream
def test_a_good_stream_gives_its_own_response(make: Callable[[], list[Payload]]) -> None:
    payloads = make()
    reader = read(payloads)
    assert reader.finished
    assert reader.response == decode_response(encode(payloads[-1]["response"]))
    assert reader.close() == reader.response
    assert reader.oddities == []


@with_each_stream
def test_a_good_stream_comes_out_as_it_went_in(make: Callable[[], list[Payload]]) -> None:
    reader = Reader()
    out = []
    for payload in make():
        event = reader.feed(json.dumps(payload), payload["type"])
        assert event is not None
        assert reader.events == [event] or make is streams.whole_summary
        assert event.type == payload["type"]
        out.append(json.loads(event.to_json()))
    assert audit(out) == audit(make())


@with_each_stream
def test_a_cut_stream_keeps_every_word(make: Callable[[], list[Payload]]) -> None:
    payloads = make()
    for end in range(len(payloads)):
        reader, told = follow(payloads[:end])
        response = reader.close(now=7)
        assert response.status == "failed"
        assert response.completed_at == 7
        assert response.error is not None
        assert response.error.code in ("upstream_closed", "server_error", "overloaded")
        assert {id: texts for id, texts in words(response).items() if id in told} == told
        assert all(getattr(item, "status", None) != "in_progress" for item in response.output)
        assert isinstance(reader.events[-1], ev.ResponseFailedEvent)
        assert "the stream ended without a terminal event" in what(reader)


@given(runs)
def test_the_composers_events_give_the_composers_response(run: Run) -> None:
    payloads, response = compose(run)
    reader = read(payloads)
    assert reader.response == response
    assert reader.oddities == []


@given(runs)
def test_the_response_grows_with_the_composers(run: Run) -> None:
    composer = Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0, new_id=numbered_ids())
    reader = Reader()
    # A signature, and an item that comes whole, are told only when they are done.
    for step in [*(d for d in run[0] if not isinstance(d, SignatureDelta | ItemDelta)), run[1]]:
        for event in composer.feed([step]):
            reader.feed(event.to_json())
        assert replace(reader.response, usage=None) == replace(composer.snapshot(), usage=None)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)
@given(runs)
def test_every_dialect_reads_back_as_the_same_response(dialect: Dialect, run: Run) -> None:
    composer = Composer(
        Response.new("resp_1", "m", now=1),
        clock=lambda: 2.0,
        new_id=numbered_ids(),
        shows=dialect.shows,
        first_sequence_number=dialect.first_sequence_number,
    )
    bound = dialect.for_response(composer.response)
    reader = Reader()
    for event in composer.feed([*run[0], run[1]]):
        reader.feed(bound.encode(event))
    response = composer.response
    if dialect.cancelled_status and response.incomplete_details == IncompleteDetails("cancelled"):
        response = replace(response, status="cancelled", incomplete_details=None)
    assert replace(reader.response, usage=None, error=None) == replace(response, usage=None, error=None)
    assert (reader.response.usage is None) == (response.usage is None)
    assert reader.oddities == []


# --- streams that leave things out ------------------------------------------------------------------------

LEFT_OUT = (
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    *(kind for kind in ev.EVENTS if kind.endswith((".delta", "text.done", "refusal.done", "reasoning.done"))),
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.done",
)


@given(runs, st.sets(st.sampled_from(LEFT_OUT)), st.sampled_from([None, "item_id", "output_index"]))
def test_whatever_is_left_out_every_word_is_told_once(run: Run, gone: set[str], field: str | None) -> None:
    payloads, response = compose(run)
    left = [{k: v for k, v in p.items() if k != field} for p in payloads if p["type"] not in gone]
    reader, told = follow(left)
    assert reader.response == response
    if field == "item_id":
        assert sorted(told.values()) == sorted(words(response).values())
    else:
        assert told == words(response)


@given(runs)
def test_a_final_response_alone_tells_everything(run: Run) -> None:
    payloads, response = compose(run)
    reader, told = follow(payloads[-1:])
    assert reader.response == response
    assert told == words(response)
    ended = [event.item for event in reader.events if isinstance(event, ev.OutputItemDoneEvent)]
    assert ended == response.output


@given(runs, st.booleans())
def test_an_empty_final_output_is_repaired(run: Run, without_done: bool) -> None:
    whole = (SignatureDelta, ItemDelta)
    run = ([d for d in run[0] if not (without_done and isinstance(d, whole))], run[1], [])
    payloads, response = compose(run)
    payloads[-1]["response"]["output"] = []
    if without_done:
        payloads = [p for p in payloads if p["type"] != "response.output_item.done"]
    reader = read(payloads)
    if without_done and response.status != "completed":
        assert words(reader.response) == words(response)
    else:
        assert reader.response.output == response.output
    assert bool(response.output) == bool(reader.oddities)


def test_a_null_output_at_the_end_is_empty_too() -> None:
    payloads = streams.text()
    payloads[-1]["response"]["output"] = None
    assert texts(read(payloads)) == ["Hello, wörld"]


def test_no_terminal_event_is_a_failure_with_a_code() -> None:
    reader = read(streams.text()[:5])
    response = reader.close()
    assert reader.finished
    assert response.error == ResponseError("upstream_closed", "the stream ended before the response did")
    assert statuses(response) == ["incomplete"]


def test_an_error_event_is_the_reason_when_no_failed_response_follows() -> None:
    response = read(streams.failed()[:-1]).close()
    assert response.error == ResponseError("server_error", "It broke.")


def test_done_marker_before_the_end_is_reported() -> None:
    reader = read(streams.text()[:5])
    reader.feed_done()
    assert "[DONE] before a terminal event" in what(reader)
    good = read(streams.text())
    good.feed_done()
    assert good.oddities == []


def test_what_follows_the_end_is_ignored_and_reported() -> None:
    reader = read(streams.text())
    before = reader.response
    assert reader.feed(delta("more", item_id="msg_0", output_index=0, content_index=0)) is None
    assert reader.feed({"type": "keepalive"}) is None
    assert reader.feed("[DONE]") is None
    assert reader.events == []
    assert reader.response == before
    assert what(reader) == ["response.output_text.delta after the end of the response"]


# --- framing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b"{", "cannot be read"),
        (b"\xff{}", "cannot be read"),
        (b'{"type":"response.created","response":{"id":"\xff"}}', "cannot be read"),
        ("7", "cannot be read"),
        ("[]", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ({"type": "response.created", "response": {"x": object()}}, "cannot be read"),
        ({}, "an event without a type"),
        ({"type": None}, "an event without a type"),
    ],
    ids=["cut", "utf8", "utf8_inside", "number", "list", "deep", "no_json", "no_type", "null_type"],
)
def test_rubbish_is_reported(payload: Any, complaint: str) -> None:
    reader = Reader()
    assert reader.feed(payload) is None
    assert reader.events == []
    assert [complaint in oddity for oddity in what(reader)] == [True]
    assert read(streams.text(), reader).response.status == "completed"


NAMES = """id type item item_id output_index content_index summary_index delta text part response output
status error message code content summary arguments call_id annotation annotation_index logprobs
sequence_number role name usage object data"""
names = st.sampled_from(NAMES.split())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=4,
)
types = st.sampled_from(
    [
        *ev.EVENTS,
        "response.done",
        "response",
        "keepalive",
        "output_text.delta",
        "response.custom_event",
        "a:b",
    ]
)
kinds = st.sampled_from(
    ["message", "reasoning", "function_call", "custom_tool_call", "function_call_output", "x"]
)
part_types = st.sampled_from(
    ["output_text", "refusal", "reasoning_text", "summary_text", "text", "acme:part"]
)
rubbish = st.dictionaries(names, json_values, max_size=4)
odd_parts = st.builds(lambda kind, rest: {**rest, "type": kind}, part_types, rubbish)
odd_items = st.builds(
    lambda kind, rest, parts: {**rest, "type": kind, "content": parts},
    kinds,
    rubbish,
    st.lists(odd_parts, max_size=2),
)
odd_events = st.builds(
    lambda kind, rest, item, part: {**rest, "item": item, "part": part, "type": kind},
    types,
    rubbish,
    odd_items,
    odd_parts,
) | st.builds(lambda kind, rest: {**rest, "type": kind}, types, rubbish)


@given(st.lists(odd_events, max_size=6))
def test_nothing_that_a_server_sends_raises(payloads: list[Payload]) -> None:
    reader = Reader()
    for payload in payloads:
        reader.feed(payload)
        encode(reader.response)
        for event in reader.events:
            event.to_json()
    assert reader.close().is_terminal


def test_oddities_know_their_position() -> None:
    payloads = streams.text()
    payloads[3] = payloads[3] | {"sequence_number": 9}
    assert read(payloads).oddities == [
        Oddity(3, "sequence_number 9 where 3 was due"),
        Oddity(4, "sequence_number 4 where 10 was due"),
    ]


def test_oddities_are_bounded() -> None:
    reader = Reader()
    for n in range(3 * MAX_ODDITIES):
        reader.feed({"type": "acme:x", "sequence_number": 7 * n})
    assert len(reader.oddities) == MAX_ODDITIES + 1
    assert what(reader)[-1] == "more oddities, which are not listed"


def test_an_oddity_is_no_longer_than_a_sentence() -> None:
    reader = read(streams.text())
    reader.feed({"type": "x" * 50_000, "sequence_number": 99})
    (oddity,) = what(reader)
    assert len(oddity) == MAX_ODDITY
    assert oddity.endswith("x…")


def test_a_stream_without_numbers_is_reported_once() -> None:
    reader = Reader()
    for payload in streams.text():
        del payload["sequence_number"]
        reader.feed(payload)
    assert what(reader) == ["no sequence_number"]


@pytest.mark.parametrize("first", [1, 40])
def test_numbers_may_begin_anywhere(first: int) -> None:
    payloads = [p | {"sequence_number": p["sequence_number"] + first} for p in streams.text()]
    assert read(payloads).oddities == []


def test_repeated_numbers_are_reported() -> None:
    reader = read([{"type": "acme:x", "sequence_number": 3}, {"type": "acme:x", "sequence_number": 3}])
    assert what(reader) == ["sequence_number 3 where 4 was due"]


# --- the response itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "event", "kept"),
    [
        ("completed", ev.ResponseCompletedEvent, "completed"),
        ("in_progress", ev.ResponseCompletedEvent, "completed"),
        ("incomplete", ev.ResponseIncompleteEvent, "incomplete"),
        ("failed", ev.ResponseFailedEvent, "failed"),
        ("cancelled", ev.ResponseCompletedEvent, "cancelled"),
        ("paused", ev.ResponseCompletedEvent, "paused"),
        (None, ev.ResponseCompletedEvent, "completed"),
    ],
)
def test_the_status_says_how_a_response_ended(status: str | None, event: type, kept: str) -> None:
    reader = Reader()
    response = streams.response("completed") | {"status": status}
    ended = reader.feed({"type": "response.completed", "response": response})
    assert type(ended) is event
    assert reader.finished
    assert reader.response.status == kept
    contradicted = f"status {status} in an event that means completed" in what(reader)
    assert contradicted == (status in ("in_progress", "incomplete", "failed"))


@pytest.mark.parametrize("name", ["response.created", "response.queued", "response.in_progress"])
def test_a_response_that_has_not_ended_is_not_over(name: str) -> None:
    reader = Reader()
    reader.feed({"type": name, "response": streams.response("completed")})
    assert not reader.finished
    assert reader.response.status == ("queued" if name.endswith("queued") else "in_progress")
    assert "completed" in what(reader)[-1]


def test_unknown_statuses_are_kept_while_a_response_runs() -> None:
    reader = read([{"type": "response.in_progress", "response": {"id": "r", "status": "thinking"}}])
    assert reader.response.status == "thinking"


def test_an_incomplete_response_is_a_normal_end() -> None:
    reader = read(streams.incomplete())
    assert reader.finished
    assert reader.response.incomplete_details is not None
    assert reader.response.incomplete_details.reason == "max_output_tokens"
    assert reader.oddities == []


def test_what_an_event_leaves_out_of_the_response_stays() -> None:
    reader = read([streams.begin()[0]])
    before = reader.response
    reader.feed({"type": "response.in_progress", "response": {"id": None, "status": "in_progress"}})
    assert reader.response == before
    reader.feed({"type": "response.completed"})
    assert reader.response == replace(before, status="completed")


def test_what_cannot_be_read_of_a_response_is_left_out() -> None:
    response = streams.response("in_progress") | {
        "truncation": "sometimes",
        "instructions": [1],
        "top_p": "x",
    }
    reader = read([{"type": "response.created", "response": response}])
    assert reader.response.truncation == "disabled"
    assert reader.response.id == "resp_1"
    assert {oddity.split(":")[0] for oddity in what(reader)} >= {"response.truncation", "response.top_p"}


def test_vendor_fields_of_the_response_are_kept() -> None:
    response = streams.response("completed") | {"acme:request_id": "r9"}
    reader = read([{"type": "response.completed", "response": response}])
    assert json.loads(encode(reader.response)) == response


def test_a_final_response_that_leaves_out_an_item_is_believed() -> None:
    payloads = streams.thinking()
    del payloads[-1]["response"]["output"][0]
    reader, told = follow(payloads)
    assert [type_of(item) for item in reader.response.output] == ["message"]
    assert told["msg_1"] == ["4"]
    assert what(reader) == ["the final response leaves out items that were streamed: 1"]


def test_items_without_status_or_id_are_completed() -> None:
    payloads = streams.text()
    item = payloads[-2]["item"]
    for changed in (payloads[2]["item"], item, payloads[-1]["response"]["output"][0]):
        changed.pop("status", None)
        changed.pop("id", None)
    reader = read(payloads)
    (message,) = reader.response.output
    assert isinstance(message, Message)
    assert message.status == "completed"
    assert texts(reader) == ["Hello, wörld"]


def test_the_final_response_is_a_value_of_its_own() -> None:
    reader = read(streams.text())
    reader.response.output.clear()
    assert texts(reader) == ["Hello, wörld"]


# --- the rest ---------------------------------------------------------------------------------------------


def test_unknown_events_are_passed_on() -> None:
    reader = Reader()
    event = reader.feed({"type": "acme:trace", "sequence_number": 0, "ms": 3})
    assert event == ev.OtherEvent("acme:trace", 0, {"ms": 3})
    assert reader.events == [event]
    assert reader.oddities == []


def test_the_example_of_the_documentation_is_true() -> None:
    assert doctest.testmod(reader_module).failed == 0
