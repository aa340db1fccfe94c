"""The lines of an Ollama answer: what they become, however they were cut."""

from typing import Any

import pytest

from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.providers.ollama.stream import OllamaStream
from antiphon.spec.response import Usage
from antiphon.stream.deltas import (
    AnyDelta,
    Failure,
    Finish,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
    UsageDelta,
)
from antiphon.wires.tools.names import DeclaredTool, ToolNames, UpstreamFunction
from tests.providers.compose import compose, plain, told
from tests.providers.conformance.scenarios import PNG
from tests.providers.ollama.fake import chunk, error, line

DONE = line(chunk({}, done=True, done_reason="stop", prompt_eval_count=3, eval_count=4))


def text(*words: str) -> bytes:
    return b"".join(line(chunk({"content": word})) for word in words)


def call(name: str, arguments: Any, **fields: Any) -> bytes:
    return line(chunk({"tool_calls": [{"function": {"name": name, "arguments": arguments}, **fields}]}))


def read(body: bytes, *, size: int | None = None, **options: Any) -> list[AnyDelta]:
    stream = OllamaStream(**options)
    size = size or len(body) or 1
    deltas = [delta for n in range(0, len(body), size) for delta in stream.feed(body[n : n + size])]
    return deltas + stream.end()


CASES: dict[str, tuple[bytes, list[Any], str]] = {
    "text": (text("Grü", "ße, 世界 🎼") + DONE, ["Grüße, 世界 🎼"], "completed"),
    "thinking": (
        line(chunk({"thinking": "Hm"})) + line(chunk({"thinking": "."})) + text("Yes") + DONE,
        ["reasoning: Hm.", "Yes"],
        "completed",
    ),
    "calls": (
        text("Look:") + call("f", {"a": [1, {"b": None}]}, id="x") + call("f", {}, id="y") + DONE,
        ["Look:", ("f", '{"a": [1, {"b": null}]}', "x"), ("f", "{}", "y")],
        "completed",
    ),
    "arguments as text": (call("f", '{"a":1}', id="x") + DONE, [("f", '{"a":1}', "x")], "completed"),
    "no arguments": (call("f", None, id="x") + DONE, [("f", "{}", "x")], "completed"),
    "length": (text("Once") + line(chunk({}, done=True, done_reason="length")), ["!Once"], "incomplete"),
    "words in the last line": (text("a") + line(chunk({"content": "b"}, done=True)), ["ab"], "completed"),
    "unknown fields": (
        line(chunk({"content": "a", "new": [1]}, more={})) + DONE,
        ["a"],
        "completed",
    ),
    "blank lines": (b"\n\n" + text("a") + b"\r\n" + DONE, ["a"], "completed"),
    "no line feed at the end": (text("a") + DONE.rstrip(), ["a"], "completed"),
    "loading": (line(chunk({}, done=True, done_reason="load")), [], "completed"),
    "an error": (text("Once") + error("the model crashed"), ["!Once"], "failed"),
    "a cut": (text("Once"), ["!Once"], "failed"),
    "half a line": (text("Once") + DONE[:20], ["!Once"], "failed"),
    "nonsense": (text("Once") + b"<html>\n", ["!Once"], "failed"),
    "after the end": (DONE + text("more"), [], "completed"),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    body, output, status = CASES[case]
    made = compose([read(body)])
    assert (told(made), made.status) == (output, status)


def test_an_image_is_an_item_of_the_kind_that_its_bytes_say() -> None:
    [item] = plain(compose([read(line(chunk({"images": [PNG]})) + DONE)]))["output"]
    assert (item["type"], item["output_format"], item["result"]) == ("image_generation_call", "png", PNG)


@pytest.mark.parametrize("data", ["AAAA", "not base64!"])
def test_an_image_of_an_unknown_kind_leaves_a_receipt(data: str) -> None:
    notes: list[tuple[str, str]] = []
    deltas = read(text("So.") + line(chunk({"images": [data]})) + DONE, note=lambda *told: notes.append(told))
    assert told(compose([deltas])) == ["So."]
    assert notes == [("output", "an image of an unknown kind cannot be passed on")]


@pytest.mark.parametrize("case", CASES)
def test_any_cut_of_the_bytes_gives_the_same_deltas(case: str) -> None:
    body = CASES[case][0]
    whole = read(body)
    for size in (1, 2, 3, 7):
        assert read(body, size=size) == whole
    for at in range(len(body)):
        stream = OllamaStream()
        assert stream.feed(body[:at]) + stream.feed(body[at:]) + stream.end() == whole


def test_deltas_and_their_order() -> None:
    thinking = line(chunk({"thinking": "Hm."}))
    assert read(thinking + text("Yes") + DONE) == [
        ReasoningDelta("Hm."),
        SignatureDelta('{"text":"Hm."}'),
        TextDelta("Yes"),
        UsageDelta(Usage.of(3, 4)),
        Finish("stop"),
    ]


def test_one_read_is_one_batch() -> None:
    assert OllamaStream().feed(text("a", "b", "c")) == [TextDelta("a"), TextDelta("b"), TextDelta("c")]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [({"eval_count": 4}, (0, 4)), ({"prompt_eval_count": 3}, (3, 0)), ({}, None)],
)
def test_usage_as_far_as_it_is_given(counts: dict[str, int], expected: tuple[int, int] | None) -> None:
    usage = compose([read(line(chunk({}, done=True, **counts)))]).usage
    assert (usage and (usage.input_tokens, usage.output_tokens)) == expected


