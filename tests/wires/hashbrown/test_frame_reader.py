"""The client's half of Hashbrown's frames: what it makes of them, and what it objects to."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import FunctionCall
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    MessageStart,
    ReasoningDelta,
    TextDelta,
)
from antiphon.wires.hashbrown import frames as hb
from antiphon.wires.hashbrown.frame_reader import BrokenFrames, Frame, FrameSplitter, HashbrownReader
from antiphon.wires.hashbrown.messages import AssistantMessage, UserMessage
from tests.stream.composed import compose
from tests.stream.strategies import runs_in_order
from tests.wires.hashbrown.frame_reader import folded, unframed

DIALECTS = pytest.mark.parametrize("dialect", hb.FRAME_DIALECTS)
LOOK = (
    TextDelta("Look."),
    CallDelta("a", '{"q":', "search", "call_1"),
    CallDelta("a", "1}"),
    Finish(),
)


def told(*deltas: AnyDelta, dialect: hb.FrameDialect) -> bytes:
    return hb.frame_writer(dialect).frames(compose(*deltas)[0])


def read(*frames: Frame) -> HashbrownReader:
    reader = HashbrownReader()
    for frame in frames:
        reader.fold(frame)
    reader.close()
    return reader


def seen(reader: HashbrownReader) -> tuple[str, list[tuple[int, str, str, str]]]:
    """The words and the calls of an answer."""
    answer = reader.state.answer
    assert answer is not None
    calls = [
        (one.index, one.id, one.function.name, one.function.arguments) for one in answer.tool_calls or ()
    ]
    return answer.content, calls


# --- bytes ------------------------------------------------------------------------------------------------


@given(runs_in_order, st.integers(1, 40), st.sampled_from(hb.FRAME_DIALECTS))
def test_it_does_not_matter_how_the_bytes_are_cut(
    deltas: list[AnyDelta], size: int, dialect: hb.FrameDialect
) -> None:
    data = told(*deltas, dialect=dialect)
    reader = HashbrownReader()
    frames = [f for n in range(0, len(data), size) for f in reader.feed(data[n : n + size])]
    assert frames == unframed(data)
    assert reader.state == folded(data).state


def test_bytes_that_are_no_frames_are_an_error() -> None:
    with pytest.raises(BrokenFrames, match=r"a frame of 1,000 bytes is announced; at most 999 are read"):
        FrameSplitter(max_frame=999).feed((1000).to_bytes(4, "big"))
    for payload in (b"[]", b"{", b"\xff\xff"):
        with pytest.raises(BrokenFrames, match="not a JSON object"):
            HashbrownReader().feed(hb.frame(payload))


# --- both dialects ----------------------------------------------------------------------------------------


@given(runs_in_order)
def test_both_dialects_give_the_same_answer(deltas: list[AnyDelta]) -> None:
    one, other = (folded(told(*deltas, dialect=dialect)) for dialect in hb.FRAME_DIALECTS)
    assert seen(one) == seen(other)
    assert one.ended
    assert other.ended


@given(runs_in_order, st.sampled_from(hb.FRAME_DIALECTS))
def test_an_answer_is_what_the_response_says(deltas: list[AnyDelta], dialect: hb.FrameDialect) -> None:
    events, response = compose(*deltas)
    reader = folded(hb.frame_writer(dialect).frames(events))
    text, calls = seen(reader)
    made = [item for item in response.output if isinstance(item, FunctionCall)]
    assert [(id, name) for _, id, name, _ in calls] == [(item.call_id, item.name) for item in made]
    words = "".join(getattr(item, "get_text", str)() for item in response.output if hasattr(item, "role"))
    if response.status == "completed":
        assert [arguments for *_, arguments in calls] == [item.arguments or "{}" for item in made]
        assert re.sub(r"\s", "", words) in re.sub(r"\s", "", text)
    assert (reader.state.error is not None) == (frame_types(told(*deltas, dialect=dialect))[-1] in FAILED)


FAILED = {"generation-error", "error", "response.failed"}


def frame_types(data: bytes) -> list[str]:
    return [frame["type"] for frame in unframed(data)]


@DIALECTS
def test_words_and_calls(dialect: hb.FrameDialect) -> None:
    state = folded(told(*LOOK, dialect=dialect)).state
    assert seen_calls(state) == [("call_1", "search", '{"q":1}')]
    assert state.answer is not None
    assert state.answer.content == "Look."
    assert (state.is_generating, state.error) == (False, None)
    assert state.finish_reason == ("tool_calls" if dialect == "generation" else "completed")


def seen_calls(state: Any) -> list[tuple[str, str, str]]:
    return [(call.id, call.function.name, call.function.arguments) for call in state.tool_calls]


@DIALECTS
def test_the_state_can_be_looked_at_while_it_grows(dialect: hb.FrameDialect) -> None:
    events, _ = compose(TextDelta("Hel"), TextDelta("lo"), Finish())
    writer, reader = hb.frame_writer(dialect), HashbrownReader([UserMessage("Hi")])
    grown: list[str] = []
    for event in events:
        reader.feed(writer.frames([event]))
        state = reader.state
        if state.answer is not None and (not grown or grown[-1] != state.answer.content):
            grown.append(state.answer.content)
    assert grown == ["", "Hel", "Hello"]
    assert [type(one) for one in reader.state.messages] == [UserMessage, AssistantMessage]


@DIALECTS
def test_two_messages_are_one_answer(dialect: hb.FrameDialect) -> None:
    state = folded(told(TextDelta("a"), MessageStart(), TextDelta("b"), Finish(), dialect=dialect)).state
    assert state.answer is not None
    assert state.answer.content == "a\n\nb"


def test_reasoning_is_told_in_one_dialect() -> None:
    deltas = (ReasoningDelta("Hm"), ReasoningDelta("."), TextDelta("Yes"), Finish())
    assert folded(told(*deltas, dialect="open-responses")).state.reasoning == "Hm."
    assert folded(told(*deltas, dialect="generation")).state.reasoning == ""


@DIALECTS
def test_structured_output_is_a_value_once_it_is_whole(dialect: hb.FrameDialect) -> None:
    state = folded(told(TextDelta('{"a":'), TextDelta("1}"), Finish(), dialect=dialect)).state
    assert state.structured_output == {"a": 1}
    cut = folded(told(TextDelta('{"a":'), Finish("length"), dialect=dialect)).state
    assert cut.structured_output is None
    emulated = folded(told(CallDelta("a", '{"b":2}', "output", "c"), Finish(), dialect=dialect)).state
    assert (emulated.structured_output, emulated.tool_calls) == ({"b": 2}, [])
    assert HashbrownReader().state.structured_output is None


@DIALECTS
def test_an_error_is_the_end(dialect: hb.FrameDialect) -> None:
    broken = ErrorPayload("model_error", "it broke", code="scripted", param="input")
    reader = folded(told(TextDelta("Hel"), Failure(broken), dialect=dialect))
    assert reader.ended
    assert reader.state.error is not None
    assert reader.state.error.message == "it broke"
    if dialect == "open-responses":
        assert reader.state.error == broken
    reader.fold({"type": "thread-save-start"})
    assert reader.problems == ["thread-save-start follows the end"]


def test_a_failed_response_is_an_error() -> None:
    filtered = folded(told(TextDelta("a"), Finish("content_filter"), dialect="open-responses")).state
    assert filtered.error is not None
    assert (filtered.error.code, filtered.finish_reason) == ("content_filter", "failed")


@DIALECTS
def test_an_answer_that_just_stops_has_failed(dialect: hb.FrameDialect) -> None:
    data = told(TextDelta("Hel"), TextDelta("lo"), Finish(), dialect=dialect)
    reader = HashbrownReader()
    reader.feed(data[:-10])
    reader.close()
    assert reader.state.error is not None
    assert reader.state.error.type == "stream_error"
    assert re.fullmatch(r"\d+ bytes are left over", reader.problems[0])


# --- what may be missing ----------------------------------------------------------------------------------


def test_optional_frames_may_be_missing() -> None:
    item = {"id": "c", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    reader = read(
        {"type": "response.in_progress", "response": {"id": "r", "status": "in_progress"}},
        {
            "type": "response.output_text.done",
            "itemId": "m",
            "outputIndex": 0,
            "contentIndex": 0,
            "text": "Hi",
        },
        {"type": "response.output_item.done", "outputIndex": 0, "item": item},
        {"type": "keepalive"},
        {"type": "acme:progress"},
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    )
    assert reader.problems == []
    assert seen(reader) == ("Hi", [(0, "c", "f", "{}")])


# --- threads ----------------------------------------------------------------------------------------------


def test_a_thread_is_loaded_and_saved() -> None:
    thread = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "toolCalls": []}]
    loaded = folded(hb.THREAD_LOAD_START + hb.thread_loaded(thread))
    assert loaded.state.messages == [UserMessage("Hi"), AssistantMessage("Hello", [])]
    assert loaded.state.thread.is_loading is False
    answer = told(TextDelta("Bye"), Finish(), dialect="generation")
    whole = hb.THREAD_LOAD_START + hb.thread_loaded() + answer + hb.THREAD_SAVE_START + hb.thread_saved("t_1")
    state = folded(whole).state
    assert (state.thread.id, state.thread.error, state.thread.is_saving) == ("t_1", None, False)


def test_threads_that_fail_say_why() -> None:
    lost = folded(hb.THREAD_LOAD_START + hb.thread_not_loaded("gone"))
    assert (lost.state.thread.error, lost.ended, lost.state.error) == ("gone", True, None)
    answer = told(TextDelta("Bye"), Finish(), dialect="open-responses")
    unsaved = folded(answer + hb.THREAD_SAVE_START + hb.thread_not_saved("full"))
    assert (unsaved.state.thread.error, unsaved.state.error) == ("full", None)
    left = HashbrownReader()
    left.feed(hb.THREAD_LOAD_START)
    assert left.state.thread.is_loading
    left.close()
    assert left.state.error is not None


# --- what breaks the contract -----------------------------------------------------------------------------

CREATED = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
START = {"type": "generation-start"}


def text(kind: str, words: str, index: int = 0, **names: str) -> Frame:
    name = names.get("name", "delta" if kind == "delta" else "text")
    place = {"itemId": "m", "outputIndex": index, "contentIndex": 0}
    return {"type": f"response.output_text.{kind}", **place, name: words}


def added(id: str, index: int, **item: str) -> Frame:
    return {
        "type": "response.output_item.added",
        "outputIndex": index,
        "item": {"id": id, "type": "message", **item},
    }


def chunk(delta: Any, reason: str | None = None) -> Frame:
    return {"type": "generation-chunk", "chunk": {"choices": [{"delta": delta, "finishReason": reason}]}}


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        ([text("delta", "a")], "words come before the beginning"),
        ([CREATED, added("m", 1)], "item m has index 1, not 0"),
        (
            [CREATED, added("m", 0), text("delta", "a", 2)],
            "response.output_text.delta of m has index 2, not 0",
        ),
        (
            [CREATED, text("delta", "a"), text("done", "b")],
            "response.output_text.done of m differs from its deltas",
        ),
        ([CREATED, text("delta", "a", name="text")], "response.output_text.delta has no `delta`"),
        (
            [
                CREATED,
                {
                    "type": "response.function_call_arguments.delta",
                    "itemId": "x",
                    "outputIndex": 0,
                    "delta": "{",
                },
            ],
            "arguments of x, which is no call that has begun",
        ),
        ([added("c", 0, type="function_call", call_id="c", name="f")], "a call comes before the beginning"),
        ([START, {"type": "generation-chunk"}], "generation-chunk has no choice with a delta"),
        ([START, chunk({"toolCalls": 7})], "the calls of a chunk are no list"),
        ([START, chunk({"toolCalls": [{"index": 0}]})], "a piece of a call has no index or no arguments"),
        (
            [
                START,
                chunk({"toolCalls": [{"index": 1, "id": "c", "function": {"name": "f", "arguments": ""}}]}),
            ],
            "call 1 comes as number 0",
        ),
        (
            [START, chunk({"toolCalls": [{"index": 0, "function": {"arguments": ""}}]})],
            "call 0 begins without its id or its name",
        ),
        ([START, {"type": "generation-finish"}], "generation-finish comes without a reason"),
        ([CREATED, {"type": "error", "error": {}}], "an error says neither its type nor a message"),
        (
            [{"type": "thread-load-success", "thread": [{}]}],
            "thread-load-success: thread[0].role: `role` is missing",
        ),
        ([{"type": "thread-save-success"}], "thread-save-success has no `threadId`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_breaks_the_contract_is_listed(frames: list[Frame], problem: str) -> None:
    assert read(*frames).problems[0] == problem


def test_fields_of_other_types_than_they_should_have_are_read_past() -> None:
    item = {"type": "function_call", "id": [], "call_id": {}, "name": 1, "arguments": {}}
    done = {"type": "response.output_item.done", "outputIndex": 0, "item": item}
    reader = read(CREATED, done, {"type": "error", "error": {"type": "t", "message": "m", "code": 7}})
    assert [call.function.arguments for call in reader.state.tool_calls] == ["{}"]
    assert reader.state.error == ErrorPayload("t", "m")
    errors: list[Any] = ["no", 7, [], {"code": 7, "message": None}]
    for error in errors:
        failed = {"type": "response.failed", "response": {"status": 7, "error": error}}
        assert read(CREATED, failed).state.error == ErrorPayload("server_error", "it failed")
