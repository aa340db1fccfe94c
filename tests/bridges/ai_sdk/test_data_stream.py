"""The data stream, version 1: whole lines, known codes, and what a client puts together from them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.bridges.ai_sdk.data_stream import DataStream
from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import FunctionCallOutput
from antiphon.stream import deltas as d
from tests.stream.composed import compose
from tests.stream.strategies import runs

CODES = frozenset("023889abcdefghijk")


def told(events: list[AnyEvent], batch: int = 1000) -> list[tuple[str, Any]]:
    stream = DataStream()
    chunks = [stream.encode(events[n : n + batch]) for n in range(0, len(events), batch)]
    # A reader waits until what it has ends with a line.
    assert all(chunk.endswith(b"\n") for chunk in chunks if chunk)
    lines = (b"".join(chunks) + stream.end()).decode().split("\n")[:-1]
    return [(line[0], json.loads(line[2:])) for line in lines]


def parts_of(*deltas: d.AnyDelta) -> list[tuple[str, Any]]:
    return told(compose(*deltas)[0])


@given(runs, st.integers(1, 9))
def test_a_client_can_read_any_run(
    run: tuple[list[d.AnyDelta], d.AnyDelta, list[d.AnyDelta]], batch: int
) -> None:
    body, ending, _ = run
    events, _ = compose(*body, ending)
    parts = told(events, batch)
    assert parts == told(events)
    assert {code for code, _ in parts} <= CODES
    assert parts[0][0] == "f"
    assert [code for code, _ in parts][-2:] == ["e", "d"]
    started: set[str] = set()
    for code, value in parts:
        if code == "b":
            started.add(value["toolCallId"])
        elif code in "c9a":
            assert value["toolCallId"] in started
        elif code in "28":
            assert isinstance(value, list)
        if code == "9":
            assert isinstance(value["args"], dict)
    words = [
        event.delta for event in events if isinstance(event, ev.OutputTextDeltaEvent | ev.RefusalDeltaEvent)
    ]
    assert "".join(value for code, value in parts if code == "0") == "".join(words)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "content-filter"), ("cancelled", "other")],
)
def test_finish_reasons(reason: Any, expected: str) -> None:
    (_, step), (_, finish) = parts_of(d.TextDelta("hi"), d.Finish(reason))[-2:]
    assert step["finishReason"] == finish["finishReason"] == expected
    assert step["isContinued"] is False


def test_a_failure_is_told_before_the_end() -> None:
    parts = parts_of(d.TextDelta("hi"), d.Failure(ErrorPayload("server_error", "it broke")))
    assert parts[-3] == ("3", "it broke")
    assert parts[-1] == ("d", {"finishReason": "error"})


def test_a_result_follows_its_call_and_begins_a_new_step() -> None:
    output = FunctionCallOutput(call_id="call_1", output='{"degrees": 18}')
    parts = parts_of(
        d.CallDelta(0, '{"city":"Paris"}', "look", "call_1"),
        d.ItemEnd(0),
        d.ItemDelta(output),
        d.TextDelta("18"),
        d.Finish(),
    )
    assert [code for code, _ in parts] == ["f", "8", "b", "c", "9", "a", "e", "f", "0", "e", "d"]
    assert parts[5] == ("a", {"toolCallId": "call_1", "result": {"degrees": 18}})


def test_a_vendors_event_is_told_under_its_own_name() -> None:
    parts = parts_of(d.VendorDelta("acme:progress", {"type": "text", "done": 1}), d.Finish())
    assert ("2", [{"type": "acme:progress", "done": 1}]) in parts


def test_a_signature_without_words_is_redacted_reasoning() -> None:
    parts = parts_of(d.SignatureDelta("proof"), d.TextDelta("hi"), d.Finish())
    assert ("i", {"data": "proof"}) in parts
    parts = parts_of(d.ReasoningDelta("hm"), d.SignatureDelta("proof"), d.TextDelta("hi"), d.Finish())
    assert ("j", {"signature": "proof"}) in parts


def test_a_sign_of_life_says_nothing() -> None:
    assert DataStream().keepalive() == b"2:[]\n"


def test_a_picture_is_a_file() -> None:
    drawn = Opaque.make(type="image_generation_call", id="ig_1", status="completed", result="iVBORw0K")
    assert ("k", {"mimeType": "image/png", "data": "iVBORw0K"}) in parts_of(d.ItemDelta(drawn), d.Finish())
