"""Where documents and servers contradict the specification: what we read, and what we write.

The numbers are those of the catalogue of contradictions. Those not here concern requests, the compliance
suite or the bridges.
"""

import pytest
from msgspec import UNSET

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque, encode, to_builtins
from antiphon.spec.content import OutputText, ReasoningText, SummaryText, UrlCitation
from antiphon.spec.errors import ErrorPayload, ResponseError, server_error
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message, Reasoning
from antiphon.spec.response import Response, Usage
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnnotationDelta,
    CallDelta,
    Failure,
    Finish,
    ItemDelta,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    VendorDelta,
)
from antiphon.stream.dialects import OPEN_RESPONSES, OPENAI, VERTICE, VTCODE, Dialect
from antiphon.stream.reader import Reader
from tests.stream import streams
from tests.stream.reading import Payload, delta, follow, read, statuses, texts, what
from tests.stream.writing import of_type, types, write

CUT = Failure(server_error("It broke."))
CHANGED = Opaque.make(type="vtcode:file_change", id="v1", status="failed", data={"path": "a.py"})


# --- keys, vendor items, reasoning, ids -------------------------------------------------------------------


def test_every_response_that_we_write_has_all_31_keys() -> None:
    lifecycle = [payload for payload in write(TextDelta("Hi"), Finish()) if "response" in payload]
    assert types(lifecycle) == ["response.created", "response.in_progress", "response.completed"]
    assert all(len(payload["response"]) == 31 for payload in lifecycle)


def test_a_response_of_two_keys_is_read() -> None:
    reader = read(
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress", "model": "m"}},
            {"type": "response.in_progress", "response": {"id": "r", "status": "in_progress"}},
            delta("Hi", item_id="msg_1", output_index=0, content_index=0),
            {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
        ]
    )
    message = Message(id="msg_1", role="assistant", status="completed", content=[OutputText("Hi")])
    expected = Response(id="r", model="m", created_at=0, status="completed", output=[message])
    assert reader.response == expected
    assert "a response without all of its keys" in what(reader)


def test_vendor_items_go_out_only_to_those_who_ask() -> None:
    assert write(ItemDelta(CHANGED), Finish())[-1]["response"]["output"] == []
    shown = write(ItemDelta(CHANGED), Finish(), dialect=VTCODE)[-1]["response"]["output"]
    assert shown == [CHANGED.fields]


def test_vendor_items_are_read_byte_for_byte() -> None:
    raw = b'{"type" : "vtcode:file_change","id":"v1", "status":"completed","data":{"n":1.50}}'
    done = b'{"type":"response.output_item.done","sequence_number":0,"output_index":0,"item":%b}' % raw
    reader = Reader()
    reader.feed(done)
    (item,) = reader.response.output
    assert isinstance(item, Opaque)
    assert item.raw == raw


def test_only_vendor_items_fail() -> None:
    written = write(TextDelta("Once"), ItemDelta(CHANGED), TextDelta("upon"), CUT, dialect=VTCODE)
    assert [item["status"] for item in written[-1]["response"]["output"]] == [
        "completed",
        "failed",
        "incomplete",
    ]
    assert written[-1]["response"]["status"] == "failed"


def test_a_core_item_that_failed_is_read_as_incomplete() -> None:
    item = streams.call("fc_0", "{}", status="failed")
    reader = read([{"type": "response.output_item.done", "output_index": 0, "item": item}])
    assert statuses(reader.response) == ["incomplete"]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_text", "reasoning_content"])
def test_raw_reasoning_is_read_under_each_name(name: str) -> None:
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    reader = read(
        [
            {"type": f"response.{name}.delta", **where, "delta": "h"},
            {"type": f"response.{name}.delta", **where, "delta": "m"},
            {"type": f"response.{name}.done", **where, "text": "hm"},
        ]
    )
    assert isinstance(reader.events[-1], ev.ReasoningDoneEvent)
    assert reader.response.output == [
        Reasoning(id="rs_1", summary=[], content=[ReasoningText("hm")], status="in_progress")
    ]


