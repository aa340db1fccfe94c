"""Events: both opinions on what goes out, and what comes back in."""

import json
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.spec import SpecError, decode_event, extras
from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.items import FunctionCall, Message
from antiphon.spec.limits import MAX_DEPTH
from tests.spec import samples
from tests.spec.strategies import JSON, UNKNOWN_FIELDS, valid
from tests.spec.validators import EVENT_SCHEMAS, assert_valid_event

STANDARD = samples.standard_events()
ALL = STANDARD + samples.extended_events()


def each(events: list[ev.Event]) -> list[ParameterSet]:
    return [pytest.param(event, id=f"{n}-{event.type}") for n, event in enumerate(events)]


@pytest.mark.parametrize("event", each(STANDARD))
def test_every_event_is_valid_to_two_opinions(event: ev.Event) -> None:
    assert_valid_event(json.loads(event.to_json()))


def test_the_samples_hold_all_24_events_and_the_two_of_custom_tool_calls() -> None:
    assert {event.type for event in STANDARD} == set(EVENT_SCHEMAS)
    assert len(ev.STANDARD) == 24
    assert {event.type for event in ALL} == set(ev.EVENTS)


@pytest.mark.parametrize("event", each(ALL))
def test_an_event_survives_encode_and_decode(event: ev.Event) -> None:
    problems: list[str] = []
    again = decode_event(event.to_json(), problems)
    assert again == event
    assert again.to_json() == event.to_json()
    assert problems == []


@settings(max_examples=60)
@given(st.sampled_from(sorted(EVENT_SCHEMAS.values())).flatmap(valid))
def test_whatever_the_schema_calls_an_event_comes_back_equal(payload: dict[str, Any]) -> None:
    problems: list[str] = []
    event = decode_event(json.dumps(payload).encode(), problems)
    assert isinstance(event, ev.EVENTS[payload["type"]])
    assert problems == []
    assert json.loads(event.to_json()) == payload
    assert_valid_event(payload)


@pytest.mark.parametrize("event", each(ALL))
def test_what_an_event_says_of_itself(event: ev.Event) -> None:
    lifecycle = event.type in {f"response.{s}" for s in ("created", "queued", "in_progress")} | {
        "response.completed",
        "response.failed",
        "response.incomplete",
    }
    terminal = event.type in ("response.completed", "response.failed", "response.incomplete")
    assert (event.is_lifecycle, event.is_terminal, event.is_unknown) == (lifecycle, terminal, False)
    assert (event.response_id is not None) == lifecycle


@pytest.mark.parametrize("kind", ["acme:progress", "response.reasoning_text.delta", "keepalive", ""])
def test_an_unknown_event_is_carried(kind: str) -> None:
    event = decode_event(json.dumps({"type": kind, "sequence_number": 7, "x": [1, {"y": None}]}).encode())
    assert isinstance(event, ev.OtherEvent)
    assert (event.type, event.sequence_number, event.fields) == (kind, 7, {"x": [1, {"y": None}]})
    assert (event.is_lifecycle, event.is_terminal, event.is_unknown) == (False, False, True)
    assert event.response_id is None
    assert decode_event(event.to_json()) == event
    assert hash(decode_event(event.to_json())) == hash(event)
    assert repr(event) == f"OtherEvent({kind!r}, 7)"


def test_a_field_of_an_unknown_event_that_cannot_be_read_is_left_out() -> None:
    problems: list[str] = []
    event = decode_event(b'{"type":"acme:x","sequence_number":true,"a":1e999,"b":2}', problems)
    assert event == ev.OtherEvent("acme:x", 0, {"b": 2})
    assert problems == ["a: expected a number that a 64-bit float can hold, got 1e999"]


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_no_object_is_refused_as_an_event(payload: dict[str, Any]) -> None:
    """Clients ignore what they do not know."""
    event = decode_event(json.dumps(payload).encode())
    assert isinstance(event.sequence_number, int)
    assert json.loads(event.to_json())


@settings(max_examples=60)
@given(st.sampled_from(ALL), UNKNOWN_FIELDS)
def test_unknown_fields_of_an_event_are_kept(event: ev.Event, unknown: dict[str, Any]) -> None:
    """VT Code puts `response_id` on each event; such keys survive."""
    payload = json.loads(event.to_json()) | unknown | {"response_id": "resp_1"}
    again = decode_event(json.dumps(payload).encode())
    assert isinstance(again, type(event))
    assert extras(again) == unknown | {"response_id": "resp_1"}
    assert json.loads(again.to_json()) == payload


def test_the_event_line_names_a_payload_without_type() -> None:
    raw = b'{"sequence_number":1,"item_id":"m","output_index":0,"content_index":0,"delta":"x"}'
    event = decode_event(raw, event_type="response.output_text.delta")
    assert event == ev.OutputTextDeltaEvent(1, "m", 0, 0, "x")


