"""The fake Ollama is true: Ollama's own package talks to it."""

from collections.abc import AsyncIterator
from typing import Any

import ollama
import pytest

from tests.providers.conformance.said import Called, Script, Text, Thought
from tests.providers.fake_server import refusal
from tests.providers.ollama.fake import CRASH, MODEL, FakeOllama, error

QUESTION: Any = [{"role": "user", "content": "Hi"}]


def get_weather(city: str) -> str:
    """The weather.

    Args:
        city: The name of the city
    """
    return f"Sun over {city}."


@pytest.fixture
async def upstream() -> AsyncIterator[FakeOllama]:
    async with FakeOllama() as fake:
        yield fake


@pytest.fixture
async def sdk(upstream: FakeOllama) -> AsyncIterator[ollama.AsyncClient]:
    client = ollama.AsyncClient(host=upstream.base_url)
    yield client
    await client._client.aclose()


async def test_whole_with_a_tool_loop(upstream: FakeOllama, sdk: ollama.AsyncClient) -> None:
    called = Called("get_weather", '{"city": "Paris"}')
    upstream.plays(Script((Thought("Hm."), called), "tool_calls"), Script((Text("Sunny."),)))
    first = await sdk.chat(MODEL, QUESTION, tools=[get_weather], think=True, options={"seed": 1})
    assert first.message.thinking == "Hm."
    [call] = first.message.tool_calls or []
    assert (call.function.name, call.function.arguments) == ("get_weather", {"city": "Paris"})
    result = {"role": "tool", "tool_name": "get_weather", "content": get_weather("Paris")}
    second = await sdk.chat(MODEL, [*QUESTION, first.message, result], tools=[get_weather])
    assert second.message.content == "Sunny."
    assert (second.done_reason, second.eval_count) == ("stop", 10)


async def test_streamed(upstream: FakeOllama, sdk: ollama.AsyncClient) -> None:
    upstream.plays(Script((Thought("Let me think."), Text("Grüße, 世界"))))
    parts = [
        part async for part in await sdk.chat(MODEL, QUESTION, stream=True, format="json", keep_alive="5m")
    ]
    assert "".join(part.message.thinking or "" for part in parts) == "Let me think."
    assert "".join(part.message.content or "" for part in parts) == "Grüße, 世界"
    assert parts[-1].done


async def test_errors_and_models(upstream: FakeOllama, sdk: ollama.AsyncClient) -> None:
    upstream.says(refusal(404, error('model "x" not found, try pulling it first')))
    with pytest.raises(ollama.ResponseError, match="not found"):
        await sdk.chat("x", QUESTION)
    upstream.plays(Script((Text("Once"),), "error"))
    with pytest.raises(ollama.ResponseError, match=CRASH):
        async for _ in await sdk.chat(MODEL, QUESTION, stream=True):
            pass
    assert [model.model for model in (await sdk.list()).models] == [MODEL]
