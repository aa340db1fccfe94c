"""Chat upstreams behind the gateway: that a conversation goes on after what a vendor does in its own way."""

import asyncio
import json
from pathlib import Path

from tests.providers.fake_server import FakeServer, Received, Wire, refusal
from tests.server.servers import Serving, configure

TOML = """
[providers.snow]
type = "chat"
base_url = "{url}"
profile = "snowflake"

[models]
model = "snow/claude"
"""


class Snowflake(FakeServer):
    """Says beside every text that it calls nothing, in the form of a call."""

    def reply(self, received: Received) -> Wire:
        message = {"role": "assistant", "content": "4", "function_call": {"name": "", "arguments": ""}}
        choice = {"index": 0, "message": message, "finish_reason": ""}
        return refusal(200, json.dumps({"object": "chat.completion", "choices": [choice]}).encode())


async def test_a_conversation_goes_on_after_an_empty_function_call(tmp_path: Path) -> None:
    async with Snowflake() as upstream:
        with Serving(configure(tmp_path / "server", TOML.format(url=upstream.base_url))) as serving:
            client = serving.client()
            first = await asyncio.to_thread(client.create, model="model", input="2 + 2?")
            second = await asyncio.to_thread(
                client.create, model="model", input="Sure?", previous_response_id=first["id"]
            )
        assert [item["type"] for item in second["output"]] == ["message"]
        assert [one["role"] for one in upstream.body["messages"]] == ["user", "assistant", "user"]
        assert "tool_calls" not in upstream.body["messages"][1]
