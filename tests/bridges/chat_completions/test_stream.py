"""Events as chunks: whatever a model says, the chunks put together are the whole answer."""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming._deltas import accumulate_delta
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from antiphon.bridges.chat_completions import ChatCompletionChunks, encode_completion
from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.content import LogProb, OutputText, Refusal, UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import FunctionCall, Message
from antiphon.spec.response import Response, Usage
from antiphon.stream import deltas as d
from antiphon.stream.composer import Composer
from tests.bridges.golden_run import ENCODERS, FOLDER, encoded, events

Json = dict[str, Any]


def answered(*batches: list[d.AnyDelta]) -> tuple[list[ev.AnyEvent], Response]:
    composer = Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0, seal=lambda blob: f"v1.{blob}")
    told = composer.start()
    for batch in batches:
        told += composer.feed(batch)
    return told, composer.response


def chunks(told: Iterable[ev.AnyEvent], batch: int = 1, **options: Any) -> list[Json]:
    encoder, all_events = ChatCompletionChunks(**options), list(told)
    raw = b"".join(encoder.encode(all_events[n : n + batch]) for n in range(0, len(all_events), batch))
    lines = (raw + encoder.end()).decode().split("\n\n")
    assert lines.pop() == ""
    if lines[-1] == "data: [DONE]":
        lines.pop()
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def together(told: list[Json]) -> Json:
    """What OpenAI's package makes of the chunks."""
    message: dict[object, object] = {}
    finish = None
    for chunk in told:
        if '"type": "custom"' not in json.dumps(chunk):  # which its types of chunks do not have
            ChatCompletionChunk.model_validate(chunk)
        for choice in chunk["choices"]:
            message = accumulate_delta(message, choice["delta"])
            finish = choice["finish_reason"]
    for call in message.get("tool_calls", ()):  # type: ignore[attr-defined]
        del call["index"]
    return {"message": {**message}, "finish_reason": finish}


# --- the law ----------------------------------------------------------------------------------------------

WORDS = st.text(min_size=1, max_size=6)
SAYINGS = st.one_of(
    st.builds(d.TextDelta, WORDS),
    st.builds(lambda: d.MessageStart("commentary")),
    st.builds(d.ReasoningDelta, WORDS),
    st.builds(d.RefusalDelta, WORDS),
    st.builds(d.SignatureDelta, WORDS),
    st.builds(lambda url: d.AnnotationDelta(UrlCitation(url, "T", 0, 1)), WORDS),
)
CALLS = st.builds(
    lambda key, pieces, kind: [
        d.CallDelta(key, "", "look", f"call_{key}", kind),
        *(d.CallDelta(key, piece, kind=kind) for piece in pieces),
        d.ItemEnd(key),
    ],
    st.integers(0, 10**9),
    st.lists(WORDS, max_size=3),
    st.sampled_from(["function", "custom"]),
)
ANSWERS = st.lists(st.one_of(SAYINGS.map(lambda one: [one]), CALLS), max_size=8)


@settings(max_examples=200, deadline=None)
@given(said=ANSWERS, batch=st.integers(1, 9), reason=st.sampled_from(["stop", "tool_calls", "length"]))
def test_the_chunks_together_are_the_whole_answer(said: Any, batch: int, reason: Any) -> None:
    end: list[d.AnyDelta] = [d.UsageDelta(Usage.of(3, 2, cached=1, written=1)), d.Finish(reason)]
    told, response = answered(*said, end)
    whole = json.loads(encode_completion(response))
    ChatCompletion.model_validate(whole)
    choice = whole["choices"][0]
    made = together(found := chunks(told, batch, has_usage=True))
    assert made["finish_reason"] == choice["finish_reason"]
    for name in choice["message"].keys() | made["message"].keys():
        assert (made["message"].get(name) or None) == (choice["message"].get(name) or None), name
    assert (found[-1]["choices"], found[-1]["usage"]) == ([], whole["usage"])
    assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 1, "cache_write_tokens": 1}


# --- the rest ---------------------------------------------------------------------------------------------


def test_an_answer_that_fails_ends_with_its_error() -> None:
    error = ErrorPayload("too_many_requests", "slow down", code="rate_limit_exceeded")
    told, _ = answered([d.TextDelta("Once")], [d.Failure(error)])
    encoder = ChatCompletionChunks()
    raw = encoder.encode(told)
    assert encoder.end() == b""
    last = json.loads(raw.decode().strip().rpartition("data: ")[2])
    assert last == {
        "error": {
            "type": "rate_limit_error",
            "message": "slow down",
            "code": "rate_limit_exceeded",
            "param": "",
        }
    }


