"""The fake Writer is true: Writer's own SDK talks to it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import writerai

from tests.providers.conformance.said import Called, Script, Text
from tests.providers.fake_server import refusal
from tests.providers.writer.fake import KEY, MODEL, FakeWriter, error

QUESTION: Any = [{"role": "user", "content": "Hi"}]
TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeWriter]:
    async with FakeWriter() as fake:
        yield fake


@pytest.fixture
async def sdk(upstream: FakeWriter) -> AsyncIterator[writerai.AsyncWriter]:
    base_url = upstream.base_url.removesuffix("/v1")
    async with writerai.AsyncWriter(base_url=base_url, api_key=KEY, max_retries=0) as client:
        yield client


async def test_whole(upstream: FakeWriter, sdk: writerai.AsyncWriter) -> None:
    upstream.plays(Script((Text("Hello"), Called("f", '{"a":1}')), "tool_calls"))
    made = await sdk.chat.chat(model=MODEL, messages=QUESTION, tools=[TOOL], tool_choice={"value": "auto"})
    message = made.choices[0].message
    assert message.content == "Hello"
    [call] = message.tool_calls or []
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "f", '{"a":1}')
    assert made.usage is not None
    assert made.usage.prompt_token_details is not None


async def test_streamed(upstream: FakeWriter, sdk: writerai.AsyncWriter) -> None:
    upstream.plays(Script((Text("Hello, world"),)))
    stream = await sdk.chat.chat(
        model=MODEL, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello, world"
    assert chunks[-1].usage is not None


async def test_errors_and_models(upstream: FakeWriter, sdk: writerai.AsyncWriter) -> None:
    upstream.says(refusal(429, error("Too many requests", "TooManyRequests")))
    with pytest.raises(writerai.RateLimitError):
        await sdk.chat.chat(model=MODEL, messages=QUESTION)
    upstream.plays(Script((Text("Once"),), "error"))
    stream = await sdk.chat.chat(model=MODEL, messages=QUESTION, stream=True)
    with pytest.raises(writerai.APIError):
        async for _ in stream:
            pass
    assert [model.id for model in (await sdk.models.list()).models] == [MODEL]
