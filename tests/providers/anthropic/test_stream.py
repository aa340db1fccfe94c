"""The bytes of the Messages API through the stream reader and the Composer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.anthropic.stream import AnthropicStream
from antiphon.providers.base import UpstreamError
from antiphon.providers.tools import flatten
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ItemEnd,
    ReasoningDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
)
from tests.providers.anthropic import wire
from tests.providers.anthropic.reading import blobs, read, response, whole
from tests.providers.compose import compose, make_turn, plain, told

SEARCHED = {
    "type": "web_search_result_location",
    "url": "https://a.example/",
    "title": "A",
    "cited_text": "a",
    "encrypted_index": "e",
}


# --- words ------------------------------------------------------------------------------------------------


def test_text_and_usage() -> None:
    assert read(wire.start(), wire.text(0, "Hel", "", "lo"), wire.finish()) == [
        TextDelta("Hel"),
        TextDelta("lo"),
        _usage(read(wire.start(), wire.finish())),
        Finish("stop", {"usage": {"service_tier": "standard"}}),
    ]
    usage = response(wire.start(), wire.text(0, "Hi"), wire.finish()).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (19, 10, 29)
    assert usage.input_tokens_details.cached_tokens == 3


def _usage(deltas: list[AnyDelta]) -> UsageDelta:
    return next(delta for delta in deltas if isinstance(delta, UsageDelta))


def test_counts_add_up() -> None:
    """Input is what was read, what was read from the cache, and what was written into it."""
    counts = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "output_tokens": 1,
    }
    last = {
        "input_tokens": None,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 20},
    }
    usage = _usage(read(wire.start(usage=counts), wire.finish(usage=last))).usage
    assert (usage.input_tokens, usage.output_tokens) == (1105, 50)
    assert usage.input_tokens_details.cached_tokens == 1000
    assert usage.input_tokens_details.cache_write_tokens == 100
    assert usage.output_tokens_details.reasoning_tokens == 20


def test_each_block_of_text_is_a_part() -> None:
    made = response(wire.start(), wire.text(0, "One."), wire.text(1, "Two."), wire.finish())
    [message] = plain(made)["output"]
    assert [part["text"] for part in message["content"]] == ["One.", "Two."]
    same = whole({"type": "text", "text": "One."}, {"type": "text", "text": "Two."})
    assert plain(same)["output"][0]["content"] == message["content"]


def test_text_around_a_call() -> None:
    made = response(
        wire.start(), wire.text(0, "A"), wire.tool_use(1, "f"), wire.text(2, "B"), wire.finish("tool_use")
    )
    assert told(made) == ["A", ("f", "{}", "toolu_1"), "B"]


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_citation_is_about_its_whole_block(order: str) -> None:
    cited = wire.delta(1, "citations_delta", citation=SEARCHED)
    words = wire.delta(1, "text_delta", text="It says a.")
    made = response(
        wire.start(),
        wire.text(0, "Well: "),
        wire.begin(1, {"type": "text", "text": "", "citations": []}),
        *((cited, words) if order == "before" else (words, cited)),
        wire.end(1),
        wire.finish(),
    )
    parts = plain(made)["output"][0]["content"]
    expected = {
        "type": "url_citation",
        "url": "https://a.example/",
        "title": "A",
        "start_index": 0,
        "end_index": 10,
        "anthropic:block": SEARCHED,
    }
    assert [part["annotations"] for part in parts] == [[], [expected]]
    same = whole({"type": "text", "text": "It says a.", "citations": [SEARCHED]})
    assert plain(same)["output"][0]["content"][0]["annotations"] == [expected]


def test_a_citation_of_a_document_keeps_all_that_it_says() -> None:
    citation = {
        "type": "page_location",
        "cited_text": "a",
        "document_index": 0,
        "document_title": "Report",
        "start_page_number": 1,
        "end_page_number": 2,
        "file_id": None,
    }
    body = wire.message([{"type": "text", "text": "So.", "citations": [citation, None]}], "end_turn")
    made = compose([AnthropicStream().whole(json.dumps(body).encode())])
    [annotation] = plain(made)["output"][0]["content"][0]["annotations"]
    expected = citation | {"type": "anthropic:page_location", "start_index": 0, "end_index": 3}
    assert annotation == expected


# --- thinking ---------------------------------------------------------------------------------------------


def test_thinking_keeps_its_whole_block_as_the_proof() -> None:
    made = response(
        wire.start(),
        wire.thinking(0, "Grüße 🎼", "c2ln"),
        wire.begin(1, {"type": "redacted_thinking", "data": "x=="}),
        wire.end(1),
        wire.thinking(2, "", "empty"),
        wire.text(3, "Yes."),
        wire.finish(),
    )
    assert blobs(made) == [
        {"type": "thinking", "thinking": "Grüße 🎼", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "x=="},
        {"type": "thinking", "thinking": "", "signature": "empty"},
    ]
    items = plain(made)["output"]
    assert [item["type"] for item in items] == ["reasoning"] * 3 + ["message"]
    assert items[0]["content"] == [{"type": "reasoning_text", "text": "Grüße 🎼"}]


def test_a_signature_may_come_in_pieces() -> None:
    begun = wire.begin(0, {"type": "thinking", "thinking": "", "signature": ""})
    signed = [wire.delta(0, "signature_delta", signature=piece) for piece in ("ab", "cd")]
    made = response(wire.start(), begun, *signed, wire.end(0), wire.finish())
    assert blobs(made)[0]["signature"] == "abcd"


def test_a_summary_is_told_as_one() -> None:
    pieces = (wire.start(), wire.thinking(0, "Hm.", "s"), wire.text(1, "Yes."), wire.finish())
    assert SummaryDelta("Hm.") in read(*pieces, summarises=True)
    assert ReasoningDelta("Hm.") in read(*pieces)
    item = plain(response(*pieces, summarises=True))["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Hm."}]


def test_thinking_without_a_signature() -> None:
    """A model that signs was cut off; an imitation never signs, and wants its thinking back all the same."""
    pieces = (wire.start(), wire.thinking(0, "Hm."), wire.finish("max_tokens"))
    cut = response(*pieces, summarises=True)
    assert "encrypted_content" not in plain(cut)["output"][0]
    assert plain(cut)["output"][0]["status"] == "incomplete"
    assert blobs(response(*pieces)) == [{"type": "thinking", "thinking": "Hm.", "signature": ""}]


def test_nothing_thought_leaves_nothing() -> None:
    assert told(response(wire.start(), wire.thinking(0, ""), wire.text(1, "Yes."), wire.finish())) == ["Yes."]


def test_thinking_that_the_provider_dropped_is_noted() -> None:
    notes: list[tuple[str, str]] = []

    def note(param: str, reason: str) -> None:
        notes.append((param, reason))

    dropped = {
        "type": "thinking_dropped",
        "path": "messages.1.content.0",
        "reason": "prefix_binding_mismatch",
    }
    other = {"type": "thinking_mismatch_allowed", "path": "messages.1.content.0", "reason": "x"}
    read(wire.start(input_transformations=[dropped, other]), wire.finish(), note=note)
    assert notes == [("input.reasoning", "the provider left earlier thinking out: prefix_binding_mismatch")]
    whole(note=note, fields={"input_transformations": [dropped]})
    assert len(notes) == 2


# --- calls ------------------------------------------------------------------------------------------------


def test_calls() -> None:
    made = response(
        wire.start(),
        wire.tool_use(0, "f", '{"a":', " 1}", id="toolu_a"),
        wire.tool_use(1, "g", id="toolu_b"),
        wire.finish("tool_use"),
    )
    assert told(made) == [("f", '{"a": 1}', "toolu_a"), ("g", "{}", "toolu_b")]
    assert made.status == "completed"


def test_a_call_that_the_budget_cut_is_incomplete() -> None:
    made = response(wire.start(), wire.tool_use(0, "f", '{"a": "b'), wire.finish("max_tokens"))
    assert told(made) == [("!f", '{"a": "b', "toolu_1")]
    assert made.status == "incomplete"


def test_a_whole_call_keeps_its_arguments_as_they_came() -> None:
    body = json.dumps(wire.message([], "tool_use")).replace(
        '"content": []',
        '"content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1.0,  "a": 2}}]',
    )
    made = compose([AnthropicStream().whole(body.encode())])
    assert told(made) == [("f", '{"b": 1.0,  "a": 2}', "a")]


def test_input_that_is_told_at_the_beginning() -> None:
    """Some servers of this wire do not stream it."""
    block = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
    made = response(wire.start(), wire.begin(0, block), wire.end(0), wire.finish("tool_use"))
    assert told(made) == [("f", '{"x": 1}', "a")]


def test_a_custom_tool_is_unwrapped_while_it_comes() -> None:
    tools = [{"type": "custom", "name": "sql"}]
    names = flatten(make_turn({"input": "Hi", "tools": tools}), "up")
    deltas = read(
        wire.start(),
        wire.tool_use(0, "sql", '{"inp', 'ut": "SEL', 'ECT 1"}'),
        wire.finish("tool_use"),
        names=names,
    )
    assert deltas[:4] == [
        CallDelta(0, name="sql", call_id="toolu_1", kind="custom"),
        CallDelta(0, "SEL", kind="custom"),
        CallDelta(0, "ECT 1", kind="custom"),
        ItemEnd(0, "completed"),
    ]


# --- tools that the provider runs -------------------------------------------------------------------------


def test_blocks_that_only_anthropic_knows_are_kept() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "x", "é": None}]}
    deltas = read(
        wire.start(),
        wire.tool_use(0, "web_search", '{"query": ', '"a"}', id="s1", type="server_tool_use"),
        wire.begin(1, result),
        wire.end(1),
        wire.begin(2, {"type": "something-new", "x": 1}),
        wire.end(2),
        wire.text(3, "Yes."),
        wire.finish(),
    )
    made = compose([deltas])
    use, found, message = plain(made)["output"]
    assert (use["type"], use["status"]) == ("anthropic:server_tool_use", "completed")
    assert use["data"] == {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "a"},
    }
    assert (found["type"], found["data"]) == ("anthropic:web_search_tool_result", result)
    assert message["content"][0]["text"] == "Yes."
    body = wire.message([use["data"], result, {"type": "text", "text": "Yes."}], "end_turn")
    same = compose([AnthropicStream().whole(json.dumps(body).encode())])
    assert [item.get("data") for item in plain(same)["output"]] == [use["data"], result, None]


# --- ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("end_turn", "completed", None),
        ("stop_sequence", "completed", None),
        ("tool_use", "completed", None),
        ("max_tokens", "incomplete", "max_output_tokens"),
        ("model_context_window_exceeded", "incomplete", "max_output_tokens"),
        ("refusal", "incomplete", "content_filter"),
        ("pause_turn", "incomplete", "max_tool_calls"),
        ("compaction", "incomplete", "compaction"),
        ("something_new", "completed", None),
        (None, "completed", None),
    ],
)
def test_reasons_to_stop(reason: str | None, status: str, why: str | None) -> None:
    streamed = response(wire.start(), wire.text(0, "Once"), wire.finish(reason))
    at_once = whole({"type": "text", "text": "Once"}, reason=reason)
    for made in (streamed, at_once):
        assert made.status == status
        assert (made.incomplete_details and made.incomplete_details.reason) == why
        assert told(made)[0].lstrip("!") == "Once"


def test_a_refusal_is_explained() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "This could do harm."}
    made = response(wire.start(), wire.text(0, "Well"), wire.finish("refusal", stop_details=details))
    [message] = plain(made)["output"]
    assert message["content"][1] == {"type": "refusal", "refusal": "This could do harm."}
    assert (made.status, message["status"]) == ("incomplete", "incomplete")


def test_no_end_mark_but_a_reason() -> None:
    assert response(wire.start(), wire.text(0, "Yes"), wire.finish(stop=False)).status == "completed"


def test_a_cut() -> None:
    made = response(wire.start(), wire.text(0, "Once"))
    assert made.error is not None
    assert (made.error.code, told(made)) == ("upstream_closed", ["!Once"])
    half = wire.start() + wire.text(0, "Once") + b'event: content_block_delta\ndata: {"type": "con'
    assert response(half).error == made.error


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded_error", "model_overloaded"),
        ("rate_limit_error", "rate_limit_exceeded"),
        ("api_error", "upstream_error"),
        ("billing_error", "insufficient_quota"),
        ("authentication_error", "upstream_auth"),
    ],
)
def test_an_error_in_the_stream(kind: str, code: str) -> None:
    made = response(wire.start(), wire.text(0, "Once"), wire.broken(kind, "Oh no"), wire.finish())
    assert made.status == "failed"
    assert made.error is not None
    assert made.error.code == code
    assert told(made) == ["!Once"]


def test_an_error_with_status_200() -> None:
    with pytest.raises(UpstreamError) as caught:
        AnthropicStream().whole(wire.error("overloaded_error", "Overloaded"))
    assert caught.value.payload.code == "model_overloaded"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"<html>", b'{"content": 1}', b'{"content": [1]}', b"\xff"]
)
def test_an_answer_that_is_no_message(body: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        AnthropicStream().whole(body)
    assert caught.value.payload.code == "upstream_invalid"


@pytest.mark.parametrize(
    "line",
    [
        b"data: {\n\n",
        b"data: [1]\n\n",
        b'data: {"type": "content_block_delta", "index": "a"}\n\n',
        b'data: {"type": "content_block_start", "index": 0, "content_block": 7}\n\n',
        b"data: \xff\n\n",
    ],
)
def test_nonsense_fails(line: bytes) -> None:
    made = response(wire.start(), wire.text(0, "Once"), line, wire.finish())
    assert made.error is not None
    assert made.error.code == "upstream_invalid"


@pytest.mark.parametrize(
    "odd",
    [
        wire.PING,
        b": a comment\n\n",
        b"event: something_new\nid: 7\nretry: 10\n\n",
        wire.event("something_new", x={"y": 1}),
        wire.delta(0, "something_new", x=1),
        wire.delta(99, "text_delta", text="of no block"),
        wire.end(99),
        wire.event("content_block_delta", index=0),
        wire.event("message_delta"),
        wire.event("message_start"),
        b"\n\n\r\n",
    ],
)
def test_what_is_unknown_is_passed_over(odd: bytes) -> None:
    words = wire.begin(0, {"type": "text", "text": ""}) + wire.delta(0, "text_delta", text="Yes")
    made = response(wire.start(), words, odd, wire.end(0), wire.finish())
    assert (told(made), made.status) == (["Yes"], "completed")


def test_nothing_is_said_after_the_end() -> None:
    deltas = read(wire.start(), wire.finish(), wire.text(0, "More"), wire.finish())
    assert [delta for delta in deltas if isinstance(delta, Finish)] == [
        Finish("stop", {"usage": {"service_tier": "standard"}})
    ]
    assert not any(isinstance(delta, TextDelta) for delta in deltas)


def test_a_line_without_end() -> None:
    deltas = read(wire.start(), b"data: " + b"x" * 3000, max_line=2000)
    assert isinstance(deltas[-1], Failure)
    assert deltas[-1].error.code == "upstream_invalid"


ANSWER = b"".join(
    [
        wire.start(),
        wire.thinking(0, "Grüße", "c2ln"),
        wire.text(1, "世界 🎼", "é"),
        wire.tool_use(2, "f", '{"ü": ', "1}"),
        wire.finish("tool_use"),
    ]
)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_the_same_however_the_bytes_are_cut(ending: bytes) -> None:
    answer = ANSWER.replace(b"\n", ending)
    expected = read(ANSWER)
    assert SignatureDelta('{"type":"thinking","thinking":"Grüße","signature":"c2ln"}') in expected
    for at in range(1, len(answer)):
        stream = AnthropicStream()
        deltas = stream.feed(answer[:at]) + stream.feed(answer[at:])
        assert (deltas, stream.over) == (expected, True), at
    assert read(answer, size=1) == expected


@given(st.binary(max_size=200), st.integers(0, len(ANSWER)))
def test_no_bytes_do_harm(noise: bytes, at: int) -> None:
    """Whatever comes in the middle, the answer ends, once, and the Auditor has nothing to say."""
    assert compose([read(ANSWER[:at], noise, ANSWER[at:])]).status in ("completed", "failed")
