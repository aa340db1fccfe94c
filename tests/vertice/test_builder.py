"""The stream builder of Vértice: what its own tests assert, and streams that the Auditor accepts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.producer import StateError
from antiphon.stream.auditor import audit, audit_sse
from antiphon.vertice import (
    ErrorType,
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OpenResponsesError,
    OpenResponsesStreamBuilder,
    OutputTextDeltaEvent,
    ReasoningItem,
    ResponseCreatedEvent,
    ResponseFailedEvent,
    StreamEvent,
    TokenUsage,
    format_open_responses_event,
)
from tests.spec.validators import EVENT_SCHEMAS, assert_valid_event

ERROR = OpenResponsesError(type=ErrorType.MODEL_ERROR, code="generation_failed", message="no")


def started() -> OpenResponsesStreamBuilder:
    return OpenResponsesStreamBuilder(model="test").start()


def types(events: list[StreamEvent]) -> list[str]:
    return [event.type for event in events]


def assert_sound(builder: OpenResponsesStreamBuilder, events: list[StreamEvent] | None = None) -> None:
    told = [event.to_dict() for event in events or builder.get_events()]
    assert audit(told) == []
    for payload in told:
        assert payload["type"] in EVENT_SCHEMAS
        assert_valid_event(payload)
    assert told[-1]["response"] == builder.response.to_dict()


# --- what its own tests assert ----------------------------------------------------------------------------


def test_a_builder_has_a_model_and_has_told_nothing() -> None:
    builder = OpenResponsesStreamBuilder(model="gemini-3-pro")
    assert builder.response.model == "gemini-3-pro"
    assert builder._sequence == 0
    assert builder.get_last_event() is None
    assert builder.get_last_event_sse() == ""


def test_start_gives_created_and_in_progress() -> None:
    events = started().get_events()
    assert len(events) == 2
    assert events[0].type == "response.created"
    assert events[1].type == "response.in_progress"
    assert isinstance(events[0], ResponseCreatedEvent)
    assert events[0].response["output"] == []


def test_a_message_is_added_with_its_text_part() -> None:
    builder = started()
    builder.clear_events()
    message = builder.add_message()
    events = builder.get_events()
    assert len(events) == 2
    assert events[0].type == "response.output_item.added"
    assert events[1].type == "response.content_part.added"
    assert events[0].item["id"] == events[1].item_id == message.id
    assert events[1].part == {"type": "output_text", "annotations": [], "text": ""}


def test_a_text_delta_is_one_event() -> None:
    builder = started()
    message = builder.add_message()
    builder.clear_events()
    builder.text_delta(message, "Hello")
    events = builder.get_events()
    assert len(events) == 1
    assert events[0].type == "response.output_text.delta"
    assert events[0].delta == "Hello"


def test_complete_closes_everything_in_order() -> None:
    builder = started()
    message = builder.add_message()
    builder.text_delta(message, "Hello World")
    told = builder.get_events()
    builder.clear_events()
    builder.complete(TokenUsage(input_tokens=5, output_tokens=10, total_tokens=15))
    events = builder.get_events()
    assert events[-1].type == "response.completed"
    assert types(events) == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[-1].response["usage"]["total_tokens"] == 15
    assert message.status is ItemStatus.COMPLETED
    assert_sound(builder, [*told, *events])


def test_done_is_the_end_of_the_stream() -> None:
    assert OpenResponsesStreamBuilder.done() == "data: [DONE]\n\n"


def test_an_event_as_a_server_sent_event() -> None:
    event = OutputTextDeltaEvent(
        sequence_number=5, item_id="msg_123", output_index=0, content_index=0, delta="Test é"
    )
    text = event.to_sse()
    assert "event: response.output_text.delta" in text
    assert "data:" in text
    assert "é" in text
    assert text.endswith("\n\n")
    (line,) = [line for line in text.strip().split("\n") if line.startswith("data:")]
    data = json.loads(line[5:].strip())
    assert data["type"] == "response.output_text.delta"
    assert data["sequence_number"] == 5
    assert data["delta"] == "Test é"
    assert data == event.to_dict()


def test_a_whole_stream_as_text() -> None:
    builder = OpenResponsesStreamBuilder(model="gemini-3-pro")
    parts: list[str] = []
    builder.start()
    parts += [event.to_sse() for event in builder.get_events()]
    builder.clear_events()
    message = builder.add_message()
    parts += [event.to_sse() for event in builder.get_events()]
    builder.clear_events()
    for chunk in ["Hello", " ", "World", "!"]:
        builder.text_delta(message, chunk)
        parts.append(builder.get_last_event_sse())
        builder.clear_events()
    builder.complete()
    parts += [event.to_sse() for event in builder.get_events()]
    parts.append(builder.done())
    assert "response.created" in parts[0]
    assert "response.in_progress" in parts[1]
    assert "output_item.added" in parts[2]
    assert "[DONE]" in parts[-1]
    assert message.get_text() == "Hello World!"
    assert audit_sse("".join(parts).encode()) == []


# --- what goes beyond them --------------------------------------------------------------------------------


def test_text_that_is_taken_as_it_comes_is_a_whole_stream() -> None:
    """The use that the builder's own description shows, in which nothing clears the events."""
    builder = started()
    message = builder.add_message()
    text = ""
    for chunk in ["Hel", "", "lo"]:
        builder.text_delta(message, chunk)
        text += builder.get_last_event_sse()
    builder.complete()
    text += "".join(builder.get_pending_events_sse())
    assert list(builder.get_pending_events_sse()) == []
    assert audit_sse((text + builder.done()).encode()) == []
    assert text.count("event: response.output_text.delta") == 2


