"""The fakes are true: Google's own SDK talks to them, and its types judge our requests."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from google.oauth2 import credentials

from tests.providers.conformance.said import Called, Counted, Script, Text, Thought
from tests.providers.fake_server import refusal
from tests.providers.gemini.fake import KEY, MODEL, PROJECT, FakeGemini, FakeVertex, error, mistakes
from tests.providers.gemini.sdk import errors, genai, types

QUESTION: Any = "What is the weather in Paris?"
GOOD: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "generationConfig": {"temperature": 1, "thinkingConfig": {"thinkingLevel": "LOW"}},
}


@pytest.fixture(params=["gemini", "vertex"])
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[FakeGemini]:
    async with FakeGemini() if request.param == "gemini" else FakeVertex() as fake:
        yield fake


@pytest.fixture
async def sdk(upstream: FakeGemini) -> AsyncIterator[Any]:
    address = upstream.base_url.removesuffix(upstream.prefix)
    async with httpx.AsyncClient() as client:
        # With aiohttp, which it would choose, this SDK warns about itself.
        version = upstream.prefix[1:]
        options = types.HttpOptions(base_url=address, api_version=version, httpx_async_client=client)
        if isinstance(upstream, FakeVertex):
            known: Any = credentials.Credentials
            made = genai.Client(
                enterprise=True,
                project=PROJECT,
                location="us-central1",
                credentials=known(upstream.token),
                http_options=options,
            )
        else:
            made = genai.Client(api_key=KEY, http_options=options)
        yield made.aio.models
        made.close()


async def test_whole(upstream: FakeGemini, sdk: Any) -> None:
    upstream.says(Script((Thought("Hm."), Text("It rains.")), usage=Counted(20, 9, cached=3, reasoning=4)))
    config = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))
    made = await sdk.generate_content(model=MODEL, contents=QUESTION, config=config)
    assert made.text == "It rains."
    assert [(part.text, part.thought) for part in made.parts] == [("Hm.", True), ("It rains.", None)]
    assert made.candidates[0].finish_reason == types.FinishReason.STOP
    counted = made.usage_metadata
    assert (counted.prompt_token_count, counted.candidates_token_count) == (20, 5)
    assert (counted.thoughts_token_count, counted.cached_content_token_count) == (4, 3)


async def test_streaming(upstream: FakeGemini, sdk: Any) -> None:
    upstream.says(Script((Text("It rains in Paris, 東京 too."),), ending="length"))
    stream = await sdk.generate_content_stream(model=MODEL, contents=QUESTION)
    chunks = [one async for one in stream]
    assert "".join(one.text for one in chunks) == "It rains in Paris, 東京 too."
    assert len(chunks) > 1
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    assert chunks[-1].usage_metadata.total_token_count == 29


@pytest.mark.parametrize("streams", [False, True])
async def test_tools_and_signatures(upstream: FakeGemini, sdk: Any, streams: bool) -> None:
    upstream.says(
        Script((Thought("Look.", "c2lnbmF0dXJl"), Called("get_weather", '{"city": "Paris"}', "id-1")))
    )
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="get_weather")])
    config = types.GenerateContentConfig(
        tools=[tool], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )
    asked: dict[str, Any] = {"model": MODEL, "contents": QUESTION, "config": config}
    if streams:
        answers = [one async for one in await sdk.generate_content_stream(**asked)]
    else:
        answers = [await sdk.generate_content(**asked)]
    parts = [part for one in answers for part in one.candidates[0].content.parts if part.function_call]
    assert [(one.function_call.name, one.function_call.args, one.function_call.id) for one in parts] == [
        ("get_weather", {"city": "Paris"}, "id-1")
    ]
    assert parts[0].thought_signature == b"signature"
    assert mistakes(upstream.body) == []


async def test_errors(upstream: FakeGemini, sdk: Any) -> None:
    upstream.says(refusal(429, error(429, "RESOURCE_EXHAUSTED", "Slow down.")))
    with pytest.raises(errors.ClientError) as caught:
        await sdk.generate_content(model=MODEL, contents=QUESTION)
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert caught.value.message == "Slow down."


async def test_an_error_in_the_stream(upstream: FakeGemini, sdk: Any) -> None:
    upstream.says(Script((Text("It"),), ending="error"))
    with pytest.raises(errors.ServerError) as caught:
        async for _ in await sdk.generate_content_stream(model=MODEL, contents=QUESTION):
            pass
    assert caught.value.status == "INTERNAL"


async def test_counting_and_listing(upstream: FakeGemini, sdk: Any) -> None:
    counted = await sdk.count_tokens(model=MODEL, contents=QUESTION)
    assert counted.total_tokens > 0
    if not isinstance(upstream, FakeVertex):
        names = [one.name async for one in await sdk.list()]
        assert names == [f"models/{MODEL}", "models/embedder"]


def test_a_good_body_has_no_mistakes() -> None:
    assert mistakes(GOOD) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"contents": [{"role": "bogus", "parts": [{"text": "Hi"}]}]}, "contents.0.role"),
        ({"contents": [{"role": "user", "parts": [{"words": "Hi"}]}]}, "contents.0.parts.0"),
        ({"contents": [{"role": "user", "parts": [{"text": 1}]}]}, "contents.0.parts.0.text"),
        ({"contents": [{"role": "user", "parts": [{"text": "a", "inlineData": {}}]}]}, "contents.0.parts.0"),
        ({"contents": []}, "contents"),
        ({"content": []}, "'content'"),
        ({"tools": [{"functions": []}]}, "tools.0.functions"),
        ({"tools": [{"functionDeclarations": [{"name": ["f"]}]}]}, "tools.0.functionDeclarations.0.name"),
        ({"tools": [{"function_declarations": []}]}, "tools.0.function_declarations"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "SOMETIMES"}}}, "SOMETIMES"),
        ({"generationConfig": {"maxTokens": 5}}, "generationConfig.maxTokens"),
        ({"generationConfig": {"topK": "40"}}, "generationConfig.topK"),
        ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "HUGE"}}}, "HUGE"),
        ({"serviceTier": "golden"}, "golden"),
    ],
)
def test_a_bad_body_is_caught(change: dict[str, Any], place: str) -> None:
    assert any(place in one for one in mistakes(GOOD | change)), mistakes(GOOD | change)
