"""From the bytes of a `/responses` answer to deltas: dialects, oddities, and every way to end."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.base import UpstreamError
from antiphon.providers.errors import AddressNotFound
from antiphon.providers.responses.stream import ResponsesStream
from antiphon.stream.deltas import (
    AnyDelta,
    Failure,
    Finish,
    FinishReason,
    TextDelta,
    UsageDelta,
    VendorDelta,
)
from antiphon.wires.tools.names import DeclaredTool, ToolNames, UpstreamFunction
from tests.providers.compose import plain, told
from tests.providers.conformance.said import Called, Script, Text
from tests.providers.responses import wire
from tests.providers.responses.reading import (
    EVERYTHING,
    Json,
    added,
    answer,
    completed,
    compose,
    delta,
    done,
    lines,
    message,
    read,
    stream,
    whole,
)

# An answer with everything that can be cut, and little else.
SMALL = lines(
    added(message("") | {"content": []}),
    delta("Grüße "),
    delta("🎼"),
    done(message("Grüße 🎼")),
    {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
)


# --- bytes ------------------------------------------------------------------------------------------------


def test_the_same_however_the_bytes_are_cut() -> None:
    body = stream(EVERYTHING)
    whole = compose([read(body)])
    assert told(whole)[2:] == [
        "Grüße, 世界 🎼",
        "Not that.",
        ("f", '{"a": "ü"}', "call_1"),
        ("g", "{}", "call_2"),
    ]
    expected = _joined(read(body))
    for size in (1, 2, 3, 7, 64, 1000):
        assert _joined(read(body, size=size)) == expected


def test_the_same_for_a_cut_at_every_offset() -> None:
    body = SMALL
    expected = read(body)
    for n in range(1, len(body)):
        parser = ResponsesStream()
        assert parser.feed(body[:n]) + parser.feed(body[n:]) == expected


def _joined(deltas: list[AnyDelta]) -> list[Any]:
    return [delta for delta in deltas if not isinstance(delta, TextDelta) or delta.text]


@pytest.mark.parametrize(
    "form",
    [
        lambda body: body.replace(b"\n", b"\r\n"),
        lambda body: b"\xef\xbb\xbf" + body,
        lambda body: b": hello\n\n" + body,
        lambda body: body.replace(b"event: ", b"event:").replace(b"data: ", b"data:"),
        lambda body: b"\n".join(line for line in body.split(b"\n") if not line.startswith(b"event:")),
        lambda body: b"id: 7\nretry: 10\n" + body,
        lambda body: body.removesuffix(b"\n\n"),
    ],
    ids=["crlf", "bom", "comment", "no spaces", "no event lines", "other fields", "no last line"],
)
def test_forms_of_server_sent_events(form: Any) -> None:
    body = stream(EVERYTHING)
    assert told(compose([read(form(body))])) == told(compose([read(body)]))


def test_raw_json_lines() -> None:
    events = wire.events(Script((Text("Hello."),)), {})
    body = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    assert told(compose([read(body)])) == ["Hello."]


def test_the_type_may_stand_in_the_event_line_only() -> None:
    body = b""
    for event in wire.events(Script((Text("Hello."),)), {}):
        kind = event.pop("type")
        body += f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()
    assert told(compose([read(body)])) == ["Hello."]


def test_data_on_several_lines() -> None:
    body = b""
    for event in wire.events(Script((Text("Hello."),)), {}):
        data = "".join(f"data: {line}\n" for line in json.dumps(event, indent=1).split("\n"))
        body += f"{data}\n".encode()
    assert told(compose([read(body)])) == ["Hello."]


@pytest.mark.parametrize("body", [b"data: " + b"x" * 200, b"data: 12345678\n" * 20 + b"\n"])
def test_an_event_that_never_ends_is_the_servers_fault(body: bytes) -> None:
    deltas = read(body, size=50, max_line=100)
    assert isinstance(deltas[-1], Failure)
    assert deltas[-1].error.code == "upstream_invalid"


def test_half_a_character_waits_for_its_other_half() -> None:
    item = message("")
    head = wire.sse(added(item | {"content": []}))
    body = b""
    for half in ("\\ud83c", "\\udfbc"):
        event = json.dumps(delta("HALF")).replace("HALF", half)
        body += f"data: {event}\n\n".encode()
    tail = lines(done(message("🎼")), completed(message("🎼")))
    assert told(compose([read(head + body + tail)])) == ["🎼"]


# --- dialects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning", "reasoning_text", "reasoning_content"])
def test_raw_reasoning_under_each_of_its_names(name: str) -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    response = answer(
        added(item),
        {"type": f"response.{name}.delta", **where, "delta": "Hm "},
        {"type": f"response.{name}.delta", **where, "delta": "so."},
        done(item | {"content": [{"type": "reasoning_text", "text": "Hm so."}]}),
        completed(item),
    )
    assert told(response) == ["reasoning: Hm so."]


def test_parts_of_reasoning_that_only_vllm_knows_are_not_told_twice() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "status": "in_progress"}
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    part = {"type": "reasoning_text", "text": ""}
    final = item | {"status": "completed", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    deltas = read(
        lines(
            added(item),
            {"type": "response.reasoning_part.added", **where, "part": part},
            {"type": "response.reasoning_text.delta", **where, "delta": "Hm."},
            {"type": "response.reasoning_text.done", **where, "text": "Hm."},
            {"type": "response.reasoning_part.done", **where, "part": part | {"text": "Hm."}},
            done(final),
            completed(final),
        )
    )
    assert not [delta for delta in deltas if isinstance(delta, VendorDelta)]
    assert told(compose([deltas])) == ["reasoning: Hm."]


def test_llama_cpp_closes_its_items_at_the_end() -> None:
    """Reasoning and text are streamed at once, although neither has been closed before the other begins."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    item = message("") | {"status": "in_progress", "content": []}
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    final = thought | {"content": [{"type": "reasoning_text", "text": "Hm."}]}
    parser = ResponsesStream()
    first = parser.feed(
        b"".join(
            map(
                wire.sse,
                [
                    added(thought),
                    {"type": "response.reasoning_text.delta", **where, "delta": "Hm."},
                    added(item, 1),
                    delta("Hi", 1),
                ],
            )
        )
    )
    assert TextDelta("Hi") in first
    rest = parser.feed(lines(delta(" there", 1), done(final), done(message("Hi there"), 1), completed()))
    assert told(compose([first, rest])) == ["reasoning: Hm.", "Hi there"]


