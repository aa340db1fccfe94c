"""Converse answers into deltas, however they are cut and whatever is wrong with them."""

import json
from typing import Any

import pytest

from antiphon.providers.base import UpstreamError
from antiphon.providers.bedrock.content import build_citations_block
from antiphon.providers.bedrock.stream import BedrockStream
from antiphon.providers.tools import flatten
from antiphon.spec.content import OutputText
from antiphon.spec.items import Message
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
from antiphon.wires.tools.names import ToolNames
from tests.providers.bedrock.eventstream_wire import encode, error, event, exception
from tests.providers.bedrock.fake import BEGIN, delta, ends, start, stop, streamed, whole
from tests.providers.compose import compose, make_turn, plain, told
from tests.providers.conformance.said import Called, Counted, Redacted, Script, Text, Thought

SCRIPT = Script(
    (
        Thought("Hm, 世界.", "c2lnbmVk"),
        Redacted("cmVkYWN0ZWQ="),
        Text("Grüße 🎼"),
        Called("get_weather", '{"city":"Tōkyō"}', "a"),
        Called("now", "{}", "b"),
    ),
    "tool_calls",
    Counted(cached=3),
)


def fed(*frames: bytes, parser: BedrockStream | None = None) -> list[AnyDelta]:
    parser = parser or BedrockStream()
    found = [one for frame in frames for one in parser.feed(frame)]
    return found if parser.over else found + parser.end()


def wire(script: Script) -> bytes:
    return b"".join(piece for piece in streamed(script) if isinstance(piece, bytes))


def test_everything_that_can_be_said() -> None:
    made = compose([fed(wire(SCRIPT))], schema=True)
    assert told(made) == [
        "reasoning: Hm, 世界.",
        "reasoning: ",
        "Grüße 🎼",
        ("get_weather", '{"city":"Tōkyō"}', "a"),
        ("now", "{}", "b"),
    ]
    proofs = [json.loads(item["encrypted_content"]) for item in plain(made)["output"][:2]]
    assert proofs == [
        {"reasoningText": {"text": "Hm, 世界.", "signature": "c2lnbmVk"}},
        {"redactedContent": "cmVkYWN0ZWQ="},
    ]
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens, made.usage.total_tokens) == (19, 10, 29)
    assert made.usage.input_tokens_details.cached_tokens == 3


def test_a_whole_answer_says_the_same() -> None:
    one = compose([fed(wire(SCRIPT))])
    other = compose([BedrockStream().whole(json.dumps(whole(SCRIPT)).encode())])
    assert told(one) == told(other)
    assert one.usage == other.usage


def test_cut_at_every_byte() -> None:
    raw = wire(SCRIPT)
    meant = fed(raw)
    for cut in range(1, len(raw)):
        assert fed(raw[:cut], raw[cut:]) == meant


def test_an_answer_that_breaks_off_at_every_byte() -> None:
    raw = wire(SCRIPT)
    for cut in range(0, len(raw), 7):
        made = compose([fed(raw[:cut])])
        assert made.status in ("failed", "completed")
        if made.status == "failed":
            assert made.error is not None
            assert made.error.code == "upstream_closed"
        else:
            assert made.usage is None


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("end_turn", "completed", None),
        ("tool_use", "completed", None),
        ("stop_sequence", "completed", None),
        ("something_new", "completed", None),
        ("max_tokens", "incomplete", "max_output_tokens"),
        ("model_context_window_exceeded", "incomplete", "max_output_tokens"),
        ("guardrail_intervened", "incomplete", "content_filter"),
        ("content_filtered", "incomplete", "content_filter"),
        ("refusal", "incomplete", "content_filter"),
        ("malformed_model_output", "failed", None),
        ("malformed_tool_use", "failed", None),
    ],
)
def test_stop_reasons(reason: str, status: str, why: str | None) -> None:
    body = {**whole(Script((Text("Once"),))), "stopReason": reason}
    answers = [
        compose([fed(BEGIN, delta(0, text="Once"), stop(0), *ends(reason))], schema=True),
        compose([BedrockStream().whole(json.dumps(body).encode())], schema=True),
    ]
    for made in answers:
        assert made.status == status
        assert (made.incomplete_details.reason if made.incomplete_details else None) == why
        assert told(made) == ["Once" if status == "completed" else "!Once"]
        if status == "failed":
            assert made.error is not None
            assert reason in made.error.message


