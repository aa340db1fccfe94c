"""The bytes of a `generateContent` answer as deltas, and what the Composer makes of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.base import UpstreamError
from antiphon.providers.gemini.signatures import PartSignature
from antiphon.providers.gemini.stream import GeminiStream
from antiphon.spec.content import UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ItemEnd,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
)
from antiphon.wires.tools.names import DeclaredTool, ToolNames, UpstreamFunction
from tests.providers.compose import compose, plain, told
from tests.providers.gemini.fake import chunk, data, error, sse
from tests.providers.gemini.reading import call, read, response, text, whole

USAGE = {"promptTokenCount": 19, "candidatesTokenCount": 6, "thoughtsTokenCount": 4, "totalTokenCount": 29}


def failure(deltas: list[AnyDelta]) -> ErrorPayload:
    last = deltas[-1]
    assert isinstance(last, Failure)
    return last.error


FULL = (
    sse(text("Hm, ", thought=True), usageMetadata={"promptTokenCount": 19})
    + sse(text("well.", thought=True))
    + sse(text("Grüße, "))
    + sse(text("世界 🎼"))
    + sse(call("get_weather", {"city": "Tōkyō"}, "id-1", thoughtSignature="c2ln"), call("get_time"))
    + sse(finish="STOP", usageMetadata=USAGE)
)


# --- what is said -----------------------------------------------------------------------------------------


def test_everything_becomes_a_delta() -> None:
    assert read(FULL) == [
        SummaryDelta("Hm, "),
        SummaryDelta("well."),
        TextDelta("Grüße, "),
        TextDelta("世界 🎼"),
        SignatureDelta(PartSignature("c2ln", "call", name="get_weather").to_blob()),
        CallDelta(0, name="get_weather", call_id="id-1"),
        CallDelta(0, '{"city":"Tōkyō"}'),
        ItemEnd(0, "completed"),
        CallDelta(1, name="get_time"),
        CallDelta(1, "{}"),
        ItemEnd(1, "completed"),
        UsageDelta(compose([read(FULL)]).usage or pytest.fail("no usage")),
        Finish("tool_calls"),
    ]


def test_however_the_bytes_are_cut() -> None:
    expected = read(FULL)
    for size in range(1, len(FULL)):
        assert read(FULL, size=size) == expected
    for cut in range(len(FULL)):
        stream = GeminiStream()
        assert stream.feed(FULL[:cut]) + stream.feed(FULL[cut:]) + stream.end() == expected


def test_the_response_of_it() -> None:
    made = response(FULL)
    assert [item["type"] for item in plain(made)["output"]] == [
        "reasoning",
        "message",
        "reasoning",
        "function_call",
        "function_call",
    ]
    assert made.status == "completed"
    usage = made.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (19, 10, 29)
    assert usage.output_tokens_details.reasoning_tokens == 4


def test_a_whole_answer_says_the_same_as_a_streamed_one() -> None:
    parts = [text("Hm.", thought=True), call("f", {"a": 1}, thoughtSignature="c2ln"), call("g", {})]
    assert whole(*parts) == read(sse(*parts, finish="STOP"))


def test_arguments_keep_their_numbers() -> None:
    body = b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":'
    body += b'{"a": 1.0, "b": 12345678901234567890, "c": 1e2}}}]},"finishReason":"STOP"}]}\n\n'
    assert CallDelta(0, '{"a":1.0,"b":12345678901234567890,"c":1e2}') in read(body)


def test_arguments_that_are_no_text() -> None:
    body = b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"\xff"}}}]}}]}'
    assert CallDelta(0, '{"a":"\ufffd"}') in read(body + b"\n\n" + sse(finish="STOP"))


@pytest.mark.parametrize("args", [None, {}], ids=["absent", "empty"])
def test_a_call_without_arguments(args: dict[str, Any] | None) -> None:
    assert told(response(sse(call("f", args), finish="STOP"))) == [("f", "{}", "call_2")]


def test_custom_tools_are_unwrapped() -> None:
    function = UpstreamFunction("run_sql", None, {}, None, DeclaredTool("run_sql", kind="custom"))
    body = sse(call("run_sql", {"input": "SELECT 1"}, "a"), finish="STOP")
    assert told(response(body, names=ToolNames([function]))) == [("run_sql", "SELECT 1", "a")]


def test_logprobs() -> None:
    top = {"candidates": [{"token": "Yes", "logProbability": -0.5}, {"token": "No", "logProbability": -2}]}
    result = {"chosenCandidates": [{"token": "Yes", "logProbability": -0.5}], "topCandidates": [top]}
    made = response(sse(text("Yes"), finish="STOP", candidate={"logprobsResult": result}))
    [part] = plain(made)["output"][0]["content"]
    assert part["logprobs"] == [
        {
            "token": "Yes",
            "logprob": -0.5,
            "bytes": [89, 101, 115],
            "top_logprobs": [
                {"token": "Yes", "logprob": -0.5, "bytes": [89, 101, 115]},
                {"token": "No", "logprob": -2.0, "bytes": [78, 111]},
            ],
        }
    ]


def test_only_the_first_candidate_counts() -> None:
    second = {"candidates": [{"index": 1, "content": {"parts": [text("B")]}}]}
    assert told(response(sse(text("A")) + data(second) + sse(finish="STOP"))) == ["A"]


def test_unknown_things_are_ignored() -> None:
    body = (
        b": a comment\n\nevent: message\nid: 1\n"
        + sse({"novelty": {"language": "PYTHON", "code": "1"}}, novelty={"a": [1]})
        + sse({"thoughtful": True}, text("A", speed=3))
        + data({"heartbeat": True})
        + data({})
        + sse(finish="STOP", usageMetadata={"promptTokenCount": "many"})
    )
    assert told(response(body)) == ["A"]


def test_parts_that_only_google_knows_are_kept_in_items_of_their_own() -> None:
    ran = {"executableCode": {"language": "PYTHON", "code": "1"}}
    picture = {"inlineData": {"mimeType": "image/png", "data": "eA=="}}
    deltas = read(sse(text("A")) + sse(ran) + sse(picture, text("B")) + sse(finish="STOP"))
    assert compose([deltas]).status == "completed"
    before, _, program, image, after = plain(compose([deltas]))["output"]
    assert (before["content"][0]["text"], after["content"][0]["text"]) == ("A", "B")
    assert (program["type"], program["data"]) == ("google:executable_code", ran)
    assert (image["type"], image["result"], image["output_format"]) == (
        "image_generation_call",
        "eA==",
        "png",
    )


def test_what_is_no_image_is_kept_as_it_came() -> None:
    sound = {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "eA=="}}
    [item] = plain(compose([whole(sound)]))["output"]
    assert (item["type"], item["data"]) == ("google:inline_data", sound)


def test_a_picture_among_the_thoughts_and_a_call_in_pieces_leave_receipts() -> None:
    notes: list[str] = []
    draft = {"inlineData": {"mimeType": "image/png", "data": "eA=="}, "thought": True}
    piece = {"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.a"}], "willContinue": True}}
    body = sse(draft) + sse(piece) + sse(text("A"), finish="STOP")
    made = response(body, note=lambda param, why: notes.append(f"{param}: {why}"))
    assert told(made) == ["A"]
    assert len(notes) == 2


def test_no_piece_of_a_call_in_pieces_is_taken_for_a_call() -> None:
    pieces: list[dict[str, Any]] = [
        {"name": "f", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": True},
        {},
        {"name": "g", "args": {"b": 1}},
    ]
    body = b"".join(sse({"functionCall": piece}) for piece in pieces) + sse(finish="STOP")
    notes: set[str] = set()
    made = response(body, note=lambda param, why: notes.add(why))
    assert [call[:2] for call in told(made)] == [("g", '{"b":1}')]
    assert len(notes) == 1


def test_sources_without_an_address_are_told_as_they_came() -> None:
    found = {"fileSearchStore": "fileSearchStores/a", "text": "Paris is the capital."}
    support = {"segment": {"endIndex": 5, "text": "Paris"}, "groundingChunkIndices": [0]}
    metadata = {"groundingChunks": [{"retrievedContext": found}], "groundingSupports": [support]}
    for supports, end in (([support], 5), ([], 6)):
        grounding = {**metadata, "groundingSupports": supports}
        [message] = plain(compose([whole(text("Paris."), candidate={"groundingMetadata": grounding})]))[
            "output"
        ]
        assert message["content"][0]["annotations"] == [
            {**found, "type": "google:retrieved_context", "start_index": 0, "end_index": end}
        ]


def test_a_source_is_noted_once_whatever_else_its_chunk_has() -> None:
    source = {"news": {"kind": "new"}, "web": {"uri": "https://a.example", "title": "A"}}
    deltas = whole(text("Sunny."), candidate={"groundingMetadata": {"groundingChunks": [source]}})
    [message] = plain(compose([deltas]))["output"]
    assert [note["type"] for note in message["content"][0]["annotations"]] == ["url_citation"]


def test_what_google_searched_for_is_an_item() -> None:
    """So that whoever asked for a search, or required one, learns that there was one."""
    deltas = whole(text("Sunny."), candidate={"groundingMetadata": {"webSearchQueries": ["a", "b"]}})
    item = plain(compose([deltas]))["output"][-1]
    assert item["type"] == "web_search_call"
    assert item["action"] == {"type": "search", "query": "a", "queries": ["a", "b"]}


# --- where words are from ---------------------------------------------------------------------------------

GROUNDING = {
    "webSearchQueries": ["weather"],
    "groundingChunks": [
        {"web": {"uri": "https://a.example", "title": "A"}},
        {"retrievedContext": {"uri": "gs://b/c.pdf", "title": "B"}},
        {"web": {"title": "no address"}},
    ],
    "groundingSupports": [
        {"segment": {"endIndex": 9, "text": "Grüße!"}, "groundingChunkIndices": [0, 1, 2, 7]},
        {"segment": {"startIndex": 10, "endIndex": 12}, "groundingChunkIndices": [0]},
    ],
}


def annotations(deltas: list[AnyDelta]) -> list[UrlCitation]:
    return [
        one.annotation
        for one in deltas
        if isinstance(one, AnnotationDelta) and isinstance(one.annotation, UrlCitation)
    ]


def test_grounding_counts_bytes_and_we_count_characters() -> None:
    body = sse(text("Grüße! ")) + sse(text("Ja."), candidate={"groundingMetadata": GROUNDING})
    deltas = read(body + sse(finish="STOP", candidate={"groundingMetadata": GROUNDING}))
    assert annotations(deltas) == [
        UrlCitation("https://a.example", "A", 0, 6),
        UrlCitation("gs://b/c.pdf", "B", 0, 6),
        UrlCitation("https://a.example", "A", 8, 10),
    ]
    message, _ = plain(compose([deltas]))["output"]
    assert len(message["content"][0]["annotations"]) == 4


def test_a_segment_is_found_by_its_text_when_its_place_is_that_of_a_part() -> None:
    support = {"segment": {"startIndex": 0, "endIndex": 3, "text": "Two"}, "groundingChunkIndices": [0]}
    metadata = GROUNDING | {"groundingSupports": [support]}
    deltas = whole(text("One. "), text("Two."), candidate={"groundingMetadata": metadata})
    assert annotations(deltas) == [UrlCitation("https://a.example", "A", 5, 8)]


def test_grounding_comes_before_the_signature_of_the_text() -> None:
    body = sse(
        text("Grüße! Ja."), text("", thoughtSignature="c2ln"), candidate={"groundingMetadata": GROUNDING}
    )
    made = response(body + sse(finish="STOP"))
    assert [item["type"] for item in plain(made)["output"]] == ["message", "reasoning", "web_search_call"]
    assert len(plain(made)["output"][0]["content"][0]["annotations"]) == 4


@pytest.mark.parametrize("key", ["citationSources", "citations"])
def test_citations(key: str) -> None:
    cited = {key: [{"startIndex": 0, "endIndex": 5, "uri": "https://a.example"}, {"license": "mit"}]}
    deltas = read(sse(text("Grüße"), finish="STOP", candidate={"citationMetadata": cited}))
    assert annotations(deltas) == [UrlCitation("https://a.example", "", 0, 3)]


# --- ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("STOP", "completed", None),
        ("FINISH_REASON_UNSPECIFIED", "completed", None),
        ("SOMETHING_NEW", "completed", None),
        ("MAX_TOKENS", "incomplete", "max_output_tokens"),
        ("CONTINUATION", "incomplete", "max_output_tokens"),
        ("SAFETY", "incomplete", "content_filter"),
        ("RECITATION", "incomplete", "content_filter"),
        ("BLOCKLIST", "incomplete", "content_filter"),
        ("PROHIBITED_CONTENT", "incomplete", "content_filter"),
        ("SPII", "incomplete", "content_filter"),
        ("MODEL_ARMOR", "incomplete", "content_filter"),
        ("IMAGE_SAFETY", "incomplete", "content_filter"),
    ],
)
@pytest.mark.parametrize("mode", ["streamed", "whole"])
def test_finish_reasons(reason: str, status: str, why: str | None, mode: str) -> None:
    deltas = read(sse(text("A"), finish=reason)) if mode == "streamed" else whole(text("A"), finish=reason)
    made = compose([deltas])
    assert (made.status, made.incomplete_details and made.incomplete_details.reason) == (status, why)
    assert told(made) == ["A" if status == "completed" else "!A"]


@pytest.mark.parametrize(
    "reason",
    [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "OTHER",
        "LANGUAGE",
    ],
)
def test_reasons_that_are_failures(reason: str) -> None:
    message = "Malformed call with AIzaSecretSecret of mine"
    body = sse(text("A"), finish=reason, candidate={"finishMessage": message}, usageMetadata=USAGE)
    deltas = read(body, provider="up", secrets=["of mine"])
    payload = failure(deltas)
    assert (payload.type, payload.code) == ("model_error", "upstream_error")
    assert payload.message.startswith("up: ")
    assert reason in payload.message
    assert "Malformed call with" in payload.message
    assert "SecretSecret" not in payload.message
    assert "of mine" not in payload.message
    made = compose([deltas])
    assert (made.status, told(made)) == ("failed", ["!A"])
    assert made.usage is not None


@pytest.mark.parametrize("mode", ["streamed", "whole"])
@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "OTHER"])
def test_a_prompt_that_is_blocked(reason: str, mode: str) -> None:
    body = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 5}}
    deltas = read(data(body)) if mode == "streamed" else GeminiStream().whole(json.dumps(body).encode())
    made = compose([deltas])
    assert made.incomplete_details is not None
    assert (made.status, made.incomplete_details.reason) == ("incomplete", "content_filter")
    assert made.usage is not None
    assert made.usage.input_tokens == 5


def test_feedback_without_a_block_is_nothing() -> None:
    body = {**chunk(text("A"), finish="STOP"), "promptFeedback": {"safetyRatings": []}}
    assert response(data(body)).status == "completed"


def test_a_stream_without_its_reason_was_cut() -> None:
    deltas = read(sse(text("Once")))
    assert deltas[0] == TextDelta("Once")
    assert failure(deltas).code == "upstream_closed"


def test_half_a_chunk_before_a_cut_is_no_nonsense() -> None:
    assert failure(read(FULL[: FULL.index(b"STOP")])).code == "upstream_closed"


def test_a_connection_that_breaks_after_the_reason_is_complete() -> None:
    stream = GeminiStream()
    stream.feed(sse(text("A"), finish="STOP"))
    assert stream.end(ErrorPayload("server_error", "broken"))[-1] == Finish("stop")


def test_a_broken_connection_tells_why() -> None:
    stream = GeminiStream()
    stream.feed(sse(text("A")))
    assert failure(stream.end(ErrorPayload("server_error", "broken", "x"))).code == "x"


def test_what_comes_after_the_reason_still_counts() -> None:
    late = data({"candidates": [], "usageMetadata": USAGE})
    made = response(sse(text("A"), finish="STOP") + late)
    assert made.usage is not None
    assert made.usage.input_tokens == 19


def test_a_whole_answer_without_a_reason_is_complete() -> None:
    body = json.dumps({"candidates": [{"content": {"parts": [text("A")]}}]}).encode()
    assert GeminiStream().whole(body) == [TextDelta("A"), Finish("stop")]


def test_a_list_of_chunks_is_understood() -> None:
    """What the wire looks like when somebody on the way takes `alt=sse` off."""
    body = json.dumps([chunk(text("A")), chunk(text("B"), finish="STOP")]).encode()
    assert GeminiStream().whole(body) == [TextDelta("A"), TextDelta("B"), Finish("stop")]


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"{}", b'{"candidates":[]}', b"[]", b"[" * 5000])
def test_a_whole_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        GeminiStream().whole(body)
    assert caught.value.payload.code == "upstream_invalid"


@pytest.mark.parametrize(
    "line", [b"data: nonsense", b"data: {", b"data: [1]", b'data: {"candidates":3}', b"{oh"]
)
def test_a_chunk_that_is_not_json(line: bytes) -> None:
    deltas = read(sse(text("A")) + line + b"\r\n\r\n" + sse(text("B"), finish="STOP"))
    assert deltas[0] == TextDelta("A")
    assert failure(deltas).code == "upstream_invalid"
    assert len(deltas) == 2


def test_a_line_without_end() -> None:
    assert failure(read(b"data: " + b"x" * 2000, max_line=1000, size=100)).code == "upstream_invalid"


OVERLOADED = error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")


@pytest.mark.parametrize(
    "body",
    [
        data(json.loads(OVERLOADED)),
        OVERLOADED.replace(b"\n", b"\r\n"),
        b"data: " + OVERLOADED.replace(b"\n", b"\ndata: ") + b"\n\n",
        b"[" + OVERLOADED + b"]",
    ],
    ids=["data", "lines", "lines of data", "list"],
)
def test_an_error_in_the_stream(body: bytes) -> None:
    for size in (1, 7, 10_000):
        deltas = read(sse(text("A")) + body, size=size)
        assert deltas[0] == TextDelta("A")
        assert failure(deltas).code == "model_overloaded"


def test_an_error_in_a_whole_answer() -> None:
    with pytest.raises(UpstreamError) as caught:
        GeminiStream().whole(OVERLOADED)
    assert caught.value.payload.code == "model_overloaded"


def test_nothing_follows_the_end() -> None:
    stream = GeminiStream()
    assert isinstance(stream.feed(data(json.loads(OVERLOADED)))[-1], Failure)
    assert stream.over
    assert stream.feed(sse(text("A"), finish="STOP")) == []
    assert stream.end() == []


@given(
    st.lists(st.tuples(st.integers(0, len(FULL) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.data()
)
def test_no_byte_makes_it_raise(changes: list[tuple[int, int]], data: st.DataObject) -> None:
    """Law: whatever comes, there is one end, and nothing after it."""
    body = bytearray(FULL)
    for place, value in changes:
        body[place] = value
    deltas = read(bytes(body), size=data.draw(st.integers(1, len(FULL))))
    ends = [isinstance(one, Finish | Failure) for one in deltas]
    assert ends.count(True) == 1
    assert ends[-1]
    compose([deltas])


def test_a_chunk_without_words_is_an_empty_text_on_request() -> None:
    body = sse(text("Hel")) + sse() + sse(text("lo")) + sse(finish="STOP", usageMetadata=USAGE)
    stream = GeminiStream(keeps_chunks=True)
    words = [delta.text for delta in [*stream.feed(body), *stream.end()] if isinstance(delta, TextDelta)]
    assert words == ["Hel", "", "lo", ""]
    assert all(delta.text for delta in read(body) if isinstance(delta, TextDelta))