@pytest.mark.parametrize("name", ["reasoning_summary_text", "reasoning_summary"])
def test_summaries_are_read_under_each_name(name: str) -> None:
    where = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    reader = read(
        [
            {"type": f"response.{name}.delta", **where, "delta": "Add"},
            {"type": f"response.{name}.done", **where, "text": "Adds."},
        ]
    )
    assert isinstance(reader.events[-1], ev.ReasoningSummaryTextDoneEvent)
    assert reader.response.output == [
        Reasoning(id="rs_1", summary=[SummaryText("Adds.")], status="in_progress")
    ]


def test_reasoning_may_be_told_as_output_text_or_as_a_string() -> None:
    where = {"item_id": "rs_0", "output_index": 0, "content_index": 0}
    item = {"type": "reasoning", "id": "rs_0", "summary": "Adds.", "content": "2+2"}
    reader, told = follow(
        [
            {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": ""}},
            {"type": "response.content_part.added", **where, "part": {"type": "output_text", "text": ""}},
            delta("2+", **where),
            {"type": "response.output_text.done", **where, "text": "2+2"},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
        ]
    )
    assert reader.response.output == [
        Reasoning(id="rs_0", summary=[SummaryText("Adds.")], content=[ReasoningText("2+2")])
    ]
    assert told == {"rs_0": ["2+2", "Adds."]}


def test_reasoning_may_end_with_the_whole_item() -> None:
    item = {"type": "reasoning", "id": "rs_0", "content": "2+2=4"}
    done = {"type": "response.reasoning.done", "item_id": "rs_0", "output_index": 0, "item": item}
    reader = read([done])
    assert texts(reader) == ["2+2=4"]


def test_we_write_the_official_name_and_the_other_for_openai() -> None:
    for dialect, name in ((OPEN_RESPONSES, "reasoning"), (OPENAI, "reasoning_text")):
        written = write(ReasoningDelta("hm"), SummaryDelta("Thinks."), Finish(), dialect=dialect)
        assert of_type(written, f"response.{name}.delta")[0]["content_index"] == 0
        assert of_type(written, f"response.{name}.done")[0]["text"] == "hm"
        assert of_type(written, "response.reasoning_summary_text.done")[0]["text"] == "Thinks."
        assert written[-1]["response"]["output"][0]["content"] == [{"type": "reasoning_text", "text": "hm"}]


def test_the_response_is_named_in_every_event_only_for_vtcode() -> None:
    assert all("response_id" not in payload for payload in write(TextDelta("Hi"), Finish()))
    assert {p["response_id"] for p in write(TextDelta("Hi"), Finish(), dialect=VTCODE)} == {"resp_1"}


# --- arguments, parts, vendor events, usage, error types --------------------------------------------------


def test_arguments_may_be_an_object_and_the_call_id_may_be_missing() -> None:
    item = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": {"a": 1}}
    reader = read([{"type": "response.output_item.done", "output_index": 0, "item": item}])
    call = FunctionCall(id="fc_1", call_id="fc_1", name="f", arguments='{"a":1}', status="completed")
    assert reader.response.output == [call]
    done = {"type": "response.function_call_arguments.done", "item_id": "x", "arguments": {"b": [1, 2]}}
    assert texts(read([done])) == ['{"b":[1,2]}']


def test_a_part_that_is_announced_with_text_begins_with_it() -> None:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    reader, told = follow(
        [
            {"type": "response.content_part.added", **where, "part": streams.output_text("Hel")},
            delta("lo", **where),
            {"type": "response.content_part.done", **where, "part": streams.output_text("Hello!")},
        ]
    )
    assert texts(reader) == ["Hello!"]
    assert told == {"msg_1": ["Hello!"]}
    assert "a part was announced with text in it" in what(reader)


def test_the_parts_that_we_write_begin_empty_and_their_deltas_join_up() -> None:
    written = write(TextDelta("Hel"), TextDelta("lo"), Finish())
    assert of_type(written, "response.content_part.added")[0]["part"]["text"] == ""
    joined = "".join(payload["delta"] for payload in of_type(written, "response.output_text.delta"))
    assert joined == of_type(written, "response.output_text.done")[0]["text"] == "Hello"


def test_a_wrapped_vendor_event_is_read_as_itself() -> None:
    wrapped = {
        "type": "response.custom_event",
        "response_id": "r",
        "event_type": "vtcode.trace_event",
        "sequence_number": 40,
        "data": {"ms": 3},
    }
    reader = read(streams.text()[:3])
    event = reader.feed(wrapped)
    assert event == ev.OtherEvent("vtcode:trace_event", 40, {"ms": 3})
    read(streams.text()[3:], reader)
    assert reader.oddities == []


def test_a_wrapper_with_something_else_in_it() -> None:
    reader = Reader()
    bare = reader.feed({"type": "response.custom_event", "event_type": "a:b", "data": 7})
    assert bare == ev.OtherEvent("a:b", 0, {"data": 7})
    empty = reader.feed({"type": "response.custom_event"})
    assert empty == ev.OtherEvent("response.custom_event", 0, {})


def test_vendor_events_count_in_the_one_series() -> None:
    for dialect in (VERTICE, VTCODE):
        written = write(TextDelta("a"), VendorDelta("acme:x", {}), TextDelta("b"), Finish(), dialect=dialect)
        assert len(written) == 1 + written[-1]["sequence_number"] - dialect.first_sequence_number
    assert "acme:x" in types(write(VendorDelta("acme:x", {}), Finish(), dialect=VERTICE))


@pytest.mark.parametrize("details", [{}, {"input_tokens_details": None, "output_tokens_details": None}])
def test_usage_without_details_is_filled_with_zeros(details: Payload) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 200, "total_tokens": 1200, **details}
    reader = read([{"type": "response.completed", "response": {"id": "r", "usage": usage}}])
    assert reader.response.usage == Usage.of(1000, 200)
    assert to_builtins(reader.response.usage)["input_tokens_details"] == {"cached_tokens": 0}


