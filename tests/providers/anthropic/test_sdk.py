"""The fake is honest: Anthropic's own SDK talks to it, and its types catch a bad request."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
from anthropic.types import ToolParam

from tests.providers.anthropic import wire
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.conformance.said import Called, Redacted, Script, Text, Thought
from tests.providers.fake_server import Received, Wire, refusal

KEY = "sk-ant-very-secret"
WEATHER: ToolParam = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
SCRIPT = Script(
    (
        Thought("Where is Paris?", "c2lnbmVk"),
        Redacted("cmVkYWN0ZWQ="),
        Text("Let me look, 世界."),
        Called("get_weather", '{"city": "Paris"}', "toolu_1"),
        Called("get_weather", '{"city": "Tokyo"}', "toolu_2"),
    ),
    "tool_calls",
)
HELLO: dict[str, Any] = {
    "model": wire.MODEL,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic(api_key=KEY) as fake:
        yield fake


@pytest.fixture
async def sdk(upstream: FakeAnthropic) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=upstream.base_url, api_key=KEY, max_retries=0) as client:
        yield client


def check(message: anthropic.types.Message) -> None:
    thought, redacted, text, first, second = message.content
    assert thought.type == "thinking"
    assert (thought.thinking, thought.signature) == ("Where is Paris?", "c2lnbmVk")
    assert redacted.type == "redacted_thinking"
    assert redacted.data == "cmVkYWN0ZWQ="
    assert text.type == "text"
    assert text.text == "Let me look, 世界."
    assert first.type == second.type == "tool_use"
    assert (first.id, first.input) == ("toolu_1", {"city": "Paris"})
    assert (second.id, second.input) == ("toolu_2", {"city": "Tokyo"})
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (19, 10)


async def test_a_whole_message(upstream: FakeAnthropic, sdk: anthropic.AsyncAnthropic) -> None:
    upstream.plays(SCRIPT)
    check(
        await sdk.messages.create(
            model=wire.MODEL,
            max_tokens=2000,
            tools=[WEATHER],
            thinking={"type": "enabled", "budget_tokens": 1024},
            messages=[{"role": "user", "content": "Weather?"}],
        )
    )


async def test_a_streamed_message(upstream: FakeAnthropic, sdk: anthropic.AsyncAnthropic) -> None:
    upstream.plays(SCRIPT)
    async with sdk.messages.stream(
        model=wire.MODEL,
        max_tokens=2000,
        tools=[WEATHER],
        messages=[{"role": "user", "content": "Weather?"}],
    ) as stream:
        words = "".join([text async for text in stream.text_stream])
        assert words == "Let me look, 世界."
        check(await stream.get_final_message())


async def test_an_answer_goes_back(upstream: FakeAnthropic, sdk: anthropic.AsyncAnthropic) -> None:
    upstream.plays(SCRIPT, Script((Text("It rains."),)))
    first = await sdk.messages.create(
        model=wire.MODEL, max_tokens=100, tools=[WEATHER], messages=[{"role": "user", "content": "Weather?"}]
    )
    second = await sdk.messages.create(
        model=wire.MODEL,
        max_tokens=100,
        tools=[WEATHER],
        messages=[
            {"role": "user", "content": "Weather?"},
            first.to_param(),
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": id, "content": "rain"}
                    for id in ("toolu_1", "toolu_2")
                ],
            },
        ],
    )
    assert second.content[0].type == "text"
    assert second.content[0].text == "It rains."


async def test_citations_and_server_tools(upstream: FakeAnthropic, sdk: anthropic.AsyncAnthropic) -> None:
    found = {"type": "web_search_result", "url": "https://a.example/", "title": "A"}
    upstream.says(
        wire.start(),
        wire.tool_use(0, "web_search", '{"query":', '"a"}', id="srvtoolu_1", type="server_tool_use"),
        wire.begin(
            1,
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [{**found, "encrypted_content": "x", "page_age": None}],
            },
        ),
        wire.end(1),
        wire.begin(2, {"type": "text", "text": "", "citations": []}),
        wire.delta(
            2,
            "citations_delta",
            citation={
                "type": "web_search_result_location",
                "url": "https://a.example/",
                "title": "A",
                "cited_text": "a",
                "encrypted_index": "e",
            },
        ),
        wire.delta(2, "text_delta", text="It says a."),
        wire.end(2),
        wire.finish("pause_turn"),
    )
    async with sdk.messages.stream(**HELLO) as stream:
        message = await stream.get_final_message()
    use, result, text = message.content
    assert use.type == "server_tool_use"
    assert use.input == {"query": "a"}
    assert result.type == "web_search_tool_result"
    assert text.type == "text"
    assert text.citations is not None
    assert text.citations[0].type == "web_search_result_location"
    assert message.stop_reason == "pause_turn"


@pytest.mark.parametrize(
    ("status", "kind", "raised"),
    [
        (429, "rate_limit_error", anthropic.RateLimitError),
        (529, "overloaded_error", anthropic.APIStatusError),
        (400, "invalid_request_error", anthropic.BadRequestError),
    ],
)
async def test_errors(
    upstream: FakeAnthropic,
    sdk: anthropic.AsyncAnthropic,
    status: int,
    kind: str,
    raised: type[anthropic.APIStatusError],
) -> None:
    upstream.replies(refusal(status, wire.error(kind, "No.")))
    with pytest.raises(raised) as caught:
        await sdk.messages.create(**HELLO)
    assert caught.value.status_code == status
    assert "No." in str(caught.value)


async def test_an_error_in_the_stream(upstream: FakeAnthropic, sdk: anthropic.AsyncAnthropic) -> None:
    upstream.replies(Wire([wire.start() + wire.broken("overloaded_error", "Overloaded")]))
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        async with sdk.messages.stream(**HELLO) as stream:
            await stream.get_final_message()


async def test_counting_and_models(upstream: FakeAnthropic, sdk: anthropic.AsyncAnthropic) -> None:
    counted = await sdk.messages.count_tokens(model=wire.MODEL, messages=[{"role": "user", "content": "Hi"}])
    assert counted.input_tokens > 0
    assert [model.id async for model in sdk.models.list()] == [wire.MODEL, "claude-opus-5-5"]
    with pytest.raises(anthropic.AuthenticationError):
        await sdk.with_options(api_key="wrong").messages.create(**HELLO)


# --- what the types catch ---------------------------------------------------------------------------------


def judged(path: str = "/v1/messages", beta: str = "", **changes: Any) -> list[str]:
    headers = {"anthropic-beta": beta} if beta else {}
    body = {key: value for key, value in (HELLO | changes).items() if value is not None}
    return FakeAnthropic().mistakes(Received("POST", path, headers, body))


def test_a_good_body_passes() -> None:
    assert judged() == []
    assert judged(stream=True) == []
    assert judged(path="/v1/messages/count_tokens", max_tokens=None) == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"messages": [{"role": "bogus", "content": "Hi"}]}, "bogus"),
        ({"frequency_penalty": 1}, "frequency_penalty"),
        ({"temperature": 1.0}, "temperature"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "100"}, "max_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "text"),
        ({"messages": [{"role": "user", "content": [{"type": "txet", "text": "a"}]}]}, "txet"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}]}, "'x'"),
        ({"tools": [{"name": "f"}]}, "input_schema"),
        ({"tool_choice": {"type": "required"}}, "required"),
        ({"thinking": {"type": "enabled"}}, "budget_tokens"),
        ({"output_config": {"effort": "none"}}, "none"),
        ({"system": [{"type": "text"}]}, "text"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"messages": [{"role": "assistant", "content": "Hi"}]}, "first message"),
        ({"messages": [{"role": "user", "content": " "}]}, "blank"),
        ({"thinking": {"type": "adaptive", "block_binding": {}}}, "block_binding"),
    ],
)
def test_a_bad_body_is_caught(changes: dict[str, Any], complaint: str) -> None:
    found = judged(**changes)
    assert any(complaint in one for one in found), found


def test_what_only_a_beta_has_is_allowed_only_there() -> None:
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert judged(thinking=thinking) != []
    assert judged(thinking=thinking, beta="thinking-binding-controls-2026-08-01") == []
