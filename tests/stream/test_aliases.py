"""Every other name and shape in which an event, a number, an end or an error may come."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.spec import events as ev
from antiphon.spec.codec import encode
from antiphon.spec.errors import ResponseError
from antiphon.spec.response import Response, Usage
from antiphon.stream.reader import Reader
from tests.stream import streams
from tests.stream.reading import Payload, delta, follow, read, statuses, texts, what


def test_payloads_may_be_bytes_text_or_values() -> None:
    payloads = streams.thinking()
    forms: list[Callable[[Payload], Any]] = [encode, json.dumps, dict]
    first, *others = [_fed(form, payloads) for form in forms]
    assert all(other == first for other in others)


def _fed(form: Callable[[Payload], Any], payloads: list[Payload]) -> Response:
    reader = Reader()
    for payload in payloads:
        reader.feed(form(payload))
    assert reader.oddities == []
    return reader.response


def test_raw_lines_are_read_as_well_as_data() -> None:
    reader = Reader()
    reader.feed(": hello")
    reader.feed("event: response.created")
    reader.feed("")
    for payload in streams.text():
        reader.feed(b"data: " + encode(payload) + b"\r\n")
    reader.feed("data: [DONE]")
    assert texts(reader) == ["Hello, wörld"]
    assert reader.oddities == []


@pytest.mark.parametrize("data", ["", "{}", "done", '{"type":"done"}'])
def test_the_end_may_be_an_event_of_its_own(data: str) -> None:
    reader = read(streams.text())
    assert reader.feed(data, "done") is None
    assert reader.oddities == []
    early = Reader()
    early.feed(data, "done")
    assert [oddity.what for oddity in early.oddities] == ["[DONE] before a terminal event"]


def test_a_type_counts_more_than_the_event_line() -> None:
    reader = Reader()
    event = reader.feed({"type": "response.completed", "response": streams.response("completed")}, "done")
    assert isinstance(event, ev.ResponseCompletedEvent)


def test_the_type_may_stand_only_in_the_event_line() -> None:
    reader = Reader()
    for payload in streams.text():
        name = payload.pop("type")
        reader.feed(payload, name)
    assert reader.oddities == []
    assert reader.response.status == "completed"


def test_keepalives_count_in_the_series_and_say_nothing() -> None:
    payloads = streams.text()
    payloads.insert(4, {"type": "keepalive"})
    reader = Reader()
    said = [reader.feed(payload | {"sequence_number": n}) for n, payload in enumerate(payloads)]
    assert said[4] is None
    assert reader.oddities == []


def test_numbers_may_be_spelled_in_other_ways() -> None:
    reader = Reader()
    for n, form in enumerate((0, 1.0, "2")):
        event = reader.feed({"type": "acme:x", "sequence_number": form})
        assert event is not None
        assert event.sequence_number == n
    assert reader.oddities == []


HUGE = ["9" * 17, "9" * 5000, "9999999999999999", 2**53, 10**300, 1e300, 10**4000]


@pytest.mark.parametrize("key", ["sequence_number", "output_index", "content_index"])
@pytest.mark.parametrize("value", HUGE, ids=range(len(HUGE)))
def test_numbers_of_an_absurd_size_are_refused(key: str, value: object) -> None:
    reader = Reader()
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    for n, text in enumerate("abc"):
        odd = {key: value} if n else {}
        reader.feed(json.dumps(delta(text, **where) | {"sequence_number": n} | odd))
    assert texts(reader) == ["abc"]
    assert f"{key} is not a number that can be used" in what(reader)
    largest = max(getattr(event, key) for event in reader.events)
    assert largest <= 2**53


def test_a_number_of_thousands_of_digits_does_not_hide_what_follows() -> None:
    reader = Reader()
    reader.feed(b'{"type":"acme:x","sequence_number":"' + b"9" * 4300 + b'"}')
    reader.feed(b'{"type":"response.output_text.delta","delta":"a","output_index":' + b"9" * 4300 + b"}")
    reader.feed(b'{"type":"response.output_text.delta","delta":"b","output_index":' + b"9" * 4301 + b"}")
    assert texts(read([delta("c")], reader)) == ["abc"]


@pytest.mark.parametrize("name", ["response.cancelled", "response.canceled"])
def test_cancelling_is_an_end(name: str) -> None:
    reader = read(streams.text()[:5])
    event = reader.feed({"type": name, "response": {"id": "resp_1"}})
    assert isinstance(event, ev.ResponseIncompleteEvent)
    assert reader.response.status == "cancelled"
    assert statuses(reader.response) == ["incomplete"]


@pytest.mark.parametrize(
    "status", ["completed", "failed", "incomplete", "cancelled", "queued", "in_progress"]
)
def test_one_done_event_for_every_end(status: str) -> None:
    reader = Reader()
    event = reader.feed({"type": "response.done", "response": streams.response(status)})
    assert event is not None
    assert reader.finished == (status not in ("queued", "in_progress"))
    assert reader.response.status == status


def test_a_done_event_without_response_is_a_completion() -> None:
    assert isinstance(Reader().feed({"type": "response.done"}), ev.ResponseCompletedEvent)


def test_a_plain_response_may_come_instead_of_a_stream() -> None:
    done = streams.message("msg_0", streams.output_text("Hi"))
    reader, told = follow([streams.response("completed", [done])])
    assert reader.finished
    assert told == {"msg_0": ["Hi"]}


def test_usage_without_total_is_summed() -> None:
    response = streams.response("completed") | {"usage": {"input_tokens": 3, "output_tokens": 4}}
    assert read([{"type": "response.completed", "response": response}]).response.usage == Usage.of(3, 4)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (
            {"type": "error", "error": {"type": "rate_limit_error", "code": 429, "message": "slow"}},
            ("too_many_requests", "429", "slow"),
        ),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None},
            ("too_many_requests", "rate_limit_exceeded", "slow"),
        ),
        ({"type": "response.error", "message": "no"}, ("server_error", None, "no")),
        ({"type": "error", "error": "no"}, ("server_error", None, "no")),
        ({"error": {"message": "no", "type": "not_found_error"}}, ("not_found", None, "no")),
        ({"type": "error"}, ("server_error", None, "the server gave no reason")),
    ],
)
def test_errors_are_read_in_every_shape(payload: Payload, error: tuple[str, str | None, str]) -> None:
    reader = Reader()
    event = reader.feed(payload)
    assert isinstance(event, ev.ErrorEvent)
    assert (event.error.type, event.error.code, event.error.message) == error
    assert reader.error == event.error
    assert not reader.finished


def test_an_error_envelope_of_a_websocket_ends_the_turn() -> None:
    error = {
        "code": "previous_response_not_found",
        "message": "No such response.",
        "param": "previous_response_id",
    }
    reader = Reader()
    reader.feed({"type": "error", "status": 400, "error": error})
    assert reader.finished
    assert [event.type for event in reader.events] == ["error", "response.failed"]
    assert reader.response.error == ResponseError("previous_response_not_found", "No such response.")


@pytest.mark.parametrize(
    ("before", "failed", "error"),
    [
        ([], {"error": {"code": "c", "message": "m"}}, ResponseError("c", "m")),
        (
            [{"type": "error", "error": {"type": "model_error", "message": "m"}}],
            {},
            ResponseError("model_error", "m"),
        ),
        ([], {}, ResponseError("server_error", "the server gave no reason")),
    ],
)
def test_a_failed_response_always_has_a_reason(
    before: list[Payload], failed: Payload, error: ResponseError
) -> None:
    reader = read(before)
    reader.feed({"type": "response.failed", "response": {"id": "r", "status": "failed"}, **failed})
    assert reader.response.error == error