def test_what_comes_whole_is_told_once() -> None:
    """A server may send a message or a call without its pieces."""
    told, response = answered([d.TextDelta("x"), d.Finish("stop")])
    message = Message(
        id="msg_1", role="assistant", content=[OutputText("Hi."), Refusal("No."), OutputText(" Bye.")]
    )
    call = FunctionCall(id="fc_1", call_id="call_1", name="f", arguments="{}")
    created, end = told[0], told[-1]
    response.output = [message, call]
    done: list[ev.AnyEvent] = [ev.OutputItemDoneEvent(1, 0, message), ev.OutputItemDoneEvent(2, 1, call)]
    made = together(chunks([created, *done, end]))
    assert made["message"]["content"] == "Hi. Bye."
    assert made["message"]["refusal"] == "No."
    assert made["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    begun = FunctionCall(id="fc_1", call_id="call_1", name="f", arguments="")
    announced: list[ev.AnyEvent] = [ev.OutputItemAddedEvent(1, 1, begun), done[1]]
    made = together(chunks([created, *announced, end]))
    assert made["message"]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_log_probabilities_and_padding() -> None:
    told, response = answered(
        [d.TextDelta("Hi", [LogProb("Hi", -0.5, [72, 105])]), d.TextDelta("!", [LogProb("!", -0.1)])],
        [d.Finish("stop")],
    )
    for event in told:
        if isinstance(event, ev.OutputTextDeltaEvent):
            event.obfuscation = "xyz"
    found = chunks(told, 100, has_more=True, has_usage=True)
    pieces = [one for one in found if one["choices"] and one["choices"][0]["delta"].get("content")]
    assert [one["choices"][0]["logprobs"]["content"][0]["token"] for one in pieces] == ["Hi", "!"]
    assert all((one["obfuscation"], one["usage"]) == ("xyz", None) for one in pieces)
    whole = json.loads(encode_completion(response))
    assert len(whole["choices"][0]["logprobs"]["content"]) == 2


def test_the_older_calls() -> None:
    pieces: list[d.AnyDelta] = [d.CallDelta(0, '{"a"'), d.CallDelta(0, ":1}"), d.ItemEnd(0)]
    told, response = answered([d.CallDelta(0, "", "f", "call_1")], [*pieces, d.Finish("tool_calls")])
    made = together(chunks(told, 2, is_older=True))
    assert made["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert made["finish_reason"] == "function_call"
    whole = json.loads(encode_completion(response, is_older=True))["choices"][0]
    assert whole["message"]["function_call"] == made["message"]["function_call"]
    assert (whole["finish_reason"], "tool_calls" in whole["message"]) == ("function_call", False)


def test_summaries_stand_where_there_are_no_other_words() -> None:
    told, response = answered(
        [d.SummaryDelta("One. "), d.SummaryDelta("Two.", part=1), d.TextDelta("Hi"), d.Finish("stop")]
    )
    assert together(chunks(told))["message"]["reasoning_content"] == "One. \n\nTwo."
    whole = json.loads(encode_completion(response))
    assert whole["choices"][0]["message"]["reasoning_content"] == "One. \n\nTwo."


def test_pictures_that_the_model_drew() -> None:
    image = Opaque.make(type="image_generation_call", id="ig_1", status="completed", result="QUJD")
    told, response = answered([d.ItemDelta(image), d.Finish("stop")])
    (picture,) = json.loads(encode_completion(response))["choices"][0]["message"]["images"]
    assert picture["image_url"]["url"] == "data:image/png;base64,QUJD"
    assert together(chunks(told))["message"]["images"] == [picture]


def test_the_golden_run_is_read_by_the_package() -> None:
    name = "chat-completions.txt"
    raw = encoded(ENCODERS[name], events(), 1)
    assert raw == (FOLDER / name).read_bytes()
    found = [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: {")]
    made = together(found)
    assert [call.get("type") for call in made["message"]["tool_calls"]] == ["function", "function", "custom"]
    assert made["message"]["content"] == "I look at «Paris» \U0001f324.\n\nParis has 18 °C."
