"""The official SDK talks to the fake servers of `/responses`: what it understands, the real one would say."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

from tests.providers.conformance.said import Called, Counted, Redacted, Refused, Script, Text, Thought
from tests.providers.fake_server import refusal
from tests.providers.responses import wire
from tests.providers.responses.fake import FakeResponses, FakeResponsesSocket

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
EVERYTHING = Script(
    (
        Thought("Let me think.", "proof"),
        Redacted("sealed"),
        Thought("Aloud."),
        Text("Grüße, 世界 🎼"),
        Called("get_weather", '{"city": "Paris"}', "call_1"),
        Called("get_weather", "{}", "call_2"),
    ),
    usage=Counted(19, 10, 3, 4),
)


@pytest.fixture
async def upstream() -> AsyncIterator[FakeResponses]:
    async with FakeResponses() as fake:
        yield fake


@pytest.fixture
async def sdk(upstream: FakeResponses) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=upstream.base_url, api_key="sk-1", max_retries=0) as client:
        yield client


async def test_whole(upstream: FakeResponses, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(EVERYTHING)
    response = await sdk.responses.create(model="m", input="Hi", tools=[TOOL])
    check(response)


async def test_streamed(upstream: FakeResponses, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(EVERYTHING)
    seen: dict[str, str] = {}
    async with sdk.responses.stream(model="m", input="Hi", tools=[TOOL]) as stream:
        async for event in stream:
            if event.type.endswith(".delta"):
                seen[event.type] = seen.get(event.type, "") + str(getattr(event, "delta", ""))
        check(await stream.get_final_response())
    assert seen == {
        "response.reasoning_summary_text.delta": "Let me think.",
        "response.reasoning_text.delta": "Aloud.",
        "response.output_text.delta": "Grüße, 世界 🎼",
        "response.function_call_arguments.delta": '{"city": "Paris"}{}',
    }


def check(response: Any) -> None:
    assert response.status == "completed"
    assert response.output_text == "Grüße, 世界 🎼"
    thoughts = [item for item in response.output if isinstance(item, ResponseReasoningItem)]
    assert [item.encrypted_content for item in thoughts] == ["proof", "sealed", None]
    assert thoughts[0].summary[0].text == "Let me think."
    calls = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
    assert [(call.call_id, json.loads(call.arguments)) for call in calls] == [
        ("call_1", {"city": "Paris"}),
        ("call_2", {}),
    ]
    assert response.usage.total_tokens == 29
    assert response.usage.input_tokens_details.cached_tokens == 3
    assert response.usage.output_tokens_details.reasoning_tokens == 4


async def test_custom_tools_and_namespaces(upstream: FakeResponses, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(Script((Called("sql", '{"input": "SELECT"}', "c1"), Called("ns__g", "{}", "c2"))))
    tools: Any = [
        {"type": "custom", "name": "sql"},
        {
            "type": "namespace",
            "name": "ns",
            "description": "N.",
            "tools": [{"type": "function", "name": "g"}],
        },
    ]
    response = await sdk.responses.create(model="m", input="Hi", tools=tools)
    custom, call = response.output
    assert custom.type == "custom_tool_call"
    assert custom.input == "SELECT"
    assert isinstance(call, ResponseFunctionToolCall)
    assert (call.namespace, call.name) == ("ns", "g")


async def test_a_tool_loop(upstream: FakeResponses, sdk: openai.AsyncOpenAI) -> None:
    """The history goes back as the SDK itself writes it."""
    upstream.says(
        Script((Redacted("sealed"), Called("get_weather", "{}", "call_1"))), Script((Text("Rain."),))
    )
    history: list[Any] = [{"role": "user", "content": "The weather?"}]
    first = await sdk.responses.create(model="m", input=history, tools=[TOOL], store=False)
    history += [item.model_dump(exclude_none=True) for item in first.output]
    history.append({"type": "function_call_output", "call_id": "call_1", "output": "rain"})
    second = await sdk.responses.create(model="m", input=history, tools=[TOOL], store=False)
    assert second.output_text == "Rain."


@pytest.mark.parametrize("ending", ["length", "content_filter"])
async def test_incomplete(upstream: FakeResponses, sdk: openai.AsyncOpenAI, ending: Any) -> None:
    upstream.says(Script((Text("Once"),), ending=ending))
    response = await sdk.responses.create(model="m", input="Hi")
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == wire._CUTS[ending]


async def test_refusal(upstream: FakeResponses, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(Script((Refused("No."),)))
    response = await sdk.responses.create(model="m", input="Hi")
    [message] = response.output
    assert isinstance(message, ResponseOutputMessage)
    assert message.content[0].type == "refusal"


async def test_errors(upstream: FakeResponses, sdk: openai.AsyncOpenAI) -> None:
    upstream.says(refusal(429, wire.error("slow down", "rate_limit_error", "rate_limit_exceeded")))
    with pytest.raises(openai.RateLimitError, match="slow down"):
        await sdk.responses.create(model="m", input="Hi")
    upstream.says(Script((Text("Once"),), ending="error"))
    stream = await sdk.responses.create(model="m", input="Hi", stream=True)
    types = [event.type async for event in stream]
    assert "response.output_text.delta" in types
    assert types[-2:] == ["error", "response.failed"]


async def test_a_bad_request_is_refused(sdk: openai.AsyncOpenAI) -> None:
    bad: Any = [{"role": "bogus", "content": "Hi"}]
    with pytest.raises(openai.BadRequestError, match="bogus"):
        await sdk.responses.create(model="m", input=bad)
    with pytest.raises(openai.BadRequestError, match="stop"):
        await sdk.responses.create(model="m", input="Hi", extra_body={"stop": ["END"]})


async def test_counting_and_models(sdk: openai.AsyncOpenAI) -> None:
    assert (await sdk.responses.input_tokens.count(model="m", input="Hi")).input_tokens > 0
    assert [model.id async for model in sdk.models.list()] == [wire.MODEL]


async def test_websocket() -> None:
    async with FakeResponsesSocket() as upstream:
        upstream.says(EVERYTHING, Script((Text("Again."),)))
        async with (
            openai.AsyncOpenAI(base_url=upstream.base_url, api_key="sk-1") as sdk,
            sdk.responses.connect() as socket,
        ):
            for expected in ("Grüße, 世界 🎼", "Again."):
                await socket.send({"type": "response.create", "model": "m", "input": "Hi", "tools": [TOOL]})
                text = ""
                while (event := await socket.recv()).type != "response.completed":
                    text += event.delta if event.type == "response.output_text.delta" else ""
                assert text == expected
        assert upstream.connections == 1