def test_counts_beyond_the_specification_are_kept() -> None:
    usage = to_builtins(Usage.of(5, 6))
    usage["input_tokens_details"]["audio_tokens"] = 2
    reader = read([{"type": "response.completed", "response": streams.response("completed", usage=usage)}])
    assert to_builtins(reader.response.usage) == usage


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("invalid_request_error", "invalid_request"),
        ("rate_limit_error", "too_many_requests"),
        ("not_found_error", "not_found"),
    ],
)
def test_error_types_are_read_under_both_names_and_written_by_dialect(theirs: str, ours: str) -> None:
    for name in (theirs, ours):
        event = Reader().feed({"type": "error", "error": {"type": name, "message": "no", "code": None}})
        assert isinstance(event, ev.ErrorEvent)
        assert event.error.type == ours
    assert OPEN_RESPONSES.error(ErrorPayload(ours, "no")).type == ours
    assert OPENAI.error(ErrorPayload(ours, "no")).type == theirs


# --- failures, numbers, names, order ----------------------------------------------------------------------


def test_the_error_may_stand_beside_the_failed_response() -> None:
    reader = read(
        [
            {
                "type": "response.failed",
                "response": {"id": "r", "status": "failed"},
                "error": {"type": "model_error", "code": "generation_failed", "message": "no"},
            }
        ]
    )
    assert reader.response.error == ResponseError("generation_failed", "no")


def test_the_error_of_a_response_may_have_a_type_instead_of_a_code() -> None:
    response = {"id": "r", "status": "failed", "error": {"type": "model_error", "message": "no"}}
    reader = read([{"type": "response.failed", "response": response}])
    assert reader.response.error is not None
    assert (reader.response.error.code, reader.response.error.message) == ("model_error", "no")


def test_an_error_is_followed_by_the_failed_response() -> None:
    written = write(TextDelta("Once"), CUT)
    assert types(written)[-2:] == ["error", "response.failed"]
    assert written[-1]["response"]["error"]["message"] == "It broke."
    assert "error" not in written[-1]


def test_over_a_websocket_one_message_ends_a_failed_turn() -> None:
    written = write(TextDelta("Once"), CUT, error_event=False)
    assert types(written)[-1] == "response.failed"
    assert "error" not in types(written)


def test_vertice_has_the_error_in_both_places() -> None:
    failed = write(CUT, dialect=VERTICE)[-1]
    assert failed["error"] == failed["response"]["error"]


