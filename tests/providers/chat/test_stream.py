"""The stream of a chat server, case by case and under every cut of its bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.base import UpstreamError
from antiphon.providers.chat.stream import ChatStream
from antiphon.stream.deltas import Failure, Finish, TextDelta, UsageDelta
from antiphon.wires.reasoning.think_tags import ThinkTags
from tests.providers.chat import wire
from tests.providers.chat.reading import read, response
from tests.providers.compose import compose, plain, told

PARALLEL = (
    wire.call(0, "get_weather", "", "call_a")
    + wire.call(0, arguments='{"city":')
    + wire.call(0, arguments='"Paris"}')
    + wire.call(1, "get_weather", "", "call_b")
    + wire.call(1, arguments='{"city":"Tokyo"}')
    + wire.finish("tool_calls")
)
PARIS_AND_TOKYO = [
    ("get_weather", '{"city":"Paris"}', "call_a"),
    ("get_weather", '{"city":"Tokyo"}', "call_b"),
]
LONG_ARGUMENTS = json.dumps({"text": "é" * 200_000}, ensure_ascii=False)

# What goes in, what comes out, and the status of the response.
CASES: dict[str, tuple[bytes, list[Any], str]] = {
    "text": (wire.text("Hello", ", ", "world") + wire.finish(), ["Hello, world"], "completed"),
    "empty text": (wire.chunk({"role": "assistant", "content": ""}) + wire.finish(), [], "completed"),
    "unicode": (wire.text("π≈3", "🎼", "日本") + wire.finish(), ["π≈3🎼日本"], "completed"),
    "parallel calls": (PARALLEL, PARIS_AND_TOKYO, "completed"),
    "interleaved arguments": (
        wire.call(0, "get_weather", "", "call_a")
        + wire.call(1, "get_weather", "", "call_b")
        + wire.call(0, arguments='{"city":')
        + wire.call(1, arguments='{"city":')
        + wire.call(1, arguments='"Tokyo"}')
        + wire.call(0, arguments='"Paris"}')
        + wire.finish("tool_calls"),
        PARIS_AND_TOKYO,
        "completed",
    ),
    "call after text after reasoning": (
        wire.chunk({"reasoning_content": "Let me look."})
        + wire.text("One moment.")
        + wire.call(0, "look", "{}", "call_a")
        + wire.finish("tool_calls"),
        ["reasoning: Let me look.", "One moment.", ("look", "{}", "call_a")],
        "completed",
    ),
    "reasoning under its other name": (
        wire.chunk({"reasoning": "Hm."}) + wire.text("Yes") + wire.finish(),
        ["reasoning: Hm.", "Yes"],
        "completed",
    ),
    "refusal": (
        wire.chunk({"refusal": "I can"}) + wire.chunk({"refusal": "not."}) + wire.finish(),
        ["I cannot."],
        "completed",
    ),
    "length": (wire.text("Once upon") + wire.finish("length"), ["!Once upon"], "incomplete"),
    "filter": (wire.text("Once") + wire.finish("content_filter"), ["!Once"], "incomplete"),
    "call cut by length": (
        wire.call(0, "write", '{"text":"On', "call_a") + wire.finish("length"),
        [("!write", '{"text":"On', "call_a")],
        "incomplete",
    ),
    "error in the middle": (
        wire.text("On") + wire.data({"error": {"message": "boom", "type": "server_error"}}),
        ["!On"],
        "failed",
    ),
    "cut": (wire.text("On", "ce"), ["!Once"], "failed"),
    "cut in a chunk": (wire.text("On") + wire.text("ce")[:40], ["!On"], "failed"),
    "no finish reason": (wire.text("Once") + wire.DONE, ["Once"], "completed"),
    "no end mark": (wire.text("Once") + wire.chunk({}, "stop"), ["Once"], "completed"),
    "no usage": (wire.text("Once") + wire.finish(usage=False), ["Once"], "completed"),
    "nothing at all": (b"", [], "failed"),
    "arguments of 200 kB": (
        wire.call(0, "write", "", "call_a")
        + b"".join(
            wire.call(0, arguments=LONG_ARGUMENTS[n : n + 4096]) for n in range(0, len(LONG_ARGUMENTS), 4096)
        )
        + wire.finish("tool_calls"),
        [("write", LONG_ARGUMENTS, "call_a")],
        "completed",
    ),
    "a late name": (
        wire.call(0, arguments='{"city":', id="call_a")
        + wire.call(0, "get_weather", '"Paris"}')
        + wire.finish("tool_calls"),
        [("get_weather", '{"city":"Paris"}', "call_a")],
        "completed",
    ),
    "a name in every chunk": (
        wire.call(0, "get_weather", '{"city":', "call_a")
        + wire.call(0, "get_weather", '"Paris"}', "call_a")
        + wire.finish("tool_calls"),
        [("get_weather", '{"city":"Paris"}', "call_a")],
        "completed",
    ),
    "another id in every chunk": (
        wire.call(0, "get_weather", '{"city":', "call_a")
        + wire.call(0, arguments='"Paris"}', id="call_b")
        + wire.finish("tool_calls"),
        [("get_weather", '{"city":"Paris"}', "call_a")],
        "completed",
    ),
    "one index for all calls": (
        wire.call(0, "get_weather", '{"city":"Paris"}', "call_a")
        + wire.call(0, "get_weather", '{"city":"Tokyo"}', "call_b")
        + wire.finish("stop"),
        PARIS_AND_TOKYO,
        "completed",
    ),
    "comments and other lines": (
        b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\nevent: message\n" + wire.text("Hi") + wire.finish(),
        ["Hi"],
        "completed",
    ),
    "carriage returns": (
        (wire.text("Hi") + wire.finish()).replace(b"\n", b"\r\n"),
        ["Hi"],
        "completed",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    body, output, status = CASES[case]
    made = compose([read(body)], schema=True)
    assert told(made) == output
    assert made.status == status


@given(st.sampled_from([case for case in CASES if case != "arguments of 200 kB"]), st.data())
def test_any_cut_of_the_bytes_gives_the_same_response(case: str, data: st.DataObject) -> None:
    body, _, _ = CASES[case]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=40)))
    stream = ChatStream()
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    made = compose([*(stream.feed(piece) for piece in pieces), stream.end()])
    assert plain(made) == plain(response(body))


@pytest.mark.parametrize("case", [case for case in CASES if case != "arguments of 200 kB"])
def test_one_byte_at_a_time_gives_the_same_response(case: str) -> None:
    body, _, _ = CASES[case]
    assert plain(compose([read(body, size=1)])) == plain(response(body))


def test_one_read_is_one_batch() -> None:
    assert ChatStream().feed(wire.text("a", "b", "c")) == [TextDelta("a"), TextDelta("b"), TextDelta("c")]


# --- reasoning in the text --------------------------------------------------------------------------------


def test_think_tags() -> None:
    body = wire.text("<thi", "nk>\nHm.</think", ">\n\nYes", " sir") + wire.finish()
    assert told(response(body, think=ThinkTags())) == ["reasoning: Hm.", "Yes sir"]


def test_think_tags_are_words_without_the_option() -> None:
    assert told(response(wire.text("<think>a</think>b") + wire.finish())) == ["<think>a</think>b"]


def test_a_call_after_held_back_text() -> None:
    body = wire.text("<th") + wire.call(0, "f", "{}", "x") + wire.finish("tool_calls")
    assert told(response(body, think=ThinkTags())) == ["<th", ("f", "{}", "x")]


def test_content_in_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    body = wire.chunk({"content": [thinking]}) + wire.chunk({"content": [{"type": "text", "text": "Yes"}]})
    assert told(response(body + wire.finish())) == ["reasoning: Hm.", "Yes"]


# --- ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("end_turn", "completed", None),
        ("STOP", "completed", None),
        ("stop_sequence", "completed", None),
        ("tool_use", "completed", None),
        ("a reason from the future", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("max_tokens", "incomplete", "max_output_tokens"),
        ("MAX_TOKENS", "incomplete", "max_output_tokens"),
        ("model_length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("SAFETY", "incomplete", "content_filter"),
        ("error", "failed", None),
        ("insufficient_system_resource", "failed", None),
    ],
)
def test_finish_reasons(reason: str, status: str, why: str | None) -> None:
    made = response(wire.text("x") + wire.finish(reason))
    assert made.status == status
    assert (made.incomplete_details.reason if made.incomplete_details else None) == why


def test_usage_comes_before_the_finish() -> None:
    deltas = read(wire.text("x") + wire.finish())
    assert isinstance(deltas[-2], UsageDelta)
    assert deltas[-1] == Finish("stop")
    usage = deltas[-2].usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (19, 10, 29)
    assert usage.input_tokens_details.cached_tokens == 3
    assert usage.output_tokens_details.reasoning_tokens == 4


def test_the_finish_waits_for_the_usage_and_not_longer() -> None:
    stream = ChatStream()
    assert stream.feed(wire.text("x") + wire.chunk({}, "stop")) == [TextDelta("x")]
    assert stream.feed(wire.chunk(usage=wire.USAGE))[-1] == Finish("stop")
    assert stream.feed(wire.DONE) == stream.end() == []


def test_tokens_written_to_a_cache_as_openrouter_counts_them() -> None:
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cache_write_tokens": 100},
    }
    made = response(wire.text("x") + wire.chunk({}, "stop", usage=usage) + wire.DONE)
    assert made.usage is not None
    details = made.usage.input_tokens_details
    assert (made.usage.input_tokens, details.cached_tokens, details.cache_write_tokens) == (120, 0, 100)


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, 4),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}, 0),
        ({"prompt_tokens": 5.0, "completion_tokens": 2, "total_tokens": None}, 0),
    ],
)
def test_usage_in_other_shapes(usage: dict[str, Any], cached: int) -> None:
    made = response(wire.text("x") + wire.chunk({}, "stop", usage=usage) + wire.DONE)
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens, made.usage.total_tokens) == (5, 2, 7)
    assert made.usage.input_tokens_details.cached_tokens == cached


def test_usage_of_groq() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    made = response(wire.text("x") + wire.chunk({}, "stop", x_groq={"id": "r", "usage": usage}) + wire.DONE)
    assert made.usage is not None
    assert made.usage.total_tokens == 7


def test_usage_in_every_chunk_is_told_once() -> None:
    body = b"".join(
        wire.chunk({"content": "x"}, usage={"prompt_tokens": 5, "completion_tokens": n}) for n in range(1, 4)
    )
    deltas = read(body + wire.chunk({}, "stop") + wire.DONE)
    assert [delta.usage.output_tokens for delta in deltas if isinstance(delta, UsageDelta)] == [3]


def failure(body: bytes, **options: Any) -> Failure:
    last = read(body, **options)[-1]
    assert isinstance(last, Failure)
    return last


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (wire.text("x"), "upstream_closed"),
        (wire.text("x") + wire.text("y")[:-20], "upstream_closed"),
        (wire.text("x") + b"data: {nonsense\n\n", "upstream_invalid"),
        (wire.text("x") + b'data: {"choices":[{"delta":{"content":7}}]}\n\n', "upstream_invalid"),
        (b"data: \xff\xfe\n\n", "upstream_invalid"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "upstream_invalid"),
        (wire.data({"error": {"message": "slow down", "code": 429}}), "rate_limit_exceeded"),
        (wire.data({"error": {"message": "slow down", "type": "rate_limit_error"}}), "rate_limit_exceeded"),
        (wire.data({"error": "it broke"}), "upstream_error"),
        (wire.data({"object": "error", "message": "boom", "type": "X", "code": 500}), "upstream_error"),
        (wire.data({"message": "boom"}), "upstream_error"),
        (b"event: error\n" + wire.data({"error": {"message": "The server is busy"}}), "model_overloaded"),
        (b'{"error":{"message":"maximum context length is 4096"}}\n', "context_length_exceeded"),
        (wire.chunk({}, "error", error={"code": 429, "message": "bad"}), "rate_limit_exceeded"),
    ],
)
def test_failures_have_codes(body: bytes, code: str) -> None:
    assert failure(body).error.code == code


def test_a_failure_hides_keys() -> None:
    body = wire.data({"error": {"message": "the key hunter2222 and sk-abcdefgh1234 are wrong"}})
    message = failure(body, secrets=("hunter2222",)).error.message
    assert "hunter2222" not in message
    assert "abcdefgh" not in message


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    stream = ChatStream(max_line=1000)
    assert stream.feed(b"data: " + b"x" * 600) == []
    [failed] = stream.feed(b"x" * 600)
    assert isinstance(failed, Failure)
    assert failed.error.code == "upstream_invalid"
    assert stream.feed(b"x" * 600 + b"\n") == stream.end() == []


def test_a_broken_connection_after_the_reason_is_no_failure() -> None:
    from antiphon.providers import errors

    stream = ChatStream()
    stream.feed(wire.text("x") + wire.chunk({}, "stop"))
    assert stream.end(errors.closed("p", "now").payload) == [Finish("stop")]


# --- logprobs, citations, whole answers -------------------------------------------------------------------


def test_logprobs() -> None:
    told_by_server = [
        {
            "token": "Hé",
            "logprob": -0.5,
            "bytes": None,
            "top_logprobs": [{"token": "He", "logprob": -1, "bytes": [72, 101]}],
        }
    ]
    made = response(wire.chunk({"content": "Hé"}, logprobs={"content": told_by_server}) + wire.finish())
    [part] = plain(made)["output"][0]["content"]
    assert part["logprobs"] == [
        {
            "token": "Hé",
            "logprob": -0.5,
            "bytes": [72, 195, 169],
            "top_logprobs": [{"token": "He", "logprob": -1.0, "bytes": [72, 101]}],
        }
    ]


def test_citations() -> None:
    cited = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.example", "title": "A", "end_index": 2},
    }
    made = response(wire.text("Hi") + wire.chunk({"annotations": [cited]}) + wire.finish())
    [part] = plain(made)["output"][0]["content"]
    assert part["annotations"] == [
        {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
    ]


@pytest.mark.parametrize(
    "said",
    [
        wire.Answer("Hello"),
        wire.Answer("Hello", reasoning="Hm."),
        wire.Answer(calls=[wire.ToolCall("f", '{"a":1}', "x"), wire.ToolCall("g", "{}", "y")]),
        wire.Answer(refusal="No."),
        wire.Answer("Hel", finish="length"),
    ],
)
def test_a_whole_answer_says_the_same_as_a_streamed_one(said: wire.Answer) -> None:
    streamed = response(b"".join(said.stream({"stream_options": {"include_usage": True}})))
    whole = compose([ChatStream().whole(json.dumps(said.whole()).encode())])
    assert plain(whole) == plain(streamed)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "content": st.sampled_from([None, "", "Hello", [{"type": "text", "text": "Hello"}]]),
            "reasoning_content": st.sampled_from([None, "Hm."]),
            "refusal": st.sampled_from([None, "No."]),
            "tool_calls": st.sampled_from([[], [{"index": 0, "id": "x", "function": {"name": "f"}}]]),
            "annotations": st.sampled_from([[], [{"url_citation": {"url": "https://a.example"}}]]),
        },
    ),
    st.sampled_from(["stop", "length", "tool_calls"]),
    st.sampled_from([None, {"prompt_tokens": 2, "completion_tokens": 1.0, "prompt_cache_hit_tokens": 1}]),
)
def test_a_message_gives_the_same_deltas_whole_as_in_one_chunk(
    message: dict[str, Any], finish: str, usage: dict[str, Any] | None
) -> None:
    choice = {"index": 0, "finish_reason": finish}
    whole = ChatStream().whole(
        json.dumps({"choices": [{**choice, "message": message}], "usage": usage}).encode()
    )
    chunk = json.dumps({"choices": [{**choice, "delta": message}], "usage": usage}).encode()
    assert whole == read(b"data: " + chunk + b"\n\n")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "upstream_invalid"),
        (b"{}", "upstream_invalid"),
        (b'{"choices":[]}', "upstream_invalid"),
        (wire.error("boom"), "upstream_error"),
        (wire.error("The model `x` does not exist", code=404), "model_not_found"),
    ],
)
def test_a_whole_answer_that_is_an_error_is_raised(body: bytes, code: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        ChatStream().whole(body)
    assert caught.value.payload.code == code


def test_an_error_in_another_encoding_is_told_as_unreadable() -> None:
    body = '{"object":"error","message":"clé refusée"}'.encode("latin-1")
    with pytest.raises(UpstreamError) as caught:
        ChatStream().whole(body)
    assert caught.value.payload.code == "upstream_invalid"
    [failure] = ChatStream().feed(b"data: " + body + b"\n\n")
    assert isinstance(failure, Failure)
    assert failure.error.code == "upstream_invalid"