def test_a_budget_that_ends_in_the_middle_of_a_call() -> None:
    frames = [BEGIN, start(0, "f", "a"), delta(0, toolUse={"input": '{"x": '}), stop(0), *ends("max_tokens")]
    made = compose([fed(*frames)])
    assert (told(made), made.status) == ([("!f", '{"x": ', "a")], "incomplete")


def test_calls_of_custom_tools_are_unwrapped() -> None:
    turn = make_turn({"input": "x", "tools": [{"type": "custom", "name": "patch"}]})
    parser = BedrockStream(flatten(turn, "bedrock"))
    pieces = [delta(0, toolUse={"input": piece}) for piece in ('{"inp', 'ut": "a\\', 'n"', "}")]
    frames = [BEGIN, start(0, "patch", "a"), *pieces, stop(0), *ends("tool_use")]
    made = compose([fed(*frames, parser=parser)])
    assert told(made) == [("patch", "a\n", "a")]


def test_the_usual_delta_is_one_text() -> None:
    parser = BedrockStream()
    assert parser.feed(BEGIN + delta(0, text="a") + delta(0, text="b")) == [TextDelta("a"), TextDelta("b")]


def test_reasoning_is_a_summary_where_the_model_only_shows_one() -> None:
    frames = (
        BEGIN,
        delta(0, reasoningContent={"text": "Hm"}),
        delta(0, reasoningContent={"signature": "s"}),
        stop(0),
    )
    assert fed(*frames, *ends(), parser=BedrockStream(summarises=True))[0] == SummaryDelta("Hm")


def test_a_block_of_reasoning_that_is_never_stopped() -> None:
    thought = delta(0, reasoningContent={"text": "Hm"})
    assert fed(BEGIN, thought, delta(1, text="Yes"), *ends(usage=None)) == [
        ReasoningDelta("Hm"),
        ItemEnd(),
        TextDelta("Yes"),
        Finish("stop"),
    ]


def test_a_signature_without_words() -> None:
    frames = [BEGIN, delta(0, reasoningContent={"signature": "s"}), stop(0), *ends(usage=None)]
    assert fed(*frames)[0] == SignatureDelta('{"reasoningText":{"text":"","signature":"s"}}')


@pytest.mark.parametrize("kind", ["tool_use", "a_kind_of_tomorrow"])
def test_a_call_with_a_type_is_a_call(kind: str) -> None:
    tool = {"toolUseId": "a", "name": "f", "type": kind}
    frames = [
        BEGIN,
        event("contentBlockStart", {"start": {"toolUse": tool}, "contentBlockIndex": 0}),
        delta(0, toolUse={"input": '{"x":1}'}),
        stop(0),
        *ends("tool_use"),
    ]
    assert told(compose([fed(*frames)])) == [("f", '{"x":1}', "a")]
    body = whole(Script((Called("f", '{"x":1}', "a"),), "tool_calls"))
    body["output"]["message"]["content"][0]["toolUse"]["type"] = kind
    assert told(compose([BedrockStream().whole(json.dumps(body).encode())])) == [("f", '{"x":1}', "a")]


GROUNDING = {"toolUseId": "a", "name": "nova_grounding", "type": "server_tool_use"}
GROUNDED = {"toolUseId": "a", "type": "nova_grounding_result", "status": "success"}


def test_tools_that_bedrock_runs_itself_are_items_and_no_calls() -> None:
    frames = [
        BEGIN,
        event("contentBlockStart", {"start": {"toolUse": GROUNDING}, "contentBlockIndex": 0}),
        delta(0, toolUse={"input": '{"query":'}),
        delta(0, toolUse={"input": '"x"}'}),
        stop(0),
        event("contentBlockStart", {"start": {"toolResult": GROUNDED}, "contentBlockIndex": 1}),
        delta(1, toolResult=[{"text": "seen"}]),
        stop(1),
        delta(2, text="Found."),
        delta(2, citation={"title": "T", "location": {"web": {"url": "https://a.example/"}}}),
        stop(2),
    ]
    used, result, message = plain(compose([fed(*frames, *ends())]))["output"]
    assert (used["type"], used["status"]) == ("bedrock:tool_use", "completed")
    assert used["data"] == {"toolUse": {**GROUNDING, "input": {"query": "x"}}}
    assert result["data"] == {"toolResult": {**GROUNDED, "content": [{"text": "seen"}]}}
    assert message["content"][0]["annotations"] == [
        {"type": "url_citation", "url": "https://a.example/", "title": "T", "start_index": 0, "end_index": 6}
    ]
    body = whole(Script((Text("Found."),)))
    body["output"]["message"]["content"][:0] = [used["data"], result["data"]]
    again = plain(compose([BedrockStream().whole(json.dumps(body).encode())]))["output"]
    assert [item.get("data") for item in again[:2]] == [used["data"], result["data"]]


