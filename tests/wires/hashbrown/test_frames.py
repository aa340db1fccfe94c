"""A run as Hashbrown's frames, in both dialects; the contract of its core package by name."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec import events as ev
from antiphon.spec.content import LogProb, UrlCitation
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.items import CustomToolCall, FunctionCall
from antiphon.spec.response import IncompleteDetails, Response
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ItemEnd,
    MessageStart,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    VendorDelta,
)
from antiphon.wires.hashbrown import frames as hb
from tests.stream.composed import compose
from tests.stream.strategies import runs_in_order
from tests.wires.hashbrown.frame_reader import Frame, frame_types, message, unframed

BROKEN = ErrorPayload("model_error", "it broke", code="scripted", param="input")
DIALECTS = pytest.mark.parametrize("dialect", hb.FRAME_DIALECTS)
TERMINAL = {
    "generation": {"generation-finish", "generation-error"},
    "open-responses": {"response.completed", "response.incomplete", "response.failed", "error"},
}


def told(*deltas: AnyDelta, dialect: hb.FrameDialect = "generation", **options: Any) -> list[Frame]:
    events, _ = compose(*deltas)
    return unframed(hb.frame_writer(dialect, **options).frames(events))


def of_type(frames: list[Frame], kind: str) -> list[Frame]:
    return [frame for frame in frames if frame["type"] == kind]


def finish_reason(frames: list[Frame]) -> str:
    *_, last = of_type(frames, "generation-chunk")
    return str(last["chunk"]["choices"][0]["finishReason"])


# --- layout -----------------------------------------------------------------------------------------------


def test_the_layout_of_a_frame_is_the_measured_one() -> None:
    assert bytes.fromhex("0000001b") + b'{"type":"generation-start"}' == hb.GENERATION_START
    assert bytes.fromhex("0000001c") + b'{"type":"generation-finish"}' == hb.GENERATION_FINISH


def test_the_length_counts_bytes_and_not_characters() -> None:
    (frame,) = unframed(hb.thread_not_saved("ж🙂"))
    assert frame == {"type": "thread-save-failure", "error": "ж🙂"}


@given(deltas=runs_in_order, size=st.integers(1, 9), dialect=st.sampled_from(hb.FRAME_DIALECTS))
def test_batches_of_any_size_give_the_same_frames(
    deltas: list[AnyDelta], size: int, dialect: hb.FrameDialect
) -> None:
    events, _ = compose(*deltas)
    whole, pieces = hb.frame_writer(dialect), hb.frame_writer(dialect)
    apart = b"".join(pieces.frames(events[n : n + size]) for n in range(0, len(events), size))
    assert whole.frames(events) == apart
    assert whole.ended
    assert pieces.frames(events) == b""


@given(deltas=runs_in_order, dialect=st.sampled_from(hb.FRAME_DIALECTS))
def test_every_run_ends_exactly_once_and_with_its_last_frame(
    deltas: list[AnyDelta], dialect: hb.FrameDialect
) -> None:
    frames = told(*deltas, dialect=dialect)
    ends = [n for n, kind in enumerate(frame_types(frames)) if kind in TERMINAL[dialect]]
    assert ends == [len(frames) - 1]


@given(deltas=runs_in_order)
def test_what_the_client_puts_together_is_what_the_response_says(deltas: list[AnyDelta]) -> None:
    events, response = compose(*deltas)
    made = message(unframed(hb.frame_writer().frames(events)))
    calls = [item for item in response.output if isinstance(item, FunctionCall)]
    assert [call["id"] for call in made["toolCalls"]] == [call.call_id for call in calls]
    assert [call["index"] for call in made["toolCalls"]] == list(range(len(calls)))
    if response.status == "completed":
        sent = [call["function"]["arguments"] for call in made["toolCalls"]]
        assert sent == [call.arguments or "{}" for call in calls]
    words = [
        event.delta for event in events if isinstance(event, ev.OutputTextDeltaEvent | ev.RefusalDeltaEvent)
    ]
    assert without_blanks(made["content"]) == without_blanks("".join(words))


def without_blanks(text: str) -> str:
    """Between two messages there is a blank line that neither of them has."""
    return re.sub(r"\s", "", text)


# --- the core contract ------------------------------------------------------------------------------------


def test_text_in_the_generation_dialect() -> None:
    frames = told(TextDelta("Hel"), TextDelta("lo"), Finish())
    assert frame_types(frames) == ["generation-start", *["generation-chunk"] * 4, "generation-finish"]
    assert frames[1]["chunk"] == {
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finishReason": None}]
    }
    assert frames[2]["chunk"] == {
        "choices": [{"index": 0, "delta": {"content": "Hel"}, "finishReason": None}]
    }
    assert message(frames) == {"role": "assistant", "content": "Hello", "toolCalls": []}
    assert finish_reason(frames) == "stop"


def test_text_in_the_open_responses_dialect() -> None:
    frames = told(TextDelta("Hel"), TextDelta("lo"), Finish(), dialect="open-responses")
    assert frame_types(frames) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [frame["delta"] for frame in of_type(frames, "response.output_text.delta")] == ["Hel", "lo"]


def test_a_tool_call_in_the_generation_dialect() -> None:
    call = CallDelta(0, name="weather", call_id="call_1")
    frames = told(call, CallDelta(0, '{"city":'), CallDelta(0, '"Oslo"}'), Finish("tool_calls"))
    first, *rest = [f["chunk"]["choices"][0]["delta"]["toolCalls"][0] for f in frames[2:-2]]
    function = {"name": "weather", "arguments": ""}
    assert first == {"index": 0, "id": "call_1", "type": "function", "function": function}
    assert rest == [
        {"index": 0, "function": {"arguments": '{"city":'}},
        {"index": 0, "function": {"arguments": '"Oslo"}'}},
    ]
    assert finish_reason(frames) == "tool_calls"


def test_a_tool_call_in_the_open_responses_dialect() -> None:
    call = CallDelta(0, name="weather", call_id="call_1")
    frames = told(call, CallDelta(0, "{"), CallDelta(0, "}"), Finish("tool_calls"), dialect="open-responses")
    (added,) = of_type(frames, "response.output_item.added")
    assert (added["item"]["type"], added["item"]["call_id"], added["item"]["name"]) == (
        "function_call",
        "call_1",
        "weather",
    )
    id = added["item"]["id"]
    deltas = of_type(frames, "response.function_call_arguments.delta")
    assert [(frame["itemId"], frame["delta"]) for frame in deltas] == [(id, "{"), (id, "}")]
    (done,) = of_type(frames, "response.function_call_arguments.done")
    assert (done["itemId"], done["arguments"]) == (id, "{}")


def test_parallel_calls_have_an_index_each() -> None:
    frames = told(
        CallDelta("a", name="one", call_id="call_1"),
        CallDelta("b", name="two", call_id="call_2"),
        CallDelta("b", "[2]"),
        CallDelta("a", "[1]"),
        Finish("tool_calls"),
    )
    made = [(call["id"], call["function"]) for call in message(frames)["toolCalls"]]
    assert made == [
        ("call_1", {"name": "one", "arguments": "[1]"}),
        ("call_2", {"name": "two", "arguments": "[2]"}),
    ]


def test_an_error_in_the_generation_dialect_is_the_last_frame() -> None:
    frames = told(TextDelta("Hel"), Failure(BROKEN))
    assert frames[-1] == {"type": "generation-error", "error": "it broke"}
    assert "generation-finish" not in frame_types(frames)


def test_an_error_in_the_open_responses_dialect_is_the_last_frame() -> None:
    frames = told(TextDelta("Hel"), Failure(BROKEN), dialect="open-responses")
    error = {"type": "model_error", "message": "it broke", "code": "scripted", "param": "input"}
    assert frames[-1] == {"type": "error", "error": error}
    assert "response.failed" not in frame_types(frames)


@DIALECTS
def test_a_failed_response_without_an_error_event_is_an_error(dialect: hb.FrameDialect) -> None:
    response = Response(id="r", model="m", created_at=0, status="failed", error=ResponseError("x", "no luck"))
    (*_, last) = unframed(hb.frame_writer(dialect).frames([ev.ResponseFailedEvent(0, response)]))
    said = {"type": "server_error", "message": "no luck", "code": "x"}
    assert last == (
        {"type": "generation-error", "error": "no luck"}
        if dialect == "generation"
        else {"type": "error", "error": said}
    )


@DIALECTS
def test_nothing_follows_an_error(dialect: hb.FrameDialect) -> None:
    events, _ = compose(TextDelta("more"), Finish())
    writer = hb.frame_writer(dialect)
    writer.frames(events[:1])
    assert len(unframed(writer.fail(BROKEN))) == 1
    assert writer.frames(events[1:]) == b""


def test_optional_events_may_be_missing() -> None:
    """A text delta and a terminal event are enough for either dialect."""
    _, response = compose(TextDelta("Hi"), Finish())
    events: list[ev.AnyEvent] = [
        ev.OutputTextDeltaEvent(0, "msg_1", 0, 0, "Hi"),
        ev.ResponseCompletedEvent(1, response),
    ]
    assert message(unframed(hb.frame_writer().frames(events)))["content"] == "Hi"
    kinds = frame_types(unframed(hb.frame_writer("open-responses").frames(events)))
    assert kinds == ["response.output_text.delta", "response.completed"]


# --- the frames of the open-responses dialect -------------------------------------------------------------


def test_there_are_22_frame_types_and_no_summary_parts() -> None:
    assert len(hb.FRAME_TYPES) == 22
    left_out = {str(cls.__struct_config__.tag) for cls in ev.STANDARD} - hb.FRAME_TYPES
    assert left_out == {
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    }


def test_fields_are_in_camel_case_and_what_is_inside_them_is_not() -> None:
    citation = UrlCitation("https://example.org", "Example", 0, 2)
    frames = told(
        SummaryDelta("hm"),
        TextDelta("Hi", [LogProb("Hi", -0.1)]),
        AnnotationDelta(citation),
        CallDelta(0, "{}", "f", "call_1"),
        Finish("tool_calls"),
        dialect="open-responses",
    )
    for frame in frames:
        assert all("_" not in name for name in frame)
    (annotated,) = of_type(frames, "response.output_text.annotation.added")
    places = {"sequenceNumber", "itemId", "outputIndex", "contentIndex", "annotationIndex"}
    assert annotated.keys() == {"type", "annotation", *places}
    assert annotated["annotation"]["start_index"] == 0
    (summary,) = of_type(frames, "response.reasoning_summary_text.delta")
    assert (summary["summaryIndex"], summary["delta"]) == (0, "hm")
    numbers = [frame["sequenceNumber"] for frame in frames if not frame["type"].endswith(".delta")]
    assert numbers == sorted(set(numbers))


def test_many_deltas_at_once_keep_their_places_and_what_is_beside_the_words() -> None:
    """Also when they come together without an event between, as another server might send them."""
    events: list[ev.AnyEvent] = [
        ev.OutputTextDeltaEvent(1, "a", 0, 0, "1"),
        ev.OutputTextDeltaEvent(2, "a", 0, 1, "2"),
        ev.OutputTextDeltaEvent(3, "b", 1, 0, "3", [LogProb("3", -0.1)], "xx"),
        ev.ReasoningSummaryTextDeltaEvent(4, "c", 2, 0, "4"),
        ev.ReasoningSummaryTextDeltaEvent(5, "c", 2, 1, "5"),
        ev.ReasoningSummaryTextDeltaEvent(6, "c", 2, 0, "6"),
    ]
    frames = unframed(hb.frame_writer("open-responses").frames(events))
    assert [(f["itemId"], f.get("contentIndex", f.get("summaryIndex")), f["delta"]) for f in frames] == [
        ("a", 0, "1"),
        ("a", 1, "2"),
        ("b", 0, "3"),
        ("c", 0, "4"),
        ("c", 1, "5"),
        ("c", 0, "6"),
    ]
    assert (frames[2]["logprobs"][0]["token"], frames[2]["obfuscation"]) == ("3", "xx")
    assert "obfuscation" not in frames[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ev.OutputTextDeltaEvent(n, "a", 1, 2, f'"{n}\n'),
        lambda n: ev.RefusalDeltaEvent(n, "a", 1, 2, str(n)),
        lambda n: ev.ReasoningDeltaEvent(n, "a", 1, 2, str(n)),
        lambda n: ev.ReasoningSummaryTextDeltaEvent(n, "a", 1, 2, str(n)),
        lambda n: ev.FunctionCallArgumentsDeltaEvent(n, "a", 1, str(n)),
    ],
    ids=["text", "refusal", "reasoning", "summary", "arguments"],
)
def test_many_like_deltas_give_the_frames_that_each_would_give(make: Any) -> None:
    deltas = [make(n) for n in range(5)]
    apart = [unframed(hb.frame_writer("open-responses").frames([delta]))[0] for delta in deltas]
    assert unframed(hb.frame_writer("open-responses").frames(deltas)) == apart
    assert [frame["delta"] for frame in apart] == [delta.delta for delta in deltas]


def test_lifecycle_frames_carry_the_response() -> None:
    frames = told(TextDelta("Hi"), Finish(), dialect="open-responses")
    for frame in (frames[0], frames[1], frames[-1]):
        assert {"id", "status", "model", "output"} <= frame["response"].keys()
    assert frames[-1]["response"]["output"][0]["content"][0]["text"] == "Hi"


def test_items_parts_refusals_and_reasoning_have_their_frames() -> None:
    frames = told(ReasoningDelta("hm"), RefusalDelta("No."), Finish(), dialect="open-responses")
    for frame in of_type(frames, "response.output_item.added"):
        assert {"outputIndex", "item"} < frame.keys()
    for frame in of_type(frames, "response.content_part.done"):
        assert {"itemId", "outputIndex", "contentIndex", "part"} < frame.keys()
    (refusal,) = of_type(frames, "response.refusal.done")
    assert refusal["refusal"] == "No."
    (thought,) = of_type(frames, "response.reasoning.done")
    assert thought["text"] == "hm"


def test_an_error_frame_has_no_empty_fields() -> None:
    told_headers = ErrorPayload("too_many_requests", "wait", headers={"retry-after": "3"})
    (frame,) = unframed(hb.frame_writer("open-responses").fail(told_headers))
    error = {"type": "too_many_requests", "message": "wait", "headers": {"retry-after": "3"}}
    assert frame == {"type": "error", "error": error}


def test_the_six_thread_frames() -> None:
    made = [
        hb.THREAD_LOAD_START,
        hb.thread_loaded(),
        hb.thread_loaded([{"role": "user", "content": "Hi"}]),
        hb.thread_not_loaded("gone"),
        hb.THREAD_SAVE_START,
        hb.thread_saved("t1"),
        hb.thread_not_saved("full"),
    ]
    assert unframed(b"".join(made)) == [
        {"type": "thread-load-start"},
        {"type": "thread-load-success"},
        {"type": "thread-load-success", "thread": [{"role": "user", "content": "Hi"}]},
        {"type": "thread-load-failure", "error": "gone"},
        {"type": "thread-save-start"},
        {"type": "thread-save-success", "threadId": "t1"},
        {"type": "thread-save-failure", "error": "full"},
    ]


# --- contradictions ---------------------------------------------------------------------------------------


def test_vendor_events_have_no_frame_in_either_dialect() -> None:
    events, response = compose(TextDelta("Hi"), VendorDelta("acme:beat", {"n": 1}), Finish())
    custom = CustomToolCall(id="c", call_id="call_1", name="patch", input="")
    events.insert(-1, ev.CustomToolCallInputDeltaEvent(90, "c", 1, "x"))
    events.insert(-1, ev.OutputItemAddedEvent(91, 1, custom))
    assert message(unframed(hb.frame_writer().frames(events)))["content"] == "Hi"
    kinds = frame_types(unframed(hb.frame_writer("open-responses").frames(events)))
    assert set(kinds) <= hb.FRAME_TYPES
    assert response.status == "completed"


def test_there_are_two_dialects_and_generation_is_the_default() -> None:
    events, _ = compose(TextDelta("Hi"), Finish())
    assert hb.FRAME_DIALECTS == ("generation", "open-responses")
    assert hb.frame_writer().frames(events) == hb.frame_writer("generation").frames(events)
    released = set(frame_types(unframed(hb.frame_writer().frames(events))))
    assert released == {"generation-start", "generation-chunk", "generation-finish"}
    assert set(frame_types(told(TextDelta("Hi"), Finish(), dialect="open-responses"))) <= hb.FRAME_TYPES


@DIALECTS
def test_a_delta_without_words_is_left_out_unless_chunk_boundaries_are_preserved(
    dialect: hb.FrameDialect,
) -> None:
    events: list[ev.AnyEvent] = [
        ev.OutputTextDeltaEvent(0, "m", 0, 0, ""),
        ev.OutputTextDeltaEvent(1, "m", 0, 0, "a"),
    ]
    preserving = hb.frame_writer(dialect, preserve_chunk_boundaries=True)
    less, more = unframed(hb.frame_writer(dialect).frames(events)), unframed(preserving.frames(events))
    assert len(more) == len(less) + 1


@DIALECTS
def test_arguments_never_come_as_an_empty_delta(dialect: hb.FrameDialect) -> None:
    writer = hb.frame_writer(dialect, preserve_chunk_boundaries=True)
    writer.frames(compose(CallDelta(0, "{}", "f", "call_1"), Finish())[0][:3])
    assert writer.frames([ev.FunctionCallArgumentsDeltaEvent(9, "fc_1", 0, "")]) == b""


def test_a_content_filter_fails_in_the_open_responses_dialect() -> None:
    frames = told(TextDelta("Hel"), Finish("content_filter"), dialect="open-responses")
    last = frames[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["code"] == "content_filter"
    assert last["response"]["incomplete_details"] is None


def test_a_content_filter_can_match_sse() -> None:
    frames = told(
        TextDelta("Hel"), Finish("content_filter"), dialect="open-responses", content_filter="incomplete"
    )
    assert frames[-1]["type"] == "response.incomplete"
    assert frames[-1]["response"]["incomplete_details"] == {"reason": "content_filter"}


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "length"), ("content_filter", "content_filter"), ("max_tool_calls", "tool_calls")],
)
def test_an_incomplete_answer_finishes_and_says_why(finish: Any, reason: str) -> None:
    frames = told(TextDelta("Hel"), Finish(finish))
    assert frames[-1] == {"type": "generation-finish"}
    assert finish_reason(frames) == reason


# --- what the released client needs -----------------------------------------------------------------------


def test_a_refusal_is_shown_as_text() -> None:
    assert message(told(RefusalDelta("I "), RefusalDelta("won't."), Finish()))["content"] == "I won't."


def test_two_messages_of_one_answer_are_one_with_a_blank_line() -> None:
    frames = told(
        MessageStart("commentary"),
        TextDelta("I look."),
        ItemEnd(),
        MessageStart("final_answer"),
        TextDelta("Found."),
        Finish(),
    )
    assert message(frames)["content"] == "I look.\n\nFound."


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    frames = told(CallDelta(0, name="now", call_id="call_1"), Finish("tool_calls"))
    assert message(frames)["toolCalls"][0]["function"] == {"name": "now", "arguments": "{}"}


def test_an_answer_without_words_is_still_a_message() -> None:
    assert message(told(ReasoningDelta("hm"), Finish())) == {
        "role": "assistant",
        "content": "",
        "toolCalls": [],
    }


def test_a_call_carries_the_proof_of_the_reasoning_before_it() -> None:
    frames = told(
        ReasoningDelta("hm"),
        SignatureDelta("sealed"),
        TextDelta("I look."),
        CallDelta(0, "{}", "f", "call_1"),
        ItemEnd(0),
        ReasoningDelta("so"),
        SignatureDelta("again"),
        CallDelta(1, "{}", "g", "call_2"),
        Finish("tool_calls"),
    )
    kept = [call["metadata"][hb.PROOFS] for call in message(frames)["toolCalls"]]
    assert [[(one["proof"], one["leads"]) for one in proofs] for proofs in kept] == [
        [("sealed", True)],
        [("again", False)],
    ]


@DIALECTS
@pytest.mark.parametrize(
    ("status", "reason", "keeps"),
    [
        ("completed", None, True),
        ("incomplete", "max_output_tokens", True),
        ("incomplete", "cancelled", False),
        ("failed", None, False),
    ],
)
def test_only_an_answer_is_worth_keeping(
    dialect: hb.FrameDialect, status: str, reason: str | None, keeps: bool
) -> None:
    details = IncompleteDetails(reason) if reason else None
    response = Response(id="r", model="m", created_at=0, status=status, incomplete_details=details)
    assert hb.frame_writer(dialect).succeeds(response) is keeps


def test_what_a_filter_cut_is_kept_where_it_counts_as_an_answer() -> None:
    details = IncompleteDetails("content_filter")
    response = Response(id="r", model="m", created_at=0, status="incomplete", incomplete_details=details)
    assert hb.frame_writer("generation").succeeds(response)
    assert not hb.frame_writer("open-responses").succeeds(response)
    assert hb.frame_writer("open-responses", content_filter="incomplete").succeeds(response)
