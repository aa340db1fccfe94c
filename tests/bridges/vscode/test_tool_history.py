"""`toolHistory: "text"` in front of a wire that has outputs without their calls, and of one that has not."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.providers.chat.fake import FakeChat
from tests.providers.responses.fake import FakeResponses
from tests.server.servers import Serving, configure

Json = dict[str, Any]
PROVIDER = """
[providers.back]
type = "{type}"
base_url = "{url}"
[models]
"model" = "back/model"
"""
HISTORY: list[Json] = [
    {"role": 1, "content": "What is the weather?"},
    {"role": 2, "content": [{"callId": "call_1", "name": "get_weather", "input": {"city": "Rome"}}]},
    {"role": 1, "content": [{"callId": "call_1", "content": [{"value": "18 degrees"}]}]},
]
CALL = '[Tool Call: get_weather({"city":"Rome"}) -> call_id: call_1]'


def ask(type: str, url: str, folder: Path) -> Json:
    """The last line of the answer."""
    toml = PROVIDER.format(type=type, url=url)
    with Serving(configure(folder, toml)) as gateway, gateway.client() as client:
        body = {"model": "model", "messages": HISTORY, "options": {"toolHistory": "text"}}
        answer = client.post("/api/vscode/chat", json=body, headers={"X-Antiphon-Receipts": "1"})
    assert answer.status_code == 200, answer.text
    finish: Json = json.loads(answer.text.splitlines()[-1])
    return finish


async def test_a_responses_upstream_is_sent_the_output(tmp_path: Path) -> None:
    async with FakeResponses(strict=False) as upstream:
        await asyncio.to_thread(ask, "responses", upstream.base_url, tmp_path)
    *_, sent = upstream.requests
    assert sent.body["input"][-2:] == [
        {"type": "message", "role": "assistant", "content": CALL},
        {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"},
    ]


async def test_a_chat_upstream_is_told_of_it_in_words(tmp_path: Path) -> None:
    async with FakeChat() as upstream:
        told = await asyncio.to_thread(ask, "chat", upstream.base_url, tmp_path)
    *_, sent = upstream.requests
    assert sent.body["messages"][-2:] == [
        {"role": "assistant", "content": CALL},
        {"role": "user", "content": "[Tool Result: call_id: call_1]\n18 degrees"},
    ]
    assert [receipt["action"] for receipt in told["receipts"]] == ["rewritten"]
