"""The gemini provider against a fake of Google's API on a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.config import Secret, load
from antiphon.providers.base import UpstreamError
from antiphon.providers.gemini import BASE_URL, Gemini, GeminiSettings
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES, create_provider
from antiphon.stream.deltas import Failure, TextDelta
from tests.providers.build import build, environment
from tests.providers.compose import answer, answering, batches, compose, make_turn, patience, told
from tests.providers.conformance.said import Called, Script, Text
from tests.providers.fake_server import SOON, Step, Wire, refusal, refusing_address
from tests.providers.gemini.fake import KEY, MODEL, FakeGemini, data, error, mistakes, sse

PAGE = Path(__file__).parents[3] / "docs/providers/gemini.md"


@pytest.fixture
async def upstream() -> AsyncIterator[FakeGemini]:
    async with FakeGemini() as fake:
        yield fake


@pytest.fixture
def gemini(http: UpstreamClient, upstream: FakeGemini) -> Gemini:
    return build(Gemini, "up", http, upstream.base_url, api_key=Secret(KEY))


async def failed(provider: Gemini, request: Any = "Hi", **options: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn(request, **{"model": MODEL, **options}))
    return caught.value


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer(upstream: FakeGemini, gemini: Gemini, stream: bool) -> None:
    upstream.says(Script((Text("Grüße, 世界"), Called("f", '{"a": 1}', "id-1"))))
    made = await answer(gemini, make_turn("Hi", model=MODEL, stream=stream))
    assert told(made) == ["Grüße, 世界", ("f", '{"a":1}', "id-1")]
    [received] = upstream.requests
    method = "streamGenerateContent" if stream else "generateContent"
    assert received.path == f"/v1beta/models/{MODEL}:{method}"
    assert received.query == ("alt=sse" if stream else "")
    assert mistakes(received.body) == []


async def test_the_first_batch_is_empty_and_comes_with_the_headers(
    upstream: FakeGemini, gemini: Gemini
) -> None:
    gate = asyncio.Event()
    upstream.says(Wire([gate, sse({"text": "a"}), Step.HANG]))
    async with aclosing(answering(gemini, make_turn("Hi", model=MODEL))) as stream:
        assert await anext(stream) == []
        gate.set()
        assert await anext(stream) == [TextDelta("a")]
    async with asyncio.timeout(SOON):
        await upstream.gone.wait()


async def test_the_key_stands_in_a_header_and_nowhere_else(upstream: FakeGemini, gemini: Gemini) -> None:
    await answer(gemini, make_turn("Hi", model=MODEL))
    await gemini.models()
    await gemini.count_tokens(make_turn("Hi", model=MODEL))
    assert len(upstream.requests) == 4
    for received in upstream.requests:
        assert received.headers["x-goog-api-key"] == KEY
        assert KEY not in received.path + received.query + json.dumps(received.body)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3.5-flash", "models/gemini-3.5-flash"),
        ("models/gemini-3.5-flash", "models/gemini-3.5-flash"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
    ],
)
async def test_names_of_models(upstream: FakeGemini, gemini: Gemini, model: str, path: str) -> None:
    assert gemini._url(model, "generateContent") == f"{upstream.base_url}/{path}:generateContent"


@pytest.mark.parametrize(
    "model", ["../files", "a/../../b", "a:delete?x", "a b", "", "/a", "a//b", "a#b", "a%2fb", "ä"]
)
async def test_a_name_leads_nowhere_else(upstream: FakeGemini, gemini: Gemini, model: str) -> None:
    caught = await failed(gemini, model=model)
    assert (caught.status, caught.payload.code, caught.payload.param) == (404, "model_not_found", "model")
    assert upstream.requests == []


async def test_counting(upstream: FakeGemini, gemini: Gemini) -> None:
    request = {"input": "Hi", "instructions": "Be brief.", "tools": [{"type": "function", "name": "f"}]}
    count = await gemini.count_tokens(make_turn(request, model=MODEL))
    [received] = upstream.requests
    assert received.path == f"/v1beta/models/{MODEL}:countTokens"
    assert count == len(json.dumps(received.body))
    counted = received.body["generateContentRequest"]
    assert counted.pop("model") == f"models/{MODEL}"
    assert mistakes(counted) == []


async def test_models_of_all_pages_are_asked_for_once(upstream: FakeGemini, gemini: Gemini) -> None:
    assert await gemini.models() == [MODEL]
    assert await gemini.models() == [MODEL]
    assert [received.query for received in upstream.requests] == [
        "pageSize=1000",
        "pageSize=1000&pageToken=more",
    ]


async def test_no_models_when_nobody_answers(http: UpstreamClient) -> None:
    with refusing_address() as address, pytest.raises(UpstreamError, match="refused"):
        await build(Gemini, "up", http, address).models()


# --- what goes wrong --------------------------------------------------------------------------------------

RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.5s"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."


@pytest.mark.parametrize(
    ("status", "name", "message", "details", "expected"),
    [
        (400, "INVALID_ARGUMENT", "Bad value at 'x'", (), (400, "invalid_request", "INVALID_ARGUMENT")),
        (400, "INVALID_ARGUMENT", TOO_LONG, (), (400, "invalid_request", "context_length_exceeded")),
        (400, "INVALID_ARGUMENT", "API key expired.", (), (502, "server_error", "upstream_auth")),
        (
            400,
            "FAILED_PRECONDITION",
            "Not in your country.",
            (),
            (400, "invalid_request", "FAILED_PRECONDITION"),
        ),
        (401, "UNAUTHENTICATED", "Who?", (), (502, "server_error", "upstream_auth")),
        (403, "PERMISSION_DENIED", "No.", (), (502, "server_error", "upstream_auth")),
        (404, "NOT_FOUND", "models/x is not found", (), (404, "not_found", "model_not_found")),
        (429, "RESOURCE_EXHAUSTED", "Slow.", (), (429, "too_many_requests", "rate_limit_exceeded")),
        (429, "RESOURCE_EXHAUSTED", QUOTA, (RETRY,), (429, "too_many_requests", "rate_limit_exceeded")),
        (429, "RESOURCE_EXHAUSTED", QUOTA, (), (429, "too_many_requests", "insufficient_quota")),
        (500, "INTERNAL", "Oh.", (), (500, "model_error", "upstream_error")),
        (503, "UNAVAILABLE", "The model is overloaded.", (), (503, "server_error", "model_overloaded")),
        (504, "DEADLINE_EXCEEDED", "Late.", (), (504, "server_error", "timeout")),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_refusals(
    upstream: FakeGemini,
    gemini: Gemini,
    stream: bool,
    status: int,
    name: str,
    message: str,
    details: tuple[Any, ...],
    expected: tuple[int, str, str],
) -> None:
    body = error(status, name, message, *details)
    upstream.says(refusal(status, b"[" + body + b"]" if stream else body, x_request_id="req-7"))
    caught = await failed(gemini, stream=stream)
    assert (caught.status, caught.payload.type, caught.payload.code) == expected
    assert caught.payload.message.startswith("up: ")
    assert "req-7" in caught.payload.message
    assert caught.retry_after == (37.5 if details else None)


async def test_a_refusal_with_the_older_list_of_errors(upstream: FakeGemini, gemini: Gemini) -> None:
    inner = {"message": TOO_LONG, "domain": "global", "reason": "badRequest"}
    told = {"code": 400, "message": TOO_LONG, "errors": [inner], "status": "INVALID_ARGUMENT"}
    upstream.says(refusal(400, json.dumps([{"error": told}]).encode()))
    caught = await failed(gemini)
    assert (caught.payload.code, caught.payload.param) == ("context_length_exceeded", "input")


async def test_an_error_in_the_stream_keeps_its_status(upstream: FakeGemini, gemini: Gemini) -> None:
    inner = {"message": "Slow.", "domain": "global", "reason": "rateLimitExceeded"}
    told = {"code": 429, "message": "Slow.", "errors": [inner], "status": "RESOURCE_EXHAUSTED"}
    upstream.says(Wire([sse({"text": "A"}), data({"error": told})]))
    last = (await batches(gemini, make_turn("Hi", model=MODEL)))[-1][-1]
    assert isinstance(last, Failure)
    assert last.error.code == "rate_limit_exceeded"


@pytest.mark.parametrize("key", [KEY, "wrong-key-of-mine"])
async def test_a_key_is_never_shown(http: UpstreamClient, upstream: FakeGemini, key: str) -> None:
    provider = build(
        Gemini, "up", http, upstream.base_url, api_key=Secret(key), headers={"X-A": Secret("own-secret")}
    )
    if key == KEY:
        told = f"Bad request of {key} with own-secret and AIzaSyAnotherKeyOfSomebody"
        upstream.says(refusal(400, error(400, "INVALID_ARGUMENT", told)))
    caught = await failed(provider)
    assert key not in caught.payload.message
    assert "own-secret" not in caught.payload.message
    assert "AnotherKey" not in caught.payload.message
    if key != KEY:
        assert caught.payload.code == "upstream_auth"


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([sse({"text": "A"}), Step.CLOSE], "upstream_closed"),
        ([sse({"text": "A"}), Step.RESET], "upstream_closed"),
        ([sse({"text": "A"})], "upstream_closed"),
        ([sse({"text": "A"}), Step.HANG], "timeout"),
        ([sse({"text": "A"}), b"data: oh\n\n", Step.HANG], "upstream_invalid"),
    ],
    ids=["closed", "reset", "ended", "silent", "nonsense"],
)
async def test_streams_that_break(
    upstream: FakeGemini, http: UpstreamClient, pieces: list[Any], code: str
) -> None:
    provider = build(Gemini, "up", http, upstream.base_url, api_key=Secret(KEY), timeouts=patience(code))
    upstream.says(Wire(pieces))
    made = compose(await batches(provider, make_turn("Hi", model=MODEL)))
    assert made.error is not None
    assert (made.status, made.error.code, told(made)) == ("failed", code, ["!A"])


async def test_nobody_there(http: UpstreamClient) -> None:
    with refusing_address() as address:
        caught = await failed(build(Gemini, "up", http, address))
    assert (caught.status, caught.payload.code) == (502, "upstream_unreachable")


async def test_a_web_page(upstream: FakeGemini, gemini: Gemini) -> None:
    upstream.says(Wire([b"<html>"], headers={"content-type": "text/html"}))
    assert (await failed(gemini)).payload.code == "upstream_invalid"


# --- configuration ----------------------------------------------------------------------------------------


async def test_made_from_a_configuration(upstream: FakeGemini, http: UpstreamClient, tmp_path: Path) -> None:
    config = GeminiSettings(
        type="gemini",
        name="up",
        base_url=upstream.base_url,
        api_key=Secret(KEY),
        headers={"X-Title": Secret("t")},
    )
    provider = create_provider(config, environment(http, tmp_path))
    assert told(await answer(provider, make_turn("Hi", model=MODEL))) == ["Hello"]
    [received] = upstream.requests
    assert received.headers["x-title"] == "t"


async def test_the_address_need_not_be_told(http: UpstreamClient) -> None:
    provider = build(Gemini, "up", http)
    assert provider._url("m", "generateContent") == f"{BASE_URL}/models/m:generateContent"


def test_the_example_of_the_docs_loads(tmp_path: Path) -> None:
    example = PAGE.read_text().split("```toml\n")[1].split("```")[0]
    file = tmp_path / "antiphon.toml"
    file.write_text(example)
    config = load(file, environ={"GEMINI_API_KEY": "k"}, types=TYPES)
    provider = config.providers["google"]
    assert isinstance(provider, GeminiSettings)
    assert provider.api_key is not None
    assert provider.api_key.reveal() == "k"


def test_every_key_of_the_configuration_is_documented() -> None:
    page = PAGE.read_text()
    own = GeminiSettings.filled_in | {"type"}
    for field in msgspec.structs.fields(GeminiSettings):
        assert field.name in own or f"`{field.name}`" in page, field.name