def test_camel_case_fields_are_read() -> None:
    raw = b"""{"type":"response.output_text.delta","sequenceNumber":1,"itemId":"m","outputIndex":2,
               "contentIndex":3,"delta":"x"}"""
    assert decode_event(raw) == ev.OutputTextDeltaEvent(1, "m", 2, 3, "x")


def test_missing_and_broken_fields_of_a_known_event_do_not_stop_it() -> None:
    problems: list[str] = []
    raw = b'{"type":"response.output_text.delta","item_id":5,"output_index":"0","delta":"x"}'
    assert decode_event(raw, problems) == ev.OutputTextDeltaEvent(0, "", 0, 0, "x")
    assert problems == [
        "item_id: expected a string, got 5",
        "output_index: expected an integer, got '0'",
    ]
    part = decode_event(b'{"type":"response.content_part.added","sequence_number":1}')
    assert isinstance(part, ev.ContentPartAddedEvent)
    assert part.part == Opaque(b"{}")
    item = decode_event(b'{"type":"response.output_item.done","sequence_number":1,"output_index":"2"}')
    assert item == ev.OutputItemDoneEvent(1, 0, None)
    error = decode_event(b'{"type":"error","sequence_number":1}')
    assert isinstance(error, ev.ErrorEvent)
    assert error.error.message == ""


def test_a_lifecycle_event_with_a_partial_response_is_read() -> None:
    """`in_progress` with id and status alone."""
    raw = b'{"type":"response.in_progress","sequence_number":2,"response":{"id":"r","status":"in_progress"}}'
    problems: list[str] = []
    event = decode_event(raw, problems)
    assert isinstance(event, ev.ResponseInProgressEvent)
    assert (event.response_id, event.response.model, event.response.created_at) == ("r", "", 0)
    assert problems == []
    assert_valid_event(json.loads(event.to_json()))


def test_an_event_carries_a_vendor_item_byte_for_byte() -> None:
    item = b'{"type":"acme:thing", "id":"x_1","status":"failed","n":1.50}'
    raw = b'{"type":"response.output_item.done","sequence_number":1,"output_index":0,"item":%b}' % item
    event = decode_event(raw)
    assert isinstance(event, ev.OutputItemDoneEvent)
    assert isinstance(event.item, Opaque)
    assert event.item.raw == item
    assert event.to_json() == raw


def test_the_type_of_an_error_is_normalised() -> None:
    raw = b'{"type":"error","sequence_number":1,"error":{"type":"invalid_request_error","message":"m"}}'
    event = decode_event(raw)
    assert isinstance(event, ev.ErrorEvent)
    assert (event.error.type, event.error.status) == ("invalid_request", 400)


def test_an_error_envelope_of_a_websocket_is_an_error_event_too() -> None:
    """1.14: {type, status, error{code,message,param?}}"""
    raw = b'{"type":"error","status":404,"error":{"code":"previous_response_not_found","message":"gone"}}'
    event = decode_event(raw)
    assert isinstance(event, ev.ErrorEvent)
    assert (event.error.code, event.error.message) == ("previous_response_not_found", "gone")
    assert extras(event) == {"status": 404}


def test_items_in_events_are_typed() -> None:
    raw = b"""{"type":"response.output_item.added","sequence_number":1,"output_index":0,
               "item":{"type":"function_call","id":"fc_1","name":"a.b","arguments":"","status":"failed"}}"""
    event = decode_event(raw)
    assert isinstance(event, ev.OutputItemAddedEvent)
    assert event.item == FunctionCall(
        id="fc_1", call_id="fc_1", name="a.b", arguments="", status="incomplete"
    )
    created = decode_event(
        b'{"type":"response.completed","sequence_number":1,"response":{"output":[{"type":"message"}]}}'
    )
    assert isinstance(created, ev.ResponseCompletedEvent)
    assert created.response.output == [Message(role="assistant", content=[])]


def test_a_response_nested_too_deeply_loses_only_what_is_too_deep() -> None:
    event = samples.standard_events()[0]
    payload = json.loads(event.to_json())
    deep = '{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}"
    payload["response"]["metadata"] = "DEEP"
    problems: list[str] = []
    again = decode_event(json.dumps(payload).replace('"DEEP"', deep).encode(), problems)
    assert again == event
    assert problems == ["response.metadata: the JSON is nested too deeply; the limit is 200 levels"]


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"5", b'{"type":', b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_an_error(raw: bytes) -> None:
    with pytest.raises(SpecError):
        decode_event(raw)


def test_the_fields_of_an_unknown_event_forge_nothing() -> None:
    event = ev.OtherEvent("acme:x", 7, {"a": 1, "sequence_number": 99, "type": "response.completed"})
    assert event.to_json() == b'{"type":"acme:x","sequence_number":7,"a":1}'