def test_numbers_begin_with_one_and_have_no_hole() -> None:
    builder = started()
    builder.text_delta(builder.add_message(), "x")
    builder.complete()
    numbers = [event.sequence_number for event in builder.get_events()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert builder._sequence == numbers[-1]


def test_two_equal_messages_have_an_index_each() -> None:
    builder = started()
    one, other = builder.add_message(), builder.add_message()
    builder.text_delta(other, "second").text_delta(one, "first")
    builder.complete()
    assert (one.get_text(), other.get_text()) == ("first", "second")
    assert_sound(builder)


def test_calls_and_reasoning_are_told_from_beginning_to_end() -> None:
    builder = started()
    thought = builder.add_reasoning()
    builder.reasoning_delta(thought, "hm")
    call = builder.add_function_call("look")
    builder.arguments_delta(call, '{"a":').arguments_delta(call, "1}")
    whole, empty = builder.add_function_call("do", '{"b":2}'), builder.add_function_call("wait")
    builder.complete()
    assert (call.get_arguments_dict(), whole.get_arguments_dict(), empty.arguments) == (
        {"a": 1},
        {"b": 2},
        "{}",
    )
    assert thought.get_reasoning_text() == "hm"
    assert_sound(builder)


def test_a_failure_closes_what_is_open_and_says_why_twice() -> None:
    builder = started()
    message = builder.add_message()
    builder.text_delta(message, "so far")
    builder.fail(ERROR)
    last = builder.get_last_event()
    assert isinstance(last, ResponseFailedEvent)
    assert last.error == last.response["error"] == {"code": "generation_failed", "message": "no"}
    assert message.status is ItemStatus.INCOMPLETE
    assert builder.response.error == ERROR
    assert types(builder.get_events())[-2:] == ["error", "response.failed"]
    assert_sound(builder)


def test_what_the_stream_would_not_have_is_refused() -> None:
    builder = started()
    builder.response.add_function_call("look", "{}")
    with pytest.raises(StateError, match="outside of this builder"):
        builder.complete()
    builder = started()
    builder.add_message().append_text("not told")
    with pytest.raises(StateError, match="outside of this builder"):
        builder.complete()
    with pytest.raises(StateError, match="not begun by this builder"):
        builder.text_delta(MessageItem(), "x")


def test_start_comes_first() -> None:
    with pytest.raises(StateError, match="call start first"):
        OpenResponsesStreamBuilder("test").add_message()


@given(
    st.lists(st.tuples(st.sampled_from(["message", "reasoning", "call", "more"]), st.text(max_size=5))),
    st.booleans(),
)
def test_whatever_is_said_the_stream_is_sound(said: list[tuple[str, str]], fails: bool) -> None:
    builder = started()
    items: list[Any] = []
    for kind, text in said:
        if kind == "message":
            items.append(builder.add_message())
        elif kind == "reasoning":
            items.append(builder.add_reasoning())
        elif kind == "call":
            items.append(builder.add_function_call("f"))
        for item in items[-2:]:
            match item:
                case MessageItem():
                    builder.text_delta(item, text)
                case ReasoningItem():
                    builder.reasoning_delta(item, text)
                case FunctionCallItem():
                    builder.arguments_delta(item, text)
    if fails:
        builder.fail(ERROR)
    else:
        builder.complete(TokenUsage(input_tokens=3))
    assert_sound(builder)


# --- events -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", StreamEvent.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_event_can_be_made_without_arguments(kind: type[StreamEvent]) -> None:
    event = kind()
    assert event.to_dict()["type"] == event.type
    assert event.to_sse().startswith(f"event: {event.type}\ndata: {{")
    assert event == kind()
    assert event != kind(sequence_number=7)
    assert event.type in repr(event)


def test_a_field_that_an_event_does_not_have() -> None:
    with pytest.raises(AttributeError, match=r"response\.output_text\.delta has no 'item'"):
        _ = OutputTextDeltaEvent(delta="x").item


@pytest.mark.parametrize(
    ("beside", "inside"),
    [
        ({"type": "server_error", "message": "no"}, {"code": "server_error", "message": "no"}),
        ({"code": "c", "message": "no"}, {"code": "c", "message": "no"}),
        (ERROR, {"code": "generation_failed", "message": "no"}),
        ({}, None),
        (None, None),
    ],
)
def test_the_error_of_a_failed_response_is_told_once_in_each_place(beside: Any, inside: Any) -> None:
    event = ResponseFailedEvent(response={"id": "resp_1", "status": "failed"}, error=beside)
    assert event.to_dict()["response"]["error"] == event.error == inside
    told = event.to_sse()
    assert told == format_open_responses_event(
        "response.failed", {"response": event.response, "error": beside}
    )
    pairs = json.loads(told.partition("data: ")[2], object_pairs_hook=list)
    assert [name for name, _ in pairs].count("error") == 1


def test_what_a_failed_response_says_itself_stays() -> None:
    own = {"code": "mine", "message": "no"}
    event = ResponseFailedEvent(response={"status": "failed", "error": own}, error={"code": "other"})
    assert event.error == event.response["error"] == own


def test_an_event_of_a_vendor() -> None:
    event = StreamEvent(type="vertice:progress", sequence_number=3, percent=50)
    assert event.percent == 50
    assert event.to_dict() == {"type": "vertice:progress", "sequence_number": 3, "percent": 50}