def test_logprobs() -> None:
    known = [
        {
            "token": "Hi",
            "logprob": -0.5,
            "bytes": [72, 105],
            "top_logprobs": [{"token": "Yo", "logprob": -1}],
        }
    ]
    made = plain(compose([read(line(chunk({"content": "Hi"}, logprobs=known)) + DONE)]))
    [found] = made["output"][0]["content"][0]["logprobs"]
    assert (found["token"], found["logprob"], found["bytes"]) == ("Hi", -0.5, [72, 105])
    assert found["top_logprobs"] == [{"token": "Yo", "logprob": -1.0, "bytes": [89, 111]}]


def test_a_custom_tool_and_a_namespace_are_restored() -> None:
    names = ToolNames(
        [
            UpstreamFunction("sql", None, {}, None, DeclaredTool("sql", kind="custom")),
            UpstreamFunction("git__log", None, {}, None, DeclaredTool("log", "git")),
        ]
    )
    body = call("sql", {"input": "SELECT 1"}, id="a") + call("git__log", {}, id="b") + DONE
    custom, function = plain(compose([read(body, names=names)]))["output"]
    assert (custom["type"], custom["input"]) == ("custom_tool_call", "SELECT 1")
    assert (function["name"], function["namespace"]) == ("log", "git")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("an error was encountered while running the model", "upstream_error"),
        ("prompt too long; exceeded max context length by 3 tokens", "context_length_exceeded"),
        ("server busy, please try again. server is busy", "model_overloaded"),
        ("too many requests", "rate_limit_exceeded"),
    ],
)
def test_errors_in_the_stream_have_codes(message: str, code: str) -> None:
    [failure] = read(error(message))
    assert isinstance(failure, Failure)
    assert failure.error.code == code


def test_keys_are_hidden() -> None:
    [failure] = read(error("bad key my-secret-value"), secrets=["my-secret-value"])
    assert isinstance(failure, Failure)
    assert "my-secret-value" not in failure.error.message


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    stream = OllamaStream(max_line=100)
    [failure] = stream.feed(b"x" * 101)
    assert isinstance(failure, Failure)
    assert failure.error.code == "upstream_invalid"
    assert stream.over


def test_a_broken_connection_tells_its_own_reason() -> None:
    stream = OllamaStream()
    stream.feed(text("a"))
    broken = errors.closed("ollama", "in the middle").payload
    assert stream.end(broken) == [Failure(broken)]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<html>", "upstream_invalid"),
        (b"{}", "upstream_invalid"),
        (b'{"error":"the model failed to generate a response"}', "upstream_error"),
        (b'{"error":{"message":"too many requests"}}', "rate_limit_exceeded"),
    ],
)
def test_a_whole_answer_that_is_none_is_raised(body: bytes, code: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        OllamaStream().whole(body)
    assert caught.value.payload.code == code


def test_a_line_without_words_is_an_empty_text_on_request() -> None:
    body = text("Hel") + line(chunk({"content": ""})) + text("lo") + DONE
    words = [delta.text for delta in read(body, keeps_chunks=True) if isinstance(delta, TextDelta)]
    assert words == ["Hel", "", "lo", ""]
    assert all(delta.text for delta in read(body) if isinstance(delta, TextDelta))