def test_words_that_come_after_their_item_was_left_are_not_lost() -> None:
    other = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""}
    response = answer(
        added(message("") | {"content": []}),
        delta("One. "),
        added(other, 1),
        delta("Two."),
        done(message("One. Two.")),
        done(other | {"arguments": "{}"}, 1),
        completed(message("One. Two."), other | {"arguments": "{}"}),
    )
    assert told(response) == ["One. ", ("f", "{}", "c"), "Two."]


def test_unprefixed_names_and_camel_case() -> None:
    body = (
        b'event: output_text.delta\ndata: {"itemId":"m","outputIndex":0,"contentIndex":0,"delta":"Hi"}\n\n'
        b'event: completed\ndata: {"response":{"id":"r","status":"completed"}}\n\n'
    )
    assert told(compose([read(body)])) == ["Hi"]


def test_a_call_whose_name_comes_late() -> None:
    where = {"item_id": "fc_1", "output_index": 0}
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": ""}
    response = answer(
        {"type": "response.function_call_arguments.delta", **where, "delta": '{"a":'},
        added(item),
        {"type": "response.function_call_arguments.delta", **where, "delta": "1}"},
        completed(item | {"arguments": '{"a":1}'}),
    )
    assert told(response) == [("f", '{"a":1}', "call_1")]


def test_names_that_were_flattened_lead_back() -> None:
    names = ToolNames(
        [
            UpstreamFunction("ns__g", None, {}, None, DeclaredTool("g", "ns")),
            UpstreamFunction("sql", None, {}, None, DeclaredTool("sql", kind="custom")),
        ]
    )
    script = Script((Called("ns__g", '{"a":1}', "c1"), Called("sql", '{"input": "SELECT 1"}', "c2")))
    for deltas in (read(stream(script), names=names), whole(wire.whole(script, {}), names=names)):
        [call, custom] = plain(compose([deltas]))["output"]
        assert (call["name"], call["namespace"], call["arguments"]) == ("g", "ns", '{"a":1}')
        assert (custom["type"], custom["name"], custom["input"]) == ("custom_tool_call", "sql", "SELECT 1")


# --- ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
        ("max_tool_calls", "max_tool_calls"),
        ("cancelled", "cancelled"),
        ("moon_phase", "length"),
    ],
)
def test_incomplete(reason: str, finish: FinishReason) -> None:
    notes: list[str] = []
    final = wire.response({}, "incomplete", incomplete_details={"reason": reason}, output=[])
    deltas = read(
        lines({"type": "response.incomplete", "response": final}), note=lambda param, why: notes.append(why)
    )
    assert deltas == [Finish(finish)]
    assert bool(notes) == (reason == "moon_phase")


def test_cancelled() -> None:
    final = wire.response({}, "cancelled")
    assert read(lines({"type": "response.cancelled", "response": final})) == [Finish("cancelled")]


def test_an_incomplete_message_stays_incomplete() -> None:
    final = message("Once", "incomplete")
    ended = wire.response(
        {}, "incomplete", incomplete_details={"reason": "max_output_tokens"}, output=[final]
    )
    response = answer(done(final), {"type": "response.incomplete", "response": ended})
    assert told(response) == ["!Once"]


