"""Claude behind the gateway: sealed thinking, stored or replayed by the client, and tools of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.providers.anthropic import wire
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.conformance.said import Called, Script, Text, Thought
from tests.server.servers import Serving, configure

KEY = "sk-ant-very-secret"
TOML = """
[providers.claude]
type = "anthropic"
base_url = "{url}"
api_key = "{key}"
version = "2026-10-21"

[models]
opus = "claude/claude-opus-5-5"
sonnet = "claude/claude-sonnet-5-5"
"""
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
SEARCH = {"type": "anthropic:web_search_20250305", "name": "web_search"}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic(api_key=KEY) as fake:
        yield fake


class Asked:
    """A gateway with the fake behind it."""

    def __init__(self, serving: Serving) -> None:
        self._client = serving.client(X_Antiphon_Receipts="1")

    async def create(self, **request: Any) -> Any:
        return await asyncio.to_thread(self._client.create, **{"model": "opus", **request})


@pytest.fixture
def gateway(tmp_path: Path, upstream: FakeAnthropic) -> Any:
    toml = TOML.format(url=upstream.base_url, key=KEY)
    with Serving(configure(tmp_path / "server", toml)) as serving:
        yield Asked(serving)


def thought(n: int) -> Script:
    return Script((Thought(f"Hm {n}", f"sig{n}"), Called("get_weather", "{}", f"toolu_{n}")), "tool_calls")


def thinking(body: dict[str, Any]) -> list[Any]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block for block in blocks if block["type"] == "thinking"]


@pytest.mark.parametrize("store", [True, False])
async def test_thinking_through_a_tool_loop(upstream: FakeAnthropic, gateway: Asked, store: bool) -> None:
    upstream.plays(thought(0), thought(1), thought(2), Script((Text("It rains."),)))
    request: dict[str, Any] = {"tools": [WEATHER], "reasoning": {"effort": "low"}, "store": store}
    history: list[Any] = [{"role": "user", "content": "Weather?"}]
    more: dict[str, Any] = {"input": history}
    for n in range(4):
        response = await gateway.create(**request, **more)
        assert thinking(upstream.body) == [
            {"type": "thinking", "thinking": f"Hm {turn}", "signature": f"sig{turn}"} for turn in range(n)
        ]
        if n < 3:
            assert "sig" not in json.dumps(response["output"]), "the client sees only a seal"
            result = {"type": "function_call_output", "call_id": f"toolu_{n}", "output": "rain"}
            history += [*response["output"], result]
            more = {"input": history}
            if store:
                more = {"input": [result], "previous_response_id": response["id"]}
    assert response["output"][-1]["content"][0]["text"] == "It rains."


async def test_another_model_does_not_get_the_thinking(upstream: FakeAnthropic, gateway: Asked) -> None:
    upstream.plays(Script((Thought("Hm", "sig"), Text("Yes."))), Script((Text("No."),)))
    first = await gateway.create(input="Hi")
    second = await gateway.create(model="sonnet", input="And?", previous_response_id=first["id"])
    assert thinking(upstream.body) == []
    assert any(one["action"] == "suppressed" for one in second["antiphon:receipts"])


async def test_a_paused_turn_goes_on(upstream: FakeAnthropic, gateway: Asked) -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}}
    found: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    paused = json.dumps(wire.message([use, found], "pause_turn")).encode()
    upstream.answers(paused)
    upstream.plays(Script((Text("Nothing."),)))
    first = await gateway.create(input="Search.", tools=[SEARCH])
    assert first["status"] == "incomplete"
    assert first["incomplete_details"] == {"reason": "max_tool_calls"}
    assert [item["type"] for item in first["output"]] == [
        "anthropic:server_tool_use",
        "anthropic:web_search_tool_result",
    ]
    second = await gateway.create(tools=[SEARCH], previous_response_id=first["id"])
    assert upstream.body["messages"][1] == {"role": "assistant", "content": [use, found]}
    assert second["output"][0]["content"][0]["text"] == "Nothing."
