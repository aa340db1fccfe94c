"""Calls to `/api/v1/chat`, and what they left in the store."""

import json
from typing import Any

import httpx

from antiphon.bridges.ai_sdk.chats import chat_id
from antiphon.stream.sse import Decoder
from tests.bridges.scripts import Json
from tests.server.servers import Client

CHAT = "/api/v1/chat"
HELLO = [{"role": "user", "content": "Hello"}]


def user(text: str) -> Json:
    return {"id": "u1", "role": "user", "parts": [{"type": "text", "text": text}]}


def post(
    client: Client, path: str = CHAT, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    answer = client.post(path, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def chunks(body: str) -> list[Json]:
    assert body.endswith("data: [DONE]\n\n")
    return [json.loads(event.data) for event in Decoder().feed(body.encode()) if not event.is_done]


def text_of(body: str) -> str:
    return "".join(chunk["delta"] for chunk in chunks(body) if chunk["type"] == "text-delta")


def tree(client: Client, name: str, tenant: str = "") -> dict[str, Json]:
    """The responses of a chat by their ids."""
    page = client.ok("GET", f"/v1/antiphon/chats/{chat_id(tenant, name)}/responses?limit=100")
    return {node["id"]: node for node in page["data"]}


def history(client: Client, name: str, tenant: str = "") -> list[str]:
    """What a reader sees of a chat, each item in a word or two."""
    nodes, told = tree(client, name, tenant), list[str]()
    id = client.ok("GET", f"/v1/antiphon/chats/{chat_id(tenant, name)}")["current"]
    while id is not None:
        told = said_in(nodes[id]) + told
        id = nodes[id]["previous_response_id"]
    return told


def said_in(node: Json) -> list[str]:
    return [
        item.get("call_id") or "".join(part["text"] for part in item["content"])
        for item in node["input"] + node["output"]
        if item["type"] != "reasoning"
    ]