def test_usage_comes_before_the_end() -> None:
    counted = {"input_tokens": 3, "output_tokens": 4, "cost": 0.5}
    deltas = read(lines(completed(usage=counted)))
    assert isinstance(deltas[0], UsageDelta)
    assert (deltas[0].usage.input_tokens, deltas[0].usage.total_tokens) == (3, 7)
    assert deltas[1] == Finish("stop")


FAULTS: list[tuple[Json, str, str]] = [
    (
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow"},
        "too_many_requests",
        "rate_limit_exceeded",
    ),
    (
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "m"},
        },
        "invalid_request",
        "context_length_exceeded",
    ),
    ({"type": "error", "error": "the server is overloaded"}, "server_error", "model_overloaded"),
    ({"type": "response.error", "error": {"message": "boom"}}, "model_error", "upstream_error"),
]


@pytest.mark.parametrize(("event", "kind", "code"), FAULTS)
@pytest.mark.parametrize("followed", [True, False])
def test_an_error_in_the_stream(event: Json, kind: str, code: str, followed: bool) -> None:
    failed = {"type": "response.failed", "response": wire.response({}, "failed", error=wire.CRASH)}
    deltas = read(lines(event, *([failed] if followed else [])))
    [failure] = deltas
    assert isinstance(failure, Failure)
    assert (failure.error.type, failure.error.code) == (kind, code)


def test_a_failed_response_keeps_its_words_and_its_count() -> None:
    failed = wire.response({}, "failed", error=wire.CRASH, usage={"input_tokens": 1, "output_tokens": 2})
    response = answer(
        added(message("") | {"content": []}), delta("Once"), {"type": "response.failed", "response": failed}
    )
    assert told(response) == ["!Once"]
    assert response.error is not None
    assert response.error.message == "responses: The model crashed."
    assert response.usage is not None


def test_an_end_mark_without_a_terminal_event() -> None:
    """Where every item has ended it is the end; where one is open it is a cut."""
    assert read(lines(done(message("Hi."))))[-1] == Finish("stop")
    [*_, failure] = read(lines(added(message("") | {"content": []}), delta("Hi")))
    assert isinstance(failure, Failure)
    assert failure.error.code == "upstream_closed"


def test_nothing_follows_the_end() -> None:
    body = lines(completed(message("Hi."))) + lines(done(message("More.")))
    assert told(compose([read(body)])) == ["Hi."]


def test_nonsense_is_the_servers_fault() -> None:
    [failure] = read(b"data: {not json}\n\n")
    assert isinstance(failure, Failure)
    assert failure.error.code == "upstream_invalid"


def test_a_cut_at_any_byte_is_a_failure_or_the_whole() -> None:
    body = SMALL.removesuffix(wire.DONE)
    for n in range(len(body)):
        parser = ResponsesStream()
        deltas = parser.feed(body[:n])
        if not parser.over:
            deltas += parser.end()
            last = deltas[-1]
            if isinstance(last, Failure):
                assert last.error.code == "upstream_closed"
            else:
                assert n >= len(body) - 2  # only the empty line was missing
        compose([deltas])


@given(st.lists(st.sampled_from(list(wire.events(EVERYTHING, {}))), max_size=12), st.integers(1, 50))
def test_events_in_any_order_never_break_a_rule(events: list[Json], size: int) -> None:
    compose([read(lines(*events), size=size)])


@given(st.binary(max_size=200))
def test_any_bytes_have_an_end(body: bytes) -> None:
    compose([read(body)])


# --- whole answers ----------------------------------------------------------------------------------------


def test_a_whole_answer_says_the_same_as_its_stream() -> None:
    streamed, plainly = compose([read(stream(EVERYTHING))]), compose([whole(wire.whole(EVERYTHING, {}))])
    assert plain(plainly)["output"] == plain(streamed)["output"]
    assert plainly.usage == streamed.usage


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "upstream_invalid"),
        (b"[]", "upstream_invalid"),
        (b"{}", "upstream_invalid"),
        (b'{"error":{"message":"rate limit reached","code":"rate_limit_exceeded"}}', "rate_limit_exceeded"),
        (json.dumps(wire.response({}, "queued")).encode(), "upstream_invalid"),
    ],
)
def test_a_whole_answer_that_is_none(body: bytes, code: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        ResponsesStream().whole(body)
    assert caught.value.payload.code == code


def test_lm_studio_says_with_success_that_there_is_nothing() -> None:
    with pytest.raises(AddressNotFound):
        ResponsesStream().whole(b'{"error":"Unexpected endpoint or method. (POST /v1/responses)"}')


def test_a_whole_answer_that_failed() -> None:
    [*_, failure] = whole(wire.response({}, "failed", error=wire.CRASH))
    assert isinstance(failure, Failure)
