"""The fake chat server is true to its wire: the official SDK talks to it."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.providers.chat import wire
from tests.providers.chat.fake import FakeChat, refusal
from tests.providers.chat.wire import Answer, ToolCall


@pytest.fixture
async def upstream() -> AsyncIterator[FakeChat]:
    async with FakeChat() as fake:
        yield fake


@pytest.fixture
async def sdk(upstream: FakeChat) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=upstream.base_url, api_key="k", max_retries=0) as client:
        yield client


CHAT_TOOL: Any = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
QUESTION: Any = [{"role": "user", "content": "Weather in Paris?"}]


async def test_sdk_whole(upstream: FakeChat, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(Answer("Hello"))
    made = await sdk.chat.completions.create(model=wire.MODEL, messages=QUESTION)
    assert made.choices[0].message.content == "Hello"
    assert made.choices[0].finish_reason == "stop"
    assert made.usage is not None
    assert made.usage.total_tokens == 29


async def test_sdk_streaming(upstream: FakeChat, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(Answer("Hello, world"))
    stream = await sdk.chat.completions.create(
        model=wire.MODEL, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello, world"
    assert chunks[-1].usage is not None


async def test_sdk_tools(upstream: FakeChat, sdk: openai.AsyncOpenAI) -> None:
    said = Answer(
        calls=[ToolCall("get_weather", '{"city":"Paris"}', "a"), ToolCall("get_weather", "{}", "b")]
    )
    upstream.says(said, said)
    whole = await sdk.chat.completions.create(model=wire.MODEL, messages=QUESTION, tools=[CHAT_TOOL])
    calls: Any = whole.choices[0].message.tool_calls
    async with sdk.chat.completions.stream(model=wire.MODEL, messages=QUESTION, tools=[CHAT_TOOL]) as stream:
        streamed: Any = (await stream.get_final_completion()).choices[0].message.tool_calls
    for found in (calls, streamed):
        assert [(one.id, one.function.name, one.function.arguments) for one in found] == [
            ("a", "get_weather", '{"city":"Paris"}'),
            ("b", "get_weather", "{}"),
        ]
    results: Any = [{"role": "tool", "tool_call_id": one.id, "content": "sun"} for one in calls]
    message: Any = whole.choices[0].message.model_dump(exclude_none=True, exclude={"annotations"})
    upstream.says(Answer("Sunny."))
    again = await sdk.chat.completions.create(
        model=wire.MODEL, messages=[*QUESTION, message, *results], tools=[CHAT_TOOL]
    )
    assert again.choices[0].message.content == "Sunny."


async def test_sdk_errors_and_models(upstream: FakeChat, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(refusal(429, wire.error("slow down", "requests", "rate_limit_exceeded")))
    with pytest.raises(openai.RateLimitError):
        await sdk.chat.completions.create(model=wire.MODEL, messages=QUESTION)
    bogus: Any = [{"role": "bogus", "content": "x"}]
    with pytest.raises(openai.BadRequestError, match="bogus"):
        await sdk.chat.completions.create(model=wire.MODEL, messages=bogus)
    assert [model.id async for model in sdk.models.list()] == [wire.MODEL]