@pytest.mark.parametrize(("dialect", "first"), [(OPEN_RESPONSES, 0), (OPENAI, 0), (VTCODE, 0), (VERTICE, 1)])
def test_numbers_begin_where_the_dialect_says_and_are_read_from_anywhere(
    dialect: Dialect, first: int
) -> None:
    written = write(TextDelta("Hi"), Finish(), dialect=dialect)
    assert [p["sequence_number"] for p in written] == list(range(first, first + len(written)))
    assert read(written).oddities == []


def test_unprefixed_names_other_fields_and_a_named_end_are_read() -> None:
    reader = Reader()
    reader.feed({"sequence": 1, "response": {"id": "r", "model": "m"}}, "created")
    reader.feed({"sequence": 2, "text": "Hel", "itemId": "msg_1", "outputIndex": 0}, "output_text.delta")
    event = reader.feed(
        {"sequence": 3, "text": "lo", "itemId": "msg_1", "outputIndex": 0}, "output_text.delta"
    )
    assert event == ev.OutputTextDeltaEvent(3, "msg_1", 0, 0, "lo")
    reader.feed({"sequence": 4, "response": {"id": "r"}}, "completed")
    assert reader.feed("{}", "done") is None
    assert reader.response.status == "completed"
    assert texts(reader) == ["Hello"]
    assert not [oddity for oddity in what(reader) if "sequence" in oddity]


def test_content_parts_are_announced_before_their_text() -> None:
    written = types(write(TextDelta("Hi"), Finish()))
    assert written.index("response.content_part.added") < written.index("response.output_text.delta")


def test_queued_is_told_only_by_a_response_that_waits() -> None:
    assert "response.queued" not in types(write(TextDelta("Hi"), Finish()))
    composer = Composer(Response.new("r", "m", now=1), clock=lambda: 2.0)
    waiting = composer.start(queued=True)
    assert [event.type for event in waiting] == ["response.created", "response.queued"]
    events = [*waiting, *composer.feed([TextDelta("Hi"), Finish()])]
    assert audit([to_builtins(event) for event in events]) == []
    reader = Reader()
    for event in events:
        reader.feed(event.to_json())
    assert reader.response == composer.response


def test_a_summary_may_be_numbered_by_content_index() -> None:
    where = {"item_id": "rs_1", "output_index": 0}
    reader = Reader()
    for number, text in ((0, "a"), (1, "b")):
        event = reader.feed(
            {"type": "response.reasoning_summary_text.delta", **where, "content_index": number, "delta": text}
        )
        assert isinstance(event, ev.ReasoningSummaryTextDeltaEvent)
        assert event.summary_index == number
    (item,) = reader.response.output
    assert isinstance(item, Reasoning)
    assert item.summary == [SummaryText("a"), SummaryText("b")]


def test_we_number_summaries_by_summary_index_and_items_have_no_item_id() -> None:
    written = write(SummaryDelta("a"), Finish())
    (said,) = of_type(written, "response.reasoning_summary_text.delta")
    assert said["summary_index"] == 0
    assert "content_index" not in said
    items = of_type(written, "response.output_item.added", "response.output_item.done")
    assert all("item_id" not in payload for payload in items)


# --- unknown events, empty texts, filters, tool output ----------------------------------------------------


def test_unknown_events_do_not_end_a_turn_and_empty_strings_are_texts() -> None:
    payloads = streams.empty_text()
    payloads.insert(3, {"type": "response.from_the_future", "sequence_number": 3})
    reader = Reader()
    for number, payload in enumerate(payloads):
        assert reader.feed(payload | {"sequence_number": number}) is not None
    assert reader.response.status == "completed"
    assert texts(reader) == [""]
    assert reader.oddities == []


def test_we_write_no_empty_delta_and_no_empty_arguments() -> None:
    written = write(
        TextDelta(""), ReasoningDelta(""), CallDelta(0, "", "f", "c1"), CallDelta(0, ""), Finish()
    )
    assert all(payload["delta"] for payload in written if "delta" in payload)
    assert of_type(written, "response.function_call_arguments.done")[0]["arguments"] == "{}"


