"""From events to VS Code's parts: our own events, and those of servers that tell less or more."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.bridges.vscode import (
    DataPart,
    PartStream,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VsCodeFinish,
    VsCodeLines,
    VsCodeStart,
)
from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.content import OutputText, ReasoningText, Refusal, SummaryText, UrlCitation
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from antiphon.spec.response import IncompleteDetails, Receipt, Response, Usage
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
)
from antiphon.stream.deltas import Finish as End


def response(status: str = "completed", output: Iterable[Item] = (), **more: Any) -> Response:
    return Response(id="resp_1", model="m", created_at=1, status=status, output=list(output), **more)


def composed(*deltas: AnyDelta) -> list[ev.AnyEvent]:
    composer = Composer(Response(id="resp_1", model="m", created_at=1), clock=lambda: 2.0)
    return [*composer.start(), *composer.feed(list(deltas))]


def parts(*deltas: AnyDelta) -> list[Any]:
    """What is told of a run of our own, between its start and its end."""
    lines = PartStream().feed(composed(*deltas))
    assert isinstance(lines[0], VsCodeStart)
    assert isinstance(lines[-1], VsCodeFinish)
    return lines[1:-1]


def heard(*events: ev.AnyEvent) -> list[Any]:
    return list(PartStream().feed(events))


def ended(ending: Response, *before: ev.AnyEvent) -> VsCodeFinish:
    kinds = {"completed": ev.ResponseCompletedEvent, "failed": ev.ResponseFailedEvent}
    last = PartStream().feed([*before, kinds.get(ending.status, ev.ResponseIncompleteEvent)(9, ending)])[-1]
    assert isinstance(last, VsCodeFinish)
    return last


def texts(lines: Iterable[Any]) -> str:
    return "".join(line.value for line in lines if isinstance(line, TextPart))


# --- words ------------------------------------------------------------------------------------------------


def test_a_text_is_told_as_it_comes() -> None:
    assert parts(TextDelta("Hel"), TextDelta("lo"), End()) == [TextPart("Hel"), TextPart("lo")]


def test_reasoning_is_buffered_and_closed() -> None:
    said = [
        ReasoningDelta("one "),
        ReasoningDelta("two "),
        ReasoningDelta("three four five "),
        ReasoningDelta("six"),
    ]
    told = parts(*said, TextDelta("Hi"), End())
    assert [part.value for part in told] == ["one two three four five ", "six", "", "Hi"]
    [id] = {part.id for part in told[:3]}
    assert id
    assert all(isinstance(part, ThinkingPart) for part in told[:3])


def test_a_summary_is_thinking_too() -> None:
    told = parts(SummaryDelta("First."), SummaryDelta("Second.", part=1), End())
    assert "".join(part.value for part in told) == "First.\n\nSecond."


def test_the_proof_of_reasoning_goes_with_its_end() -> None:
    told = parts(ReasoningDelta("Hm"), SignatureDelta("proof"), TextDelta("Hi"), End())
    assert told[1].value == ""
    assert told[1].metadata == {"encryptedContent": "proof"}
    alone = parts(SignatureDelta("proof"), TextDelta("Hi"), End())
    assert [type(part) for part in alone] == [ThinkingPart, TextPart]
    assert alone[0].metadata == {"encryptedContent": "proof"}


def test_34_a_refusal_is_in_italics() -> None:
    assert parts(RefusalDelta("I can"), RefusalDelta("not.\n\nSorry."), End()) == [
        TextPart("*I cannot.*\n\n*Sorry.*")
    ]


def test_a_citation_is_a_link() -> None:
    cited = UrlCitation("https://a.example/x (1)", "The [old] Source", 0, 5)
    told = parts(TextDelta("Rain."), AnnotationDelta(cited), End())
    assert told[1] == TextPart(" [The (old) Source](https://a.example/x%20(1%29)")
    untitled = UrlCitation("https://a.example", "", 0, 5)
    assert parts(TextDelta("Rain."), AnnotationDelta(untitled), End())[1].value == (
        " [https://a.example](https://a.example)"
    )


# --- calls ------------------------------------------------------------------------------------------------


def test_34_a_call_is_told_once_and_whole() -> None:
    told = parts(
        TextDelta("Let me look."),
        CallDelta("0", name="weather", call_id="call_1"),
        CallDelta("0", arguments='{"city":'),
        CallDelta("0", arguments='"Paris"}'),
        End("tool_calls"),
    )
    assert told == [TextPart("Let me look."), ToolCallPart("call_1", "weather", {"city": "Paris"})]


def test_invalid_arguments_are_none() -> None:
    for arguments in ("[1]", "{broken", "5"):
        told = parts(CallDelta("0", name="f", call_id="call_1", arguments=arguments), End("tool_calls"))
        assert told == [ToolCallPart("call_1", "f", {})]
    assert parts(CallDelta("0", name="f", call_id="call_1"), End("tool_calls")) == [
        ToolCallPart("call_1", "f", {})
    ]


def test_a_call_that_was_cut_off_is_not_made() -> None:
    assert parts(CallDelta("0", name="f", call_id="call_1", arguments='{"a":'), End("length")) == []


CALL = FunctionCall(id="fc_1", call_id="call_1", name="f", arguments='{"a":1}', status="completed")
OPEN = FunctionCall(id="fc_1", call_id="call_1", name="f", arguments="", status="in_progress")
TOLD = [ToolCallPart("call_1", "f", {"a": 1})]


@pytest.mark.parametrize(
    "events",
    [
        [ev.OutputItemAddedEvent(1, 0, OPEN), ev.FunctionCallArgumentsDoneEvent(2, "fc_1", 0, '{"a":1}')],
        [ev.OutputItemDoneEvent(1, 0, CALL)],
        [ev.ResponseCompletedEvent(1, response(output=[CALL]))],
        [
            ev.OutputItemAddedEvent(1, 0, OPEN),
            ev.FunctionCallArgumentsDoneEvent(2, "fc_1", 0, '{"a":1}'),
            ev.FunctionCallArgumentsDoneEvent(3, "fc_1", 0, '{"a":1}'),
            ev.OutputItemDoneEvent(4, 0, CALL),
            ev.ResponseCompletedEvent(5, response(output=[CALL])),
        ],
        [ev.FunctionCallArgumentsDoneEvent(1, "fc_1", 0, '{"a":1}'), ev.OutputItemDoneEvent(2, 0, CALL)],
    ],
)
def test_from_whichever_event_says_it_first(events: list[ev.AnyEvent]) -> None:
    assert [line for line in heard(*events) if isinstance(line, ToolCallPart)] == TOLD


def test_duplicates_are_removed_by_item_id_and_by_call_id() -> None:
    other_id = FunctionCall(id="fc_2", call_id="call_1", name="f", arguments="{}")
    other_call = FunctionCall(id="fc_1", call_id="call_2", name="f", arguments="{}")
    new = FunctionCall(id="fc_3", call_id="call_3", name="g", arguments="{}")
    done = [ev.OutputItemDoneEvent(n, n, item) for n, item in enumerate([CALL, other_id, other_call, new])]
    assert heard(*done) == [*TOLD, ToolCallPart("call_3", "g", {})]


def test_items_that_the_server_answered_itself() -> None:
    output = FunctionCallOutput(id="fco_1", call_id="call_1", output="fine")
    custom = CustomToolCall(id="ctc_1", call_id="call_2", name="patch", input="diff")
    vendor = Opaque.make(type="acme:thing", id="x")
    items: list[Item] = [output, custom, vendor, output]
    lines = heard(*(ev.OutputItemDoneEvent(n, n, item) for n, item in enumerate(items)))
    assert lines == [
        ToolResultPart("call_1", [TextPart("fine")]),
        ToolCallPart("call_2", "patch", {"input": "diff"}),
    ]


# --- other servers ----------------------------------------------------------------------------------------

_ALL: dict[type[ev.Event], ev.Event] = {
    ev.ResponseCreatedEvent: ev.ResponseCreatedEvent(0, response("in_progress")),
    ev.ResponseQueuedEvent: ev.ResponseQueuedEvent(0, response("queued")),
    ev.ResponseInProgressEvent: ev.ResponseInProgressEvent(0, response("in_progress")),
    ev.ResponseCompletedEvent: ev.ResponseCompletedEvent(0, response()),
    ev.ResponseFailedEvent: ev.ResponseFailedEvent(0, response("failed")),
    ev.ResponseIncompleteEvent: ev.ResponseIncompleteEvent(0, response("incomplete")),
    ev.OutputItemAddedEvent: ev.OutputItemAddedEvent(0, 0, None),
    ev.OutputItemDoneEvent: ev.OutputItemDoneEvent(0, 0, None),
    ev.ContentPartAddedEvent: ev.ContentPartAddedEvent(0, "msg_1", 0, 0, OutputText("")),
    ev.ContentPartDoneEvent: ev.ContentPartDoneEvent(0, "msg_1", 0, 0, OutputText("")),
    ev.OutputTextDeltaEvent: ev.OutputTextDeltaEvent(0, "msg_1", 0, 0, "Hi"),
    ev.OutputTextDoneEvent: ev.OutputTextDoneEvent(0, "msg_1", 0, 0, "Hi"),
    ev.OutputTextAnnotationAddedEvent: ev.OutputTextAnnotationAddedEvent(0, "msg_1", 0, 0, 0, None),
    ev.RefusalDeltaEvent: ev.RefusalDeltaEvent(0, "msg_1", 0, 0, "No"),
    ev.RefusalDoneEvent: ev.RefusalDoneEvent(0, "msg_1", 0, 0, "No"),
    ev.ReasoningDeltaEvent: ev.ReasoningDeltaEvent(0, "rs_1", 0, 0, "Hm"),
    ev.ReasoningDoneEvent: ev.ReasoningDoneEvent(0, "rs_1", 0, 0, "Hm"),
    ev.ReasoningSummaryPartAddedEvent: ev.ReasoningSummaryPartAddedEvent(0, "rs_1", 0, 0, SummaryText("")),
    ev.ReasoningSummaryPartDoneEvent: ev.ReasoningSummaryPartDoneEvent(0, "rs_1", 0, 0, SummaryText("")),
    ev.ReasoningSummaryTextDeltaEvent: ev.ReasoningSummaryTextDeltaEvent(0, "rs_1", 0, 0, "Hm"),
    ev.ReasoningSummaryTextDoneEvent: ev.ReasoningSummaryTextDoneEvent(0, "rs_1", 0, 0, "Hm"),
    ev.FunctionCallArgumentsDeltaEvent: ev.FunctionCallArgumentsDeltaEvent(0, "fc_1", 0, "{"),
    ev.FunctionCallArgumentsDoneEvent: ev.FunctionCallArgumentsDoneEvent(0, "fc_1", 0, "{}"),
    ev.ErrorEvent: ev.ErrorEvent(0, ErrorPayload("server_error", "broken")),
}


def test_all_24_events_are_taken_in_any_order() -> None:
    assert set(_ALL) == set(ev.STANDARD)
    events: list[ev.AnyEvent] = [*_ALL.values(), ev.OtherEvent("acme:event", 1, {})]
    for event in events:
        stream = PartStream()
        lines = stream.feed([event]) + stream.close()
        assert isinstance(lines[-1], VsCodeFinish)
        assert sum(isinstance(line, VsCodeFinish) for line in lines) == 1


WHOLE: list[Item] = [
    Reasoning(id="rs_1", summary=[], content=[ReasoningText("Hm")]),
    Message(
        id="msg_1",
        role="assistant",
        content=[OutputText("Rain.", [UrlCitation("https://a.example", "A", 0, 4)]), Refusal("No more.")],
    ),
    Message(id="msg_2", role="assistant", content="Bye."),
]


@pytest.mark.parametrize(
    "events",
    [
        [ev.ResponseCompletedEvent(9, response(output=WHOLE))],
        [*(ev.OutputItemDoneEvent(n, n, item) for n, item in enumerate(WHOLE))],
        [
            *(ev.OutputItemDoneEvent(n, n, item) for n, item in enumerate(WHOLE)),
            ev.ResponseCompletedEvent(9, response(output=WHOLE)),
        ],
    ],
)
def test_what_comes_only_as_a_whole_is_told_once(events: list[ev.AnyEvent]) -> None:
    lines = [line for line in heard(*events) if not isinstance(line, VsCodeFinish)]
    assert lines == [
        ThinkingPart("Hm", "rs_1"),
        ThinkingPart("", "rs_1"),
        TextPart("Rain."),
        TextPart(" [A](https://a.example)"),
        TextPart("*No more.*"),
        TextPart("Bye."),
    ]


def test_a_whole_that_repeats_the_deltas_adds_nothing_even_under_another_id() -> None:
    whole: list[Item] = [Message(id="msg_other", role="assistant", content=[OutputText("Hello")])]
    lines = heard(
        ev.OutputTextDeltaEvent(1, "msg_1", 0, 0, "Hel"),
        ev.OutputTextDeltaEvent(2, "msg_1", 0, 0, "lo"),
        ev.OutputTextDoneEvent(3, "msg_1", 0, 0, "Hello"),
        ev.OutputItemDoneEvent(4, 0, whole[0]),
        ev.ResponseCompletedEvent(5, response(output=whole)),
    )
    assert texts(lines) == "Hello"


# --- the end ----------------------------------------------------------------------------------------------


def incomplete(reason: str) -> Response:
    return response("incomplete", incomplete_details=IncompleteDetails(reason))


def failed(message: str, code: str = "server_error") -> Response:
    return response("failed", error=ResponseError(code, message))


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (response(), "stop"),
        (response(output=[CALL]), "tool-calls"),
        (incomplete("max_output_tokens"), "length"),
        (incomplete("max_tokens"), "length"),
        (incomplete("content_filter"), "content-filter"),
        (incomplete("max_tool_calls"), "other"),
        (response("incomplete"), "other"),
        (incomplete("cancelled"), "cancelled"),
        (failed("too busy"), "error"),
        (failed("The operation was Aborted"), "cancelled"),
        (failed("gone", "request_cancelled"), "cancelled"),
        (response("cancelled"), "cancelled"),
    ],
)
def test_how_it_ended(ending: Response, reason: str) -> None:
    finish = ended(ending)
    assert finish.reason == reason
    if reason == "error":
        assert finish.error == ResponseError("server_error", "too busy")
    else:
        assert not finish.error  # what was cancelled shows no error


def test_a_call_that_was_told_counts_when_the_last_word_forgets_it() -> None:
    assert ended(response(), ev.OutputItemDoneEvent(1, 0, CALL)).reason == "tool-calls"


def test_a_failure_in_the_stream() -> None:
    error = ErrorPayload("model_error", "the model is overloaded", code="model_overloaded")
    lines = PartStream().feed(composed(TextDelta("Well"), Failure(error)))
    assert texts(lines) == "Well"
    assert isinstance(lines[-1], VsCodeFinish)
    assert (lines[-1].reason, lines[-1].error) == (
        "error",
        ResponseError("model_overloaded", "the model is overloaded"),
    )


def test_the_error_event_speaks_for_a_failure_without_a_reason() -> None:
    error = ErrorPayload("server_error", "broken", code="odd")
    assert ended(response("failed"), ev.ErrorEvent(1, error)).error == ResponseError("odd", "broken")


def test_reasoning_that_says_nothing_is_not_told() -> None:
    assert heard(ev.OutputItemDoneEvent(1, 0, Reasoning(id="rs_1", summary=[]))) == []


def test_a_stream_that_stops_without_an_end() -> None:
    stream = PartStream()
    stream.feed([ev.RefusalDeltaEvent(1, "msg_1", 0, 0, "No")])
    refusal, finish = stream.close()
    assert refusal == TextPart("*No*")
    assert isinstance(finish, VsCodeFinish)
    assert finish.reason == "error"
    assert stream.close() == []
    said = PartStream()
    said.feed([ev.ErrorEvent(1, ErrorPayload("server_error", "broken", code="odd"))])
    [finish] = said.close()
    assert isinstance(finish, VsCodeFinish)
    assert finish.error == ResponseError("odd", "broken")


def test_the_end_has_usage_and_receipts() -> None:
    counted = composed(TextDelta("Hi"), UsageDelta(Usage.of(7, 3, cached=2, reasoning=1)), End())
    assert isinstance(counted[-1], ev.ResponseCompletedEvent)
    counted[-1].response.receipts = [Receipt(param="a", action="dropped", reason="b", provider="c")]
    [*_, last] = VsCodeLines().encode(counted).splitlines()
    assert json.loads(last) == {
        "type": "finish",
        "reason": "stop",
        "responseId": "resp_1",
        "usage": {
            "inputTokens": 7,
            "outputTokens": 3,
            "totalTokens": 10,
            "cachedTokens": 2,
            "reasoningTokens": 1,
        },
        "receipts": [{"param": "a", "action": "dropped", "reason": "b", "provider": "c"}],
    }


def test_a_marker_is_given_when_asked_for() -> None:
    lines = PartStream("session-1", "publisher.name").feed(composed(TextDelta("Hi"), End()))
    assert lines[0] == VsCodeStart("resp_1", "m", "session-1")
    marker = lines[-2]
    assert isinstance(marker, DataPart)
    model, _, note = marker.data.decode().partition("\\")
    assert (marker.mime_type, model) == ("stateful_marker", "m")
    assert json.loads(note) == {
        "extension": "publisher.name",
        "provider": "antiphon",
        "modelId": "m",
        "sdkMode": "responses",
        "sessionId": "session-1",
        "responseId": "resp_1",
    }


# --- lines ------------------------------------------------------------------------------------------------

_words = st.text(max_size=30)
_reasons: st.SearchStrategy[FinishReason] = st.sampled_from(["stop", "length", "content_filter"])
_deltas = st.lists(
    st.one_of(
        st.builds(TextDelta, _words),
        st.builds(ReasoningDelta, _words),
        st.builds(lambda n, text: CallDelta(str(n), name="f", arguments=text), st.integers(0, 3), _words),
    ),
    max_size=12,
)


@given(deltas=_deltas, reason=_reasons)
def test_every_line_is_one_object_and_the_words_are_all_there(
    deltas: list[AnyDelta], reason: FinishReason
) -> None:
    events = composed(*deltas, End(reason))
    encoder = VsCodeLines()
    written = b"".join(encoder.encode([event]) for event in events) + encoder.end()
    lines = [json.loads(line) for line in written.splitlines()]
    assert written.endswith(b"\n")
    assert written.count(b"\n") == len(lines)
    kinds = [line["type"] for line in lines]
    assert (kinds[0], kinds[-1], kinds.count("finish")) == ("start", "finish", 1)
    assert "".join(line["value"] for line in lines if line["type"] == "text") == "".join(
        delta.text for delta in deltas if isinstance(delta, TextDelta)
    )
    assert "".join(line["value"] for line in lines if line["type"] == "thinking") == "".join(
        delta.text for delta in deltas if isinstance(delta, ReasoningDelta)
    )
    ids = [line["callId"] for line in lines if line["type"] == "toolCall"]
    assert len(ids) == len(set(ids))


def test_lines_are_the_same_however_the_events_are_batched() -> None:
    events = composed(ReasoningDelta("Hm"), TextDelta("Hel"), TextDelta("lo"), End())
    whole, single = VsCodeLines(), VsCodeLines()
    assert whole.encode(events) == b"".join(single.encode([event]) for event in events)
    assert whole.encode([]) == b""
    assert whole.keepalive() == b"\n"
    assert whole.content_type == b"application/x-ndjson"
