"""A tool that failed has failed for the model as well, whichever door its result came through."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.providers.conformance.gateway import Json, gateway, slug
from tests.providers.conformance.said import Script, Text

WHY = "no such city"
CALL = {"name": "get_weather", "input": {"city": "Paris"}}


def chat(result: Json) -> Json:
    part = {"type": "tool-get_weather", "toolCallId": "call_1", "input": {"city": "Paris"}, **result}
    asked = {"role": "user", "parts": [{"type": "text", "text": "Weather?"}]}
    return {"messages": [asked, {"role": "assistant", "parts": [part]}], "stream": True}


def hashbrown(result: Json) -> Json:
    called = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    messages: list[Json] = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "toolCalls": [called]},
        {"role": "tool", "content": result, "toolCallId": "call_1", "toolName": "get_weather"},
    ]
    return {"operation": "generate", "messages": messages}


def vscode(**more: Any) -> Json:
    result = {"callId": "call_1", "content": [{"$mid": 21, "value": WHY}], **more}
    messages: list[Json] = [
        {"role": 1, "content": "Weather?"},
        {"role": 2, "content": [{"callId": "call_1", **CALL}]},
        {"role": 1, "content": [result]},
    ]
    return {"messages": messages}


def responses(**more: Any) -> Json:
    call = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": WHY, **more}
    return {"input": [{"role": "user", "content": "Weather?"}, call, output]}


FAILED = {
    "responses status": ("/v1/responses", responses(status="incomplete")),
    "responses is_error": ("/v1/responses", responses(is_error=True)),
    "hashbrown rejected": ("/api/hashbrown", hashbrown({"status": "rejected", "reason": WHY})),
    "vscode isError": ("/api/vscode/chat", vscode(isError=True)),
    "ai sdk output-error": ("/api/v1/chat", chat({"state": "output-error", "errorText": WHY})),
}
DONE = {
    "responses": ("/v1/responses", responses(status="completed")),
    "hashbrown fulfilled": ("/api/hashbrown", hashbrown({"status": "fulfilled", "value": WHY})),
    "vscode": ("/api/vscode/chat", vscode()),
    "ai sdk output-available": ("/api/v1/chat", chat({"state": "output-available", "output": WHY})),
}


def anthropic(body: Json) -> bool:
    (result,) = [one for one in body["messages"][-1]["content"] if one["type"] == "tool_result"]
    return result.get("is_error") is True


def bedrock(body: Json) -> bool:
    (result,) = [one["toolResult"] for one in body["messages"][-1]["content"] if "toolResult" in one]
    return bool(result.get("status") == "error")


def gemini(body: Json) -> bool:
    (result,) = body["contents"][-1]["parts"]
    (kind,) = result["functionResponse"]["response"]
    return bool(kind == "error")


def same(body: Json) -> bool:
    output = body["input"][-1]
    assert output["type"] == "function_call_output"
    return bool(output.get("status") == "incomplete")


SAYS_SO = {"anthropic": anthropic, "bedrock": bedrock, "gemini": gemini, "responses": same}


async def told(folder: Path, path: str, request: Json) -> dict[str, bool]:
    """For each wire, whether the upstream heard of a failure; it must hear the tool's words in any case."""
    found = {}
    async with gateway(folder, *SAYS_SO, "chat", "ollama") as asked:
        for wire, fake in asked.fakes.items():
            fake.plays(Script((Text("Sorry."),)))
            answer = await asyncio.to_thread(asked.http.post, path, json={**request, "model": slug(wire)})
            assert answer.status_code == 200, answer.text
            assert fake.mistakes(fake.requests[-1]) == []
            assert WHY in fake.requests[-1].raw.decode()
            if wire in SAYS_SO:
                found[wire] = SAYS_SO[wire](fake.requests[-1].body)
    return found


@pytest.mark.parametrize("door", FAILED)
async def test_a_result_that_failed_reaches_every_upstream_as_one(door: str, tmp_path: Path) -> None:
    assert await told(tmp_path, *FAILED[door]) == dict.fromkeys(SAYS_SO, True)


async def test_a_wire_without_a_mark_for_failures_leaves_a_receipt(tmp_path: Path) -> None:
    """The words of the tool are there, but nothing says that they are of a tool that failed."""
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": WHY, "is_error": True}
    used = {"type": "tool_use", "id": "call_1", **CALL}
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [result]},
    ]
    async with gateway(tmp_path, "chat", "ollama") as asked:
        for wire, fake in asked.fakes.items():
            for is_error, receipts in ((True, "1"), (False, None)):
                result["is_error"] = is_error
                fake.plays(Script((Text("Sorry."),)))
                body = {"model": slug(wire), "messages": messages, "max_tokens": 9}
                answer = await asyncio.to_thread(asked.http.post, "/v1/messages", json=body)
                assert answer.status_code == 200, answer.text
                assert answer.headers.get("x-antiphon-receipts") == receipts, (wire, is_error)


@pytest.mark.parametrize("door", DONE)
async def test_a_result_is_no_failure_unless_it_says_so(door: str, tmp_path: Path) -> None:
    assert await told(tmp_path, *DONE[door]) == dict.fromkeys(SAYS_SO, False)
