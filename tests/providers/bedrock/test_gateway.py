"""Bedrock behind the gateway: sealed reasoning, stored or replayed, and pictures named by address."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.providers.bedrock.fake import CLAUDE, KEY, FakeBedrock, refused
from tests.providers.conformance.said import Called, Redacted, Script, Text, Thought
from tests.providers.fake_server import Received, Wire
from tests.server.servers import Client, Serving, configure

TOML = """
[providers.aws]
type = "bedrock"
base_url = "{url}"
api_key = "{key}"

[models]
claude = "aws/{model}"

[media]
allow = ["127.0.0.1"]
"""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


class Upstream(FakeBedrock):
    """A Bedrock with a picture beside it."""

    def reply(self, received: Received) -> Wire:
        if received.path == "/dot.png":
            return Wire([PNG], headers={"content-type": "image/png"})
        return super().reply(received)


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as fake:
        yield fake


@pytest.fixture
def client(tmp_path: Path, upstream: Upstream) -> Iterator[Client]:
    toml = TOML.format(url=upstream.base_url, key=KEY, model=CLAUDE)
    with Serving(configure(tmp_path / "server", toml)) as serving:
        yield serving.client()


async def create(client: Client, **request: Any) -> Any:
    return await asyncio.to_thread(client.create, model="claude", **request)


def reasoning(body: dict[str, Any]) -> list[Any]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block["reasoningContent"] for block in blocks if "reasoningContent" in block]


@pytest.mark.parametrize("store", [True, False])
async def test_reasoning_through_a_tool_loop(upstream: Upstream, client: Client, store: bool) -> None:
    call = Called("get_weather", "{}", "tooluse_0")
    upstream.plays(
        Script((Thought("Hm", "c2lnbmVk"), Redacted("cmVkYWN0ZWQ="), call), "tool_calls"),
        Script((Text("It rains."),)),
    )
    request: dict[str, Any] = {"tools": [WEATHER], "reasoning": {"effort": "low"}, "store": store}
    asked: list[Any] = [{"role": "user", "content": "Weather?"}]
    first = await create(client, input=asked, **request)
    assert "c2lnbmVk" not in json.dumps(first["output"]), "the client sees only a seal"
    result = {"type": "function_call_output", "call_id": "tooluse_0", "output": "rain"}
    if store:
        second = await create(client, input=[result], previous_response_id=first["id"], **request)
    else:
        second = await create(client, input=[*asked, *first["output"], result], **request)
    assert reasoning(upstream.body) == [
        {"reasoningText": {"text": "Hm", "signature": "c2lnbmVk"}},
        {"redactedContent": "cmVkYWN0ZWQ="},
    ]
    assert second["output"][-1]["content"][0]["text"] == "It rains."


async def test_a_picture_with_an_address(upstream: Upstream, client: Client) -> None:
    url = f"{upstream.base_url}/dot.png"
    parts = [{"type": "input_text", "text": "?"}, {"type": "input_image", "image_url": url}]
    made = await create(client, input=[{"role": "user", "content": parts}])
    sent = upstream.body["messages"][0]["content"][1]
    assert sent == {"image": {"format": "png", "source": {"bytes": base64.b64encode(PNG).decode()}}}
    path = f"/v1/responses/{made['id']}/input_items"
    [item] = (await asyncio.to_thread(client.ok, "GET", path))["data"]
    assert item["content"][1]["image_url"] == url


async def test_a_refusal_of_bedrock(upstream: Upstream, client: Client) -> None:
    upstream.says(refused("ThrottlingException", "Too many requests", 429, retry_after="3"))
    body = {"model": "claude", "input": "Hi"}
    answer = await asyncio.to_thread(client.post, "/v1/responses", json=body)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


async def test_tokens_are_counted(upstream: Upstream, client: Client) -> None:
    url = f"{upstream.base_url}/dot.png"
    body = {
        "model": "claude",
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}],
    }
    counted = await asyncio.to_thread(client.ok, "POST", "/v1/responses/input_tokens", json=body)
    assert counted["input_tokens"] > 0
    assert upstream.requests[-1].path.endswith("/count-tokens")
