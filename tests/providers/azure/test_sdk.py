"""The fake Azure is true: the official SDK's own Azure client talks to it."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.providers.azure.fake import KEY, VERSION, FakeAzure, policy_violation
from tests.providers.conformance.said import Called, Script, Text
from tests.providers.fake_server import refusal

TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
QUESTION: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeAzure]:
    async with FakeAzure() as fake:
        yield fake


@pytest.fixture(params=["deployment", "token", "v1"])
async def sdk(upstream: FakeAzure, request: pytest.FixtureRequest) -> AsyncIterator[openai.AsyncOpenAI]:
    made: openai.AsyncOpenAI
    if request.param == "v1":
        headers = {"api-key": KEY}
        base_url = f"{upstream.base_url}/openai/v1"
        made = openai.AsyncOpenAI(base_url=base_url, api_key="x", default_headers=headers, max_retries=0)
    else:
        is_key = request.param == "deployment"
        made = openai.AsyncAzureOpenAI(
            azure_endpoint=upstream.base_url,
            api_version=VERSION,
            api_key=KEY if is_key else None,
            azure_ad_token=None if is_key else KEY,
            max_retries=0,
        )
    async with made as client:
        yield client


async def test_whole(upstream: FakeAzure, sdk: openai.AsyncOpenAI) -> None:
    upstream.plays(Script((Text("Hello"),)))
    made = await sdk.chat.completions.create(model="gpt-4o", messages=QUESTION)
    assert made.choices[0].message.content == "Hello"
    assert made.usage is not None
    assert upstream.mistakes(upstream.requests[0]) == []


async def test_streamed(upstream: FakeAzure, sdk: openai.AsyncOpenAI) -> None:
    upstream.plays(Script((Text("Hello, world"), Called("f", '{"a":1}')), "tool_calls"))
    async with sdk.chat.completions.stream(model="gpt-4o", messages=QUESTION, tools=[TOOL]) as stream:
        made = await stream.get_final_completion()
    message = made.choices[0].message
    assert message.content == "Hello, world"
    [call] = message.tool_calls or []
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "f", '{"a":1}')


async def test_errors(upstream: FakeAzure, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(refusal(400, policy_violation()))
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.chat.completions.create(model="gpt-4o", messages=QUESTION)
    assert caught.value.code == "content_filter"