def test_a_content_filter_makes_the_response_incomplete_and_keeps_its_text() -> None:
    final = write(TextDelta("Once"), Finish("content_filter"))[-1]
    assert final["type"] == "response.incomplete"
    assert final["response"]["incomplete_details"] == {"reason": "content_filter"}
    assert final["response"]["output"][0]["content"][0]["text"] == "Once"
    reader = read([final])
    assert reader.finished
    assert reader.response.status == "incomplete"


def test_a_refusal_is_complete() -> None:
    final = write(RefusalDelta("No."), Finish())[-1]
    assert final["response"]["status"] == "completed"
    assert final["response"]["output"][0]["content"] == [{"type": "refusal", "refusal": "No."}]


def test_the_output_of_a_tool_is_read_from_deltas_and_written_without() -> None:
    item = {"type": "function_call_output", "id": "o", "call_id": "c", "output": "", "status": "in_progress"}
    reader = read(
        [
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            delta("rain", item_id="o", output_index=0, content_index=0),
            {"type": "response.output_item.done", "output_index": 0, "item": item | {"status": "completed"}},
        ]
    )
    output = FunctionCallOutput(id="o", call_id="c", output="rain", status="completed")
    assert reader.response.output == [output]
    written = write(ItemDelta(output), Finish())
    assert types(written)[2:-1] == ["response.output_item.added", "response.output_item.done"]


def test_fields_are_read_in_camel_case() -> None:
    item = {"type": "function_call", "id": "fc_1", "callId": "c1", "name": "f", "arguments": ""}
    reader = read(
        [
            {"type": "response.output_item.added", "sequenceNumber": 0, "outputIndex": 0, "item": item},
            {
                "type": "response.function_call_arguments.delta",
                "sequenceNumber": 1,
                "itemId": "fc_1",
                "outputIndex": 0,
                "delta": "{}",
            },
            {"type": "response.completed", "sequenceNumber": 2, "response": {"id": "r", "createdAt": 5}},
        ]
    )
    call = FunctionCall(id="fc_1", call_id="c1", name="f", arguments="{}", status="completed")
    assert reader.response.output == [call]
    assert reader.response.created_at == 5
    assert not [oddity for oddity in what(reader) if "sequence" in oddity]


def test_a_client_of_our_own_stream_has_nothing_to_repair() -> None:
    reader = Reader()
    for payload in write(ReasoningDelta("hm"), TextDelta("Hi"), CallDelta(0, "{}", "f", "c"), Finish()):
        event = reader.feed(encode(payload))
        assert reader.events == [event]
        assert getattr(event, "obfuscation", UNSET) is UNSET
    assert reader.oddities == []


# --- defects of other servers that ours does not have -----------------------------------------------------


def test_an_event_needs_no_type_to_be_made() -> None:
    assert to_builtins(ev.OutputTextDeltaEvent(0, "msg_1", 0, 0, "a"))["type"] == "response.output_text.delta"


def test_equal_items_have_indexes_of_their_own() -> None:
    written = write(*(CallDelta(n, "{}", "f") for n in (0, 1)), Finish())
    added = of_type(written, "response.output_item.added")
    assert [payload["output_index"] for payload in added] == [0, 1]
    assert len({item["id"] for item in written[-1]["response"]["output"]}) == 2


def test_every_part_that_is_announced_is_closed() -> None:
    note = AnnotationDelta(UrlCitation("https://example.org", "Bees", 0, 0))
    written = types(write(note, Finish()))
    assert written.count("response.content_part.added") == written.count("response.content_part.done") == 1


def test_a_call_has_its_announcement_and_its_arguments() -> None:
    assert types(write(CallDelta(0, "{}", "f", "c"), Finish()))[2:-1] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]


def test_a_failure_closes_what_is_open() -> None:
    written = write(TextDelta("Once"), CUT)
    assert types(written).count("response.output_item.done") == 1
    assert written[-1]["response"]["output"][0]["status"] == "incomplete"


def test_no_event_is_given_twice() -> None:
    composer = Composer(Response.new("r", "m", now=1), clock=lambda: 2.0)
    batches = [composer.feed([said]) for said in (TextDelta("a"), TextDelta("b"), Finish())]
    numbers = [event.sequence_number for batch in batches for event in batch]
    assert numbers == list(range(len(numbers)))