PLACE = {
    "title": "policy",
    "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 9}},
    "sourceContent": [{"text": "20 days. "}],
}


def test_a_citation_of_a_document_is_an_annotation_of_its_block() -> None:
    frames = [BEGIN, delta(0, text="They get "), stop(0), delta(1, text="20 days"), delta(1, citation=PLACE)]
    streamed = compose([fed(*frames, stop(1), *ends())])
    cited = {"citationsContent": {"content": [{"text": "20 days"}], "citations": [PLACE]}}
    body = whole(Script((Text("They get "),)))
    body["output"]["message"]["content"].append(cited)
    at_once = compose([BedrockStream().whole(json.dumps(body).encode())])
    for made in (streamed, at_once):
        [message] = plain(made)["output"]
        assert [part["text"] for part in message["content"]] == ["They get ", "20 days"]
        assert message["content"][1]["annotations"] == [
            {
                "type": "bedrock:document_char",
                "title": "policy",
                "start_index": 0,
                "end_index": 7,
                "citation": PLACE,
            }
        ]


def test_a_citation_before_its_words_is_an_annotation_of_them() -> None:
    other = PLACE | {"title": "handbook"}
    frames = [
        BEGIN,
        delta(0, text="They get "),
        stop(0),
        delta(1, citation=PLACE),
        delta(1, citation=other),
        delta(1, text="20 "),
        delta(1, text="days"),
        stop(1),
        delta(2, text=", and "),
        stop(2),
        delta(3, citation=other),
        delta(3, text="more later."),
        stop(3),
    ]
    made = compose([fed(*frames, *ends())])
    [message] = plain(made)["output"]
    assert [
        (part["text"], [(note["title"], note["end_index"]) for note in part["annotations"]])
        for part in message["content"]
    ] == [
        ("They get ", []),
        ("20 days", [("policy", 7), ("handbook", 7)]),
        (", and ", []),
        ("more later.", [("handbook", 11)]),
    ]
    [item] = made.output
    assert isinstance(item, Message)
    again = [build_citations_block(part) for part in item.content if isinstance(part, OutputText)]
    assert [block and block["citationsContent"]["citations"] for block in again] == [
        None,
        [PLACE, other],
        None,
        [other],
    ]


def test_citations_in_a_block_without_words_belong_to_the_words_before() -> None:
    frames = [BEGIN, delta(0, text="20 days"), stop(0), delta(1, citation=PLACE), stop(1), delta(2, text=".")]
    [message] = plain(compose([fed(*frames, stop(2), *ends())]))["output"]
    assert [len(part["annotations"]) for part in message["content"]] == [1, 0]


