"""The helpers that write single events: each is valid, and in the specification's order they are a stream."""

from itertools import count
from typing import Any

import msgspec
import pytest

from antiphon.stream import sse
from antiphon.stream.auditor import audit, audit_sse
from antiphon.vertice import (
    ItemStatus,
    MessageItem,
    OutputTextContent,
    format_content_part_added,
    format_content_part_done,
    format_open_responses_event,
    format_output_item_added,
    format_output_item_done,
    format_output_text_delta,
    format_output_text_done,
    format_response_completed,
    format_response_created,
    format_response_failed,
    format_response_in_progress,
)
from tests.spec.validators import assert_valid_event

RESPONSE, MESSAGE = "resp_1", "msg_1"


def payloads(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(one.data) for one in sse.Decoder().feed(text.encode())]


def said(status: ItemStatus = ItemStatus.COMPLETED) -> MessageItem:
    return MessageItem(id=MESSAGE, status=status, content=[OutputTextContent("Hello")])


def test_in_the_order_of_the_specification_they_are_a_stream() -> None:
    number = count(1)
    stream = [
        format_response_created(RESPONSE, "m", next(number)),
        format_response_in_progress(RESPONSE, next(number), "m"),
        format_output_item_added(MESSAGE, "assistant", 0, next(number)),
        format_content_part_added(MESSAGE, 0, 0, next(number)),
        format_output_text_delta(MESSAGE, "Hel", 0, 0, next(number)),
        format_output_text_delta(MESSAGE, "lo", 0, 0, next(number)),
        format_output_text_done(MESSAGE, "Hello", 0, 0, next(number)),
        format_content_part_done(MESSAGE, "Hello", 0, 0, next(number)),
        format_output_item_done(MESSAGE, "message", "assistant", "Hello", 0, next(number)),
        format_response_completed(
            RESPONSE, {"input_tokens": 3, "output_tokens": 2}, next(number), model="m", output=[said()]
        ),
        "data: [DONE]\n\n",
    ]
    assert audit_sse("".join(stream).encode()) == []
    for payload in payloads("".join(stream[:-1])):
        assert_valid_event(payload)
    assert payloads(stream[-2])[0]["response"]["usage"]["total_tokens"] == 5


def test_a_failure_after_a_part_of_the_answer() -> None:
    incomplete = said(ItemStatus.INCOMPLETE)
    stream = [
        format_response_created(RESPONSE, "m", 1),
        format_response_in_progress(RESPONSE, 2, "m"),
        format_output_item_added(MESSAGE, "assistant", 0, 3),
        format_content_part_added(MESSAGE, 0, 0, 4),
        format_output_text_delta(MESSAGE, "Hello", 0, 0, 5),
        format_output_text_done(MESSAGE, "Hello", 0, 0, 6),
        format_content_part_done(MESSAGE, "Hello", 0, 0, 7),
        format_open_responses_event(
            "response.output_item.done",
            {"sequence_number": 8, "output_index": 0, "item": incomplete.to_dict()},
        ),
        format_response_failed(RESPONSE, "no", 9, model="m", output=[incomplete]),
    ]
    told = payloads("".join(stream))
    assert audit(told) == []
    assert told[-1]["response"]["error"] == {"code": "server_error", "message": "no"}
    assert told[-1]["error"] == told[-1]["response"]["error"]


def test_without_the_events_of_a_part_it_is_no_stream_of_the_specification() -> None:
    """Why there are two helpers more than in the document, and why the last one takes the output."""
    told = payloads(
        format_response_created(RESPONSE, "m", 1)
        + format_response_in_progress(RESPONSE, 2)
        + format_output_item_added(MESSAGE, "assistant", 0, 3)
        + format_output_text_delta(MESSAGE, "Hello", 0, 0, 4)
        + format_output_text_done(MESSAGE, "Hello", 0, 0, 5)
        + format_output_item_done(MESSAGE, "message", "assistant", "Hello", 0, 6)
        + format_response_completed(RESPONSE, {"input_tokens": 3, "output_tokens": 2}, 7)
    )
    assert audit(told) != []
    for payload in told:
        assert_valid_event(payload)


def test_only_messages_have_a_role_and_a_text() -> None:
    with pytest.raises(ValueError, match="'function_call'"):
        format_output_item_done("fc_1", "function_call", "assistant", "", 0, 1)


def test_an_event_from_its_fields() -> None:
    text = format_open_responses_event("response.output_text.delta", {"sequence_number": 4, "delta": "é"})
    assert text.startswith("event: response.output_text.delta\ndata: {")
    (payload,) = payloads(text)
    assert (payload["type"], payload["delta"], payload["item_id"]) == ("response.output_text.delta", "é", "")
