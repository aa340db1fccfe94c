"""The `responses` provider over HTTP, on a real socket: answers, errors, and the way back to chat."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, Secret, UpstreamTimeouts, load
from antiphon.providers import responses
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES, create_provider
from antiphon.providers.responses import OpenResponses, ResponsesSettings
from antiphon.providers.responses.quirks import QUIRKS
from antiphon.stream.deltas import Failure, TextDelta
from tests.providers.build import build, environment
from tests.providers.chat.fake import FakeChat
from tests.providers.chat.wire import Answer, ToolCall
from tests.providers.compose import answer, answering, batches, compose, make_turn, patience, plain, told
from tests.providers.conformance.said import Called, Script, Text
from tests.providers.fake_server import SOON, Step, Wire, refusal, refusing_address
from tests.providers.responses import wire
from tests.providers.responses.fake import FakeResponses

KEY = "sk-very-secret-key"
SHORT = UpstreamTimeouts(first_byte=0.1)
PAGE = Path(__file__).parents[3] / "docs" / "providers" / "responses.md"
Made = Callable[..., OpenResponses]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeResponses]:
    async with FakeResponses() as fake:
        yield fake


@pytest.fixture
def made(http: UpstreamClient, upstream: FakeResponses) -> Made:
    def make(base_url: str = upstream.base_url, **options: Any) -> OpenResponses:
        return build(OpenResponses, "up", http, base_url, **{"quirks": "openai", **options})

    return make


async def failed(provider: OpenResponses, **options: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn(**options))
    return caught.value


# --- answers ----------------------------------------------------------------------------------------------


async def test_the_first_batch_is_empty_and_comes_with_the_headers(
    upstream: FakeResponses, made: Made
) -> None:
    gate = asyncio.Event()
    events = [*map(wire.sse, wire.events(Script((Text("Hello"),)), {}))]
    upstream.says(Wire([gate, *events[:5], Step.HANG]))
    async with aclosing(answering(made(), make_turn())) as stream:
        assert await anext(stream) == []
        gate.set()
        assert TextDelta("Hello") in [delta async for batch in _until_text(stream) for delta in batch]


async def _until_text(stream: Any) -> AsyncIterator[list[Any]]:
    async for batch in stream:
        yield batch
        if any(isinstance(delta, TextDelta) for delta in batch):
            return


async def test_a_plain_answer_is_one_batch(upstream: FakeResponses, made: Made) -> None:
    upstream.says(Script((Text("Hello."),)))
    [batch] = await batches(made(), make_turn(stream=False))
    assert told(compose([batch])) == ["Hello."]
    assert "stream" not in upstream.body


async def test_a_server_that_does_not_stream(upstream: FakeResponses, made: Made) -> None:
    body = json.dumps(wire.whole(Script((Text("Hello."),)), {})).encode()
    upstream.says(refusal(200, body))
    assert told(await answer(made(), make_turn())) == ["Hello."]


@pytest.mark.parametrize("path", ["", "/", "/responses", "/responses/"])
async def test_base_urls(upstream: FakeResponses, made: Made, path: str) -> None:
    upstream.says(Script((Text("Hello."),)))
    assert told(await answer(made(upstream.base_url + path), make_turn())) == ["Hello."]
    assert upstream.requests[-1].path == "/v1/responses"


async def test_keys_and_headers_are_sent(upstream: FakeResponses, made: Made) -> None:
    provider = made(api_key=Secret(KEY), headers={"OpenAI-Organization": Secret("org-1")})
    await batches(provider, make_turn())
    headers = upstream.requests[-1].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["openai-organization"] == "org-1"


async def test_a_connection_survives_a_whole_answer(upstream: FakeResponses, made: Made) -> None:
    provider = made()
    for _ in range(3):
        upstream.says(Script((Text("Hello."),)))
        await answer(provider, make_turn())
        async with asyncio.timeout(SOON):
            while provider._http.pool.lingering:  # noqa: ASYNC110
                await asyncio.sleep(0)
    assert upstream.connections == 1


@pytest.mark.parametrize("name", sorted(QUIRKS))
async def test_every_kind_of_server_gets_an_answer_through(http: UpstreamClient, name: str) -> None:
    async with FakeResponses(strict=False) as upstream:
        upstream.says(Script((Text("Look."), Called("f", '{"a":1}'))))
        provider = upstream.made(http, name)
        request = {"input": "Hi", "tools": [{"type": "function", "name": "f"}]}
        assert told(await answer(provider, make_turn(request))) == ["Look.", ("f", '{"a":1}', "call_1")]


# --- failures ---------------------------------------------------------------------------------------------


async def test_nobody_listens(made: Made) -> None:
    with refusing_address() as address:
        error = await failed(made(address))
    assert (error.status, error.payload.code) == (502, "upstream_unreachable")


@pytest.mark.parametrize(
    ("status", "body", "expected", "code"),
    [
        (400, wire.error("no", code="context_length_exceeded"), 400, "context_length_exceeded"),
        (400, wire.error("flagged", code="content_policy_violation"), 400, "content_filter"),
        (400, wire.error("Unknown parameter: 'x'.", code="unknown_parameter"), 400, "unknown_parameter"),
        (400, wire.error("no", code="invalid_encrypted_content"), 400, "invalid_encrypted_content"),
        (401, wire.error("no"), 502, "upstream_auth"),
        (403, wire.error("no"), 502, "upstream_auth"),
        (404, wire.error("The model `m` does not exist", code="model_not_found"), 404, "model_not_found"),
        (429, wire.error("slow down", code="rate_limit_exceeded"), 429, "rate_limit_exceeded"),
        (429, wire.error("no money", code="insufficient_quota"), 429, "insufficient_quota"),
        (500, wire.error("boom", "server_error"), 500, "upstream_error"),
        (503, wire.error("The engine is currently overloaded", "server_error"), 503, "model_overloaded"),
    ],
)
async def test_refusals(
    upstream: FakeResponses, made: Made, status: int, body: bytes, expected: int, code: str
) -> None:
    upstream.says(refusal(status, body, x_request_id="req_7", retry_after="3"))
    error = await failed(made())
    assert (error.status, error.payload.code) == (expected, code)
    assert "req_7" in error.payload.message
    assert error.retry_after == (3.0 if expected in (429, 503) else None)


@pytest.mark.parametrize(
    "told",
    [
        {"code": "invalid_encrypted_content", "message": "The encrypted content rs_1 could not be verified."},
        {"code": None, "message": "no such key", "param": "input[0].encrypted_content"},
    ],
)
async def test_reasoning_that_the_server_cannot_read_is_taken_out_once(
    upstream: FakeResponses, made: Made, told: dict[str, Any]
) -> None:
    said = {"type": "invalid_request_error", "param": None, **told}
    upstream.says(refusal(400, json.dumps({"error": said}).encode()), Script((Text("Hello."),)))
    foreign = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAforeign"}
    turn = make_turn({"input": [foreign, {"type": "message", "role": "user", "content": "Hi"}]})
    assert TextDelta("Hello") in [delta for batch in await batches(made(), turn) for delta in batch]
    first, second = (call.body["input"] for call in upstream.requests)
    assert [item["type"] for item in first] == ["reasoning", "message"]
    assert [item["type"] for item in second] == ["message"]
    assert ("input", "suppressed") in [(one.param, one.action) for one in turn.receipts]


async def test_a_server_that_cannot_read_it_is_asked_again_no_more_than_once(
    upstream: FakeResponses, made: Made
) -> None:
    said = {"type": "invalid_request_error", "code": "invalid_encrypted_content", "message": "no"}
    upstream.says(*[refusal(400, json.dumps({"error": said}).encode()) for _ in range(3)])
    error = await failed(made(), request={"input": [{"type": "message", "role": "user", "content": "Hi"}]})
    assert (error.payload.code, len(upstream.requests)) == ("invalid_encrypted_content", 1)
    foreign = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAforeign"}
    await failed(made(), request={"input": [foreign, {"type": "message", "role": "user", "content": "Hi"}]})
    assert len(upstream.requests) == 3


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([Step.CLOSE], "upstream_closed"),
        ([Step.RESET], "upstream_closed"),
        ([Step.HANG], "timeout"),
        ([b"data: {nonsense\n\n"], "upstream_invalid"),
    ],
)
async def test_late_failures_keep_what_was_said(
    upstream: FakeResponses, made: Made, pieces: list[Any], code: str
) -> None:
    events = [*map(wire.sse, wire.events(Script((Text("Once upon"),), ending="cut"), {}))]
    upstream.says(Wire([*events, *pieces]))
    response = await answer(made(timeouts=patience(code)), make_turn())
    assert told(response) == ["!Once upon"]
    assert response.error is not None
    assert response.error.code == code


async def test_a_server_that_never_answers(upstream: FakeResponses, made: Made) -> None:
    upstream.says(Wire([Step.HANG], framing="raw"))
    error = await failed(made(timeouts=SHORT))
    assert (error.status, error.payload.code) == (504, "timeout")


async def test_the_upstreams_401_is_not_the_clients_and_keys_are_never_shown(http: UpstreamClient) -> None:
    async with FakeResponses(api_key="another") as upstream:
        error = await failed(upstream.made(http, api_key=Secret(KEY)))
        assert error.status == 502
        assert KEY not in error.payload.message
        told = {"type": "error", "message": f"the key {KEY} is no good"}
        provider = upstream.made(http, api_key=Secret("another"), headers={"X-Own": Secret(KEY)})
        upstream.says([told])
        [*_, failure] = [delta for batch in await batches(provider, make_turn()) for delta in batch]
    assert isinstance(failure, Failure)
    assert KEY not in failure.error.message


async def test_closing_the_stream_closes_the_upstream(upstream: FakeResponses, made: Made) -> None:
    upstream.says(Wire([*map(wire.sse, wire.events(Script((Text("a"),), ending="cut"), {})), Step.HANG]))
    async with aclosing(answering(made(), make_turn())) as stream:
        await anext(stream)
        await anext(stream)
    await asyncio.wait_for(upstream.gone.wait(), SOON)


@pytest.mark.parametrize("streamed", [True, False])
async def test_cancelling_closes_the_upstream(upstream: FakeResponses, made: Made, streamed: bool) -> None:
    upstream.says(Wire([Step.HANG]))
    task = asyncio.create_task(batches(made(), make_turn(stream=streamed)))
    await asyncio.wait_for(upstream.asked.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(upstream.gone.wait(), SOON)


# --- the way back to chat ---------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_a_server_without_responses_is_asked_through_chat(
    http: UpstreamClient, made: Made, streamed: bool
) -> None:
    async with FakeChat(strict=False) as chat:
        chat.says(Answer("One."), Answer("Two."))
        provider = made(chat.base_url, quirks="open_responses")
        items = [
            {"role": "user", "content": "Hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "blob"},
        ]
        turn = make_turn({"input": items, "prompt_cache_key": "k"}, stream=streamed)
        assert told(await answer(provider, turn)) == ["One."]
        found = [(one.param, one.action) for one in turn.receipts]
        assert ("model", "fallback") in found
        assert ("prompt_cache_key", "dropped") in found
        assert [one.path for one in chat.requests] == ["/v1/responses", "/v1/chat/completions"]
        assert "blob" not in json.dumps(chat.body)
        # It is remembered, so the next turn goes there at once.
        again = make_turn(stream=streamed)
        assert told(await answer(provider, again)) == ["Two."]
        assert [one.path for one in chat.requests[2:]] == ["/v1/chat/completions"]
        assert [one.action for one in again.receipts] == ["fallback"]


async def test_reasoning_of_the_way_back_goes_back_in_a_tool_loop(http: UpstreamClient, made: Made) -> None:
    async with FakeChat(strict=False) as chat:
        chat.says(Answer(reasoning="Hm.", calls=(ToolCall("look", "{}", "a"),)), Answer("Done."))
        provider = made(chat.base_url, quirks="open_responses")
        asked = [{"role": "user", "content": "Look."}]
        first = compose(await batches(provider, make_turn({"input": asked})))
        result = {"type": "function_call_output", "call_id": "a", "output": "x"}
        items = [*asked, *plain(first)["output"], result]
        assert told(await answer(provider, make_turn({"input": items}))) == ["Done."]
        assert chat.body["messages"][1]["reasoning_content"] == "Hm."


async def test_the_memory_of_a_missing_address_fades(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "_REMEMBERED", 0.0)
    async with FakeChat() as chat:
        provider = made(chat.base_url)
        for _ in range(2):
            await batches(provider, make_turn())
        assert [one.path for one in chat.requests] == ["/v1/responses", "/v1/chat/completions"] * 2


async def test_strict_mode_does_not_forbid_the_way_back(made: Made) -> None:
    async with FakeChat() as chat:
        turn = make_turn()
        turn.strict = True
        assert told(await answer(made(chat.base_url), turn)) == ["Hi"]


async def test_without_the_way_back_it_is_an_error(made: Made) -> None:
    async with FakeChat() as chat:
        error = await failed(made(chat.base_url, fallback=False))
    assert (error.status, error.payload.code) == (502, "upstream_error")
    assert "base_url" in error.payload.message


async def test_a_server_that_has_neither_is_an_error(upstream: FakeResponses, made: Made) -> None:
    error = await failed(made(f"{upstream.base_url}/wrong"))
    assert (error.status, error.payload.code) == (502, "upstream_error")
    assert [one.path for one in upstream.requests] == ["/v1/wrong/responses", "/v1/wrong/chat/completions"]


async def test_an_unknown_model_is_no_reason_to_fall_back(upstream: FakeResponses, made: Made) -> None:
    upstream.says(refusal(404, wire.error("The model `m` does not exist", code="model_not_found")))
    error = await failed(made())
    assert error.payload.code == "model_not_found"
    assert len(upstream.requests) == 1


async def test_lm_studio_before_it_had_responses(http: UpstreamClient, upstream: FakeResponses) -> None:
    upstream.says(refusal(200, b'{"error":"Unexpected endpoint or method. (POST /v1/responses)"}'))
    error = await failed(build(OpenResponses, "up", http, upstream.base_url, quirks="openai", fallback=False))
    assert "base_url" in error.payload.message


# --- beside a turn ----------------------------------------------------------------------------------------


async def test_counting_tokens(upstream: FakeResponses, made: Made, http: UpstreamClient) -> None:
    count = await made().count_tokens(make_turn({"input": "Hi", "temperature": 0.5}))
    assert count == len(json.dumps(upstream.body))
    assert upstream.requests[-1].path == "/v1/responses/input_tokens"
    assert await made(quirks="ollama").count_tokens(make_turn()) is None
    async with FakeChat() as chat:
        assert await made(chat.base_url).count_tokens(make_turn()) is None


async def test_counting_tokens_can_be_refused(http: UpstreamClient) -> None:
    async with FakeResponses(api_key="another") as upstream:
        with pytest.raises(UpstreamError):
            await upstream.made(http, "open_responses").count_tokens(make_turn())


async def test_models(upstream: FakeResponses, made: Made) -> None:
    provider = made()
    assert await provider.models() == [wire.MODEL]
    assert await provider.models() == [wire.MODEL]
    assert [one.path for one in upstream.requests] == ["/v1/models"]


# --- configuration ----------------------------------------------------------------------------------------


async def test_made_from_a_configuration(
    upstream: FakeResponses, http: UpstreamClient, tmp_path: Path
) -> None:
    config = ResponsesSettings(
        type="responses",
        name="up",
        base_url=upstream.base_url,
        api_key=Secret(KEY),
        quirks="openai",
        tool_history="comment",
        system_prompt="both",
        fallback=False,
    )
    provider = create_provider(config, environment(http, tmp_path))
    assert isinstance(provider, OpenResponses)
    assert (provider.quirks.tool_history, provider.quirks.system_prompt) == ("comment", "both")
    upstream.says(Script((Text("Hello."),)))
    assert told(await answer(provider, make_turn({"input": "Hi", "instructions": "Brief."}))) == ["Hello."]
    assert upstream.body["instructions"] == "Brief."
    assert upstream.body["input"][0]["role"] == "developer"


def examples(folder: Path) -> list[Config]:
    found = []
    for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        (folder / "antiphon.toml").write_text(text, encoding="utf-8")
        variables = {"HOME": str(folder), "OPENAI_API_KEY": "sk-1", "AI_GATEWAY_API_KEY": "k-1"}
        found.append(load(folder / "antiphon.toml", variables, types=TYPES))
    return found


async def test_the_examples_of_the_docs_load(tmp_path: Path, http: UpstreamClient) -> None:
    configs = examples(tmp_path)
    assert configs
    for config in configs:
        for name, provider in config.providers.items():
            if provider.type == "responses":
                assert create_provider(provider, environment(http, tmp_path)).name == name


def test_every_quirk_is_documented_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert QUIRKS.keys() <= rows.keys()
    for name, quirks in QUIRKS.items():
        cells = [cell.strip() for cell in rows[name].split("|")]
        yes_or_no = [quirks.extended, quirks.hosted, quirks.proofs, quirks.json_object, quirks.files]
        assert cells[:5] == ["yes" if has else "no" for has in yes_or_no], name