def test_an_image_of_the_answer_is_an_item() -> None:
    frames = [
        BEGIN,
        event("contentBlockStart", {"start": {"image": {"format": "png"}}, "contentBlockIndex": 0}),
        delta(0, image={"source": {"bytes": "iVBORw0KGgo="}}),
        stop(0),
    ]
    body = whole(Script((Text(""),)))
    body["output"]["message"]["content"] = [{"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}]
    at_once = BedrockStream().whole(json.dumps(body).encode())
    for deltas in (fed(*frames, *ends()), at_once):
        [item] = plain(compose([deltas], solicited={"image_generation_call"}))["output"]
        assert (item["type"], item["result"]) == ("image_generation_call", "iVBORw0KGgo=")


def test_a_search_result_with_an_address_is_a_url_citation() -> None:
    found = {"source": "https://a.example/", "location": {"searchResultLocation": {"searchResultIndex": 0}}}
    deltas = fed(BEGIN, delta(0, text="Yes"), delta(0, citation=found), stop(0), *ends())
    [message] = plain(compose([deltas]))["output"]
    assert message["content"][0]["annotations"][0]["url"] == "https://a.example/"


def test_citations_of_a_whole_answer() -> None:
    body = whole(Script((Text(""),)))
    cited = {
        "content": [{"text": "Found."}],
        "citations": [{"title": "T", "location": {"web": {"url": "https://a.example/"}}}],
    }
    body["output"]["message"]["content"] = [{"citationsContent": cited}]
    [message] = plain(compose([BedrockStream().whole(json.dumps(body).encode())]))["output"]
    assert message["content"][0]["annotations"][0]["url"] == "https://a.example/"


def test_unknown_events_and_fields_are_ignored() -> None:
    odd = [
        event("initial-response", {}),
        event("somethingNew", {"a": [1]}),
        delta(0, somethingNew={"a": 1}),
        event("contentBlockStart", {"start": {"image": {"format": "png"}}, "contentBlockIndex": 4}),
        encode({":message-type": (7, "new")}, b""),
        encode({}, b""),
    ]
    made = compose([fed(*odd, BEGIN, *odd, delta(0, text="Hi"), stop(0), *odd, *ends())])
    assert (told(made), made.status) == (["Hi"], "completed")


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "code", "said"),
    [
        (exception("internalServerException", "Oops"), "upstream_error", "Oops"),
        (
            exception("modelStreamErrorException", "", originalStatusCode=500, originalMessage="Crashed"),
            "upstream_error",
            "Crashed",
        ),
        (exception("validationException", "No such field"), "ValidationException", "No such field"),
        (
            exception("validationException", "Input is too long for requested model."),
            "context_length_exceeded",
            "too long",
        ),
        (
            exception("throttlingException", "Too many tokens, please wait before trying again."),
            "rate_limit_exceeded",
            "please wait",
        ),
        (exception("serviceUnavailableException", "Busy"), "model_overloaded", "Busy"),
        (exception("modelTimeoutException", "Too slow"), "timeout", "Too slow"),
        (exception("brandNewException", "?"), "upstream_error", "?"),
        (error("InternalFailure", "Broken"), "upstream_error", "Broken"),
        (encode({":message-type": (7, "exception")}, b"no json"), "upstream_error", "no reason"),
    ],
)
def test_exceptions(frame: bytes, code: str, said: str) -> None:
    made = compose([fed(BEGIN, delta(0, text="On"), frame, delta(0, text="ce"))], schema=True)
    assert (told(made), made.status) == (["!On"], "failed")
    assert made.error is not None
    assert made.error.code == code
    assert said in made.error.message


def test_a_key_in_an_exception_is_hidden() -> None:
    parser = BedrockStream(secrets=("very-secret",))
    last = fed(exception("validationException", "the key very-secret"), parser=parser)[-1]
    assert isinstance(last, Failure)
    assert "very-secret" not in last.error.message


@pytest.mark.parametrize(
    "raw",
    [
        b"data: {}\n\n and so on",
        event("contentBlockDelta", {"delta": 1}),
        event("metadata", {"usage": {"inputTokens": "x"}}),
        delta(0, reasoningContent={"redactedContent": "???"}),
    ],
)
def test_nonsense(raw: bytes) -> None:
    last = fed(BEGIN, raw)[-1]
    assert isinstance(last, Failure)
    assert last.error.code == "upstream_invalid"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"output": {}}', b'{"message": "Hi"}'])
def test_an_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        BedrockStream().whole(body)
    assert caught.value.payload.code == "upstream_invalid"


def test_usage_with_a_written_cache() -> None:
    counts = {"inputTokens": 4, "outputTokens": 5, "totalTokens": 119, "cacheWriteInputTokens": 110}
    found = fed(BEGIN, event("messageStop", {"stopReason": "end_turn"}), event("metadata", {"usage": counts}))
    [usage] = [one.usage for one in found if isinstance(one, UsageDelta)]
    assert (usage.input_tokens, usage.input_tokens_details.cached_tokens) == (114, 0)
    assert usage.input_tokens_details.cache_write_tokens == 110


def test_names_lead_back_to_their_namespace() -> None:
    tool: dict[str, Any] = {
        "type": "namespace",
        "name": "git",
        "tools": [{"type": "function", "name": "log"}],
    }
    names: ToolNames = flatten(make_turn({"input": "x", "tools": [tool]}), "bedrock")
    found = fed(BEGIN, start(0, "git__log", "a"), stop(0), *ends("tool_use"), parser=BedrockStream(names))
    assert found[0] == CallDelta(0, name="log", call_id="a", namespace="git")
