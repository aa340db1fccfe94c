"""Azure OpenAI: its addresses, its credentials, and what its filters say."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon.config import Secret
from antiphon.providers.azure import FILTERED, Azure, AzureStream
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.stream.deltas import AnyDelta, TextDelta, VendorDelta
from tests.providers.azure.fake import KEY, SAFE, VERSION, VIOLENT, FakeAzure, policy_violation, prompt_chunk
from tests.providers.build import build
from tests.providers.chat import wire
from tests.providers.compose import answer, batches, compose, make_turn, told
from tests.providers.conformance.said import Called, Script, Text
from tests.providers.fake_server import Received, Wire, refusal


@pytest.fixture
async def upstream() -> AsyncIterator[FakeAzure]:
    async with FakeAzure() as fake:
        yield fake


def configured(upstream: FakeAzure, http: UpstreamClient, **keys: Any) -> Azure:
    given = {"base_url": upstream.base_url, "api_key": Secret(KEY), **keys}
    return build(Azure, "az", http, **given)


@pytest.mark.parametrize("path", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
@pytest.mark.parametrize(
    ("version", "address", "query"),
    [
        (VERSION, "/openai/deployments/my%20gpt%2F4/chat/completions", f"api-version={VERSION}"),
        (None, "/openai/v1/chat/completions", ""),
    ],
)
async def test_addresses(
    upstream: FakeAzure,
    http: UpstreamClient,
    path: str,
    version: str | None,
    address: str,
    query: str,
) -> None:
    keys = {"base_url": upstream.base_url + path, "api_version": version}
    provider = configured(upstream, http, **keys)
    assert told(await answer(provider, make_turn("Hi", model="my gpt/4"))) == ["Hi"]
    [received] = upstream.requests
    assert (received.path, received.query) == (address, query)
    assert received.body["model"] == "my gpt/4"
    assert upstream.mistakes(received) == []


@pytest.mark.parametrize(
    ("auth", "header", "value"), [("api-key", "api-key", KEY), ("bearer", "authorization", f"Bearer {KEY}")]
)
async def test_credentials(
    upstream: FakeAzure, http: UpstreamClient, auth: str, header: str, value: str
) -> None:
    await answer(configured(upstream, http, auth=auth), make_turn())
    sent = upstream.requests[0].headers
    assert sent[header] == value
    assert [one for one in sent.values() if KEY in one] == [value]


async def test_a_wrong_key_is_not_shown(upstream: FakeAzure, http: UpstreamClient) -> None:
    provider = configured(upstream, http, api_key=Secret("a-wrong-but-secret-key"))
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn())
    assert caught.value.payload.code == "upstream_auth"
    assert caught.value.payload.message.endswith("(upstream request id apim-1)")
    assert "a-wrong-but-secret-key" not in caught.value.payload.message


async def test_older_versions_want_another_limit(upstream: FakeAzure, http: UpstreamClient) -> None:
    request = {"input": "x", "max_output_tokens": 20}
    await answer(configured(upstream, http), make_turn(request))
    await answer(configured(upstream, http, max_tokens_field="max_tokens"), make_turn(request))
    assert [one.body.get("max_completion_tokens") for one in upstream.requests] == [20, None]
    assert upstream.body["max_tokens"] == 20


async def test_only_deployments_count_and_they_are_not_listed(
    upstream: FakeAzure, http: UpstreamClient
) -> None:
    assert await configured(upstream, http).models() == []
    assert upstream.requests == []


# --- filters ----------------------------------------------------------------------------------------------


def read(*pieces: bytes) -> list[AnyDelta]:
    stream = AzureStream()
    return [delta for piece in pieces for delta in stream.feed(piece)] + stream.end()


def verdicts(deltas: list[AnyDelta]) -> list[Any]:
    return [delta.fields for delta in deltas if isinstance(delta, VendorDelta) and delta.type == FILTERED]


HIGH = {"filtered": True, "severity": "high"}


def filtered(delta: dict[str, Any], results: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "content_filter_results": results}
    return wire.data({**wire.HEAD, "object": "chat.completion.chunk", "choices": [choice]})


def test_a_prompt_without_fault_says_nothing() -> None:
    stream = prompt_chunk() + filtered({"content": "Hi"}, SAFE) + wire.finish()
    deltas = read(stream)
    assert verdicts(deltas) == []
    assert told(compose([deltas])) == ["Hi"]


def test_an_answer_that_is_filtered_keeps_what_was_said_and_tells_why() -> None:
    stream = prompt_chunk() + filtered({"content": "Once"}, SAFE) + filtered({}, VIOLENT, "content_filter")
    deltas = read(stream, wire.chunk(usage=wire.USAGE), wire.DONE)
    assert verdicts(deltas) == [{"of": "answer", "results": {"violence": HIGH}}]
    made = compose([deltas])
    assert (made.status, told(made)) == ("incomplete", ["!Once"])
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == "content_filter"


def test_what_was_found_in_the_prompt_is_told() -> None:
    found = SAFE | {"jailbreak": {"filtered": False, "detected": True}}
    deltas = read(prompt_chunk(found) + wire.text("Hi") + wire.finish())
    assert verdicts(deltas) == [
        {"of": "prompt", "results": {"jailbreak": {"filtered": False, "detected": True}}}
    ]


def test_verdicts_that_come_after_the_words_they_are_about() -> None:
    """The asynchronous filter: chunks without a delta, also after the reason."""
    late = {
        "choices": [
            {
                "index": 0,
                "finish_reason": None,
                "content_filter_results": VIOLENT,
                "content_filter_offsets": {"check_offset": 0, "start_offset": 0, "end_offset": 4},
            }
        ],
        "id": "",
        "object": "",
        "created": 0,
        "model": "",
    }
    done = wire.chunk({}, "stop") + wire.data(late) + wire.chunk({}, "content_filter") + wire.DONE
    deltas = read(wire.text("Once") + done)
    assert verdicts(deltas) == [{"of": "answer", "results": {"violence": HIGH}}]
    assert compose([deltas]).status == "incomplete"


def test_a_finding_between_verdicts_that_are_all_alike() -> None:
    verdicts_of = {"a": SAFE, "b": SAFE, "c": VIOLENT, "d": SAFE, "e": {}, "f": VIOLENT}
    deltas = read(*(filtered({"content": text}, results) for text, results in verdicts_of.items()))
    assert [delta.text if isinstance(delta, TextDelta) else "!" for delta in deltas[:-1]] == list("ab!cde!f")


@pytest.mark.parametrize("odd", [{}, None, 7, [None], [{"content_filter_results": []}]])
def test_odd_verdicts_are_survived(odd: Any) -> None:
    choice = {"index": 0, "delta": {"content": "Hi"}, "content_filter_results": odd}
    deltas = read(wire.data({"choices": [choice], "prompt_filter_results": odd}) + wire.finish())
    assert verdicts(deltas) == []
    assert told(compose([deltas])) == ["Hi"]


def test_a_verdict_in_another_encoding_does_not_end_the_answer() -> None:
    odd = filtered({"content": "Hi"}, {"error": {"message": "MARK"}}).replace(b"MARK", b"filtr\xe9")
    deltas = read(odd + wire.finish())
    assert verdicts(deltas) == []
    assert told(compose([deltas])) == ["Hi"]


def test_a_filter_that_failed_is_no_finding() -> None:
    broken = {"error": {"code": "content_filter_error", "message": "The contents are not filtered"}}
    deltas = read(filtered({"content": "Hi"}, broken) + wire.finish())
    assert verdicts(deltas) == []


def test_the_words_of_an_answer_are_no_verdict() -> None:
    deltas = read(wire.text('{"filtered":true}') + wire.finish())
    assert verdicts(deltas) == []
    assert told(compose([deltas])) == ['{"filtered":true}']


@pytest.mark.parametrize("size", [1, 7, 100])
def test_any_cut_of_the_bytes_gives_the_same_deltas(size: int) -> None:
    stream = prompt_chunk() + filtered({"content": "Grüße"}, VIOLENT) + wire.finish()
    whole = read(stream)
    assert read(*(stream[n : n + size] for n in range(0, len(stream), size))) == whole


async def test_verdicts_of_a_whole_answer(upstream: FakeAzure, http: UpstreamClient) -> None:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Once"},
        "finish_reason": "content_filter",
        "content_filter_results": VIOLENT,
    }
    body = wire.data({**wire.HEAD, "object": "chat.completion", "choices": [choice]}).removeprefix(b"data: ")
    upstream.says(Wire([body], headers={"content-type": "application/json"}))
    deltas = [
        delta
        for batch in await batches(configured(upstream, http), make_turn(stream=False))
        for delta in batch
    ]
    assert verdicts(deltas) == [{"of": "answer", "results": {"violence": HIGH}}]
    assert compose([deltas]).status == "incomplete"


async def test_a_prompt_that_is_refused(upstream: FakeAzure, http: UpstreamClient) -> None:
    upstream.says(refusal(400, policy_violation(), apim_request_id="apim-2"))
    with pytest.raises(UpstreamError) as caught:
        await batches(configured(upstream, http), make_turn())
    error = caught.value.payload
    assert (caught.value.status, error.type, error.code) == (400, "invalid_request", "content_filter")
    assert error.param == "input"
    assert error.message.endswith("policy. (violence: high) (upstream request id apim-2)")


@pytest.mark.parametrize(
    ("status", "body", "code", "as_status"),
    [
        (
            404,
            b'{"error":{"code":"DeploymentNotFound","message":"It does not exist."}}',
            "model_not_found",
            404,
        ),
        (404, b'{"error":{"code":"404","message":"Resource not found"}}', "upstream_error", 502),
        (
            429,
            b'{"error":{"code":"429","message":"Please retry after 7 seconds."}}',
            "rate_limit_exceeded",
            429,
        ),
        (
            400,
            b'{"error":{"code":"context_length_exceeded","message":"maximum context length"}}',
            "context_length_exceeded",
            400,
        ),
        (503, b'{"error":{"code":"503","message":"The service is busy"}}', "model_overloaded", 503),
    ],
)
async def test_errors(
    upstream: FakeAzure,
    http: UpstreamClient,
    status: int,
    body: bytes,
    code: str,
    as_status: int,
) -> None:
    upstream.says(refusal(status, body, retry_after="7"))
    with pytest.raises(UpstreamError) as caught:
        await batches(configured(upstream, http), make_turn())
    assert (caught.value.payload.code, caught.value.status) == (code, as_status)
    assert caught.value.retry_after == (7 if as_status in (429, 503) else None)


async def test_a_bad_request_is_seen(upstream: FakeAzure) -> None:
    """The check itself: it must see what a lenient one lets through."""
    headers = {"api-key": KEY}
    path, query = "/openai/deployments/m/chat/completions", f"api-version={VERSION}"
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    assert upstream.mistakes(Received("POST", path, headers, body, query)) == []
    for bad in (
        Received("POST", path, headers, body),
        Received("POST", "/openai/v1/chat/completions", headers, body, query),
        Received("POST", "/v1/chat/completions", headers, body, query),
        Received("POST", path, {}, body, query),
        Received("POST", path, headers, {**body, "data_sources": []}, query),
        Received("POST", path, headers, {**body, "messages": [{"role": "bogus", "content": "x"}]}, query),
    ):
        assert len(upstream.mistakes(bad)) >= 1


async def test_tools(upstream: FakeAzure, http: UpstreamClient) -> None:
    upstream.plays(Script((Text("Look:"), Called("f", '{"a":1}')), "tool_calls"))
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    made = await answer(configured(upstream, http), make_turn({"input": "x", "tools": [tool]}))
    assert told(made) == ["Look:", ("f", '{"a":1}', "call_1")]
