"""The 17 acceptance scenarios of the specification, each a conversation with a running server.

A scenario gets a `Target` and raises when the server does not keep its part. What comes back is held to
the JSON Schema, and every stream to the Auditor.
"""

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from antiphon.spec.content import OutputText
from antiphon.spec.items import Message
from antiphon.spec.opaque import to_builtins
from antiphon.spec.response import Response
from antiphon.stream.auditor import audit, audit_sse
from antiphon.stream.sse import Decoder
from tests.spec.opinions import assert_valid, assert_valid_event, assert_valid_response

Scenario = Callable[["Target"], Awaitable[None]]
Json = dict[str, Any]

TURN = 30.0
TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "The city and state"}},
        "required": ["location"],
    },
}


@dataclass
class Target:
    url: str
    model: str
    http: httpx.AsyncClient = field(repr=False)

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(f"{self.url}/v1{path}", json=body)

    async def create(self, **body: Any) -> Json:
        answer = await self.post("/responses", model=self.model, **body)
        assert answer.status_code == 200, answer.text
        response: Json = answer.json()
        assert_valid_response(response)
        assert response["output"], "no output"
        return response

    async def socket(self) -> "Socket":
        address = self.url.replace("http", "ws", 1) + "/v1/responses"
        return Socket(await connect(address, additional_headers={"Authorization": "Bearer any"}), self.model)


@dataclass
class Turn:
    events: list[Json]

    @property
    def last(self) -> Json:
        return self.events[-1]

    @property
    def response(self) -> Json:
        assert self.last["type"] in TERMINAL, self.last
        return dict(self.last["response"])

    @property
    def code(self) -> str:
        if self.last["type"] == "error":
            return str(self.last["error"]["code"])
        return str((self.last["response"]["error"] or {}).get("code"))


@dataclass
class Socket:
    connection: ClientConnection
    model: str

    async def __aenter__(self) -> "Socket":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def turn(self, **body: Any) -> Turn:
        """Send one message and read until exactly one message has ended the turn."""
        await self.connection.send(json.dumps({"type": "response.create", "model": self.model, **body}))
        events: list[Json] = []
        async with asyncio.timeout(TURN):
            while not events or events[-1]["type"] not in TERMINAL | {"error"}:
                events.append(json.loads(await self.connection.recv()))
        if events[-1]["type"] == "error":
            assert_valid("WebSocketErrorEvent", events[-1])
            assert len(events) == 1, "an envelope after the response began"
        else:
            for event in events:
                assert_valid_event(event)
            assert audit(events, transport="websocket") == []
        return Turn(events)

    async def completed(self, **body: Any) -> Json:
        turn = await self.turn(**body)
        assert turn.response["status"] == "completed", turn.last
        return turn.response


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": text}


def assistant(text: str, **more: Any) -> Json:
    return {"type": "message", "role": "assistant", "content": text, **more}


async def basic_response(target: Target) -> None:
    response = await target.create(input=[user("Say hello in exactly 3 words.")])
    assert response["status"] == "completed"


async def assistant_phase(target: Target) -> None:
    history = [
        user("Please answer in two steps."),
        assistant("I will look first.", phase="commentary"),
        assistant("The answer is four.", phase="final_answer"),
        user("Thank you. Say goodbye."),
    ]
    response = await target.create(input=history)
    assert response["status"] == "completed"


async def response_output_phase_schema(target: Target) -> None:
    """Local: our own response with both phases is valid, and keeps them."""
    response = Response.new("resp_1", target.model, now=1)
    response.output = [
        Message(id="m1", role="assistant", status="completed", phase="commentary", content=[OutputText("a")]),
        Message(
            id="m2", role="assistant", status="completed", phase="final_answer", content=[OutputText("b")]
        ),
    ]
    response.complete(None, now=2)
    payload = to_builtins(response)
    assert_valid_response(payload)
    assert [item["phase"] for item in payload["output"]] == ["commentary", "final_answer"]


async def streaming_response(target: Target) -> None:
    body = {"model": target.model, "input": [user("Count from 1 to 5.")], "stream": True}
    received = b""
    async with target.http.stream("POST", f"{target.url}/v1/responses", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for data in answer.aiter_raw():
            received += data
    assert audit_sse(received) == []
    events = [msgspec.json.decode(event.data) for event in Decoder().feed(received) if not event.is_done]
    for event in events:
        assert_valid_event(event)
    assert events[-1]["response"]["status"] == "completed"
    assert received.endswith(b"data: [DONE]\n\n")


async def websocket_response(target: Target) -> None:
    async with await target.socket() as socket:
        await socket.completed(input=[user("Count from 1 to 3.")])


async def websocket_sequential_responses(target: Target) -> None:
    async with await target.socket() as socket:
        first = await socket.completed(store=False, input="Reply with exactly: first")
        second = await socket.completed(store=False, input="Reply with exactly: second")
        assert first["id"] != second["id"]


async def websocket_continuation(target: Target) -> None:
    async with await target.socket() as socket:
        first = await socket.completed(store=False, input="Remember the code word: cobalt. Reply with OK.")
        second = await socket.completed(
            store=False,
            previous_response_id=first["id"],
            input="What is the code word? Reply with only that.",
        )
        assert second["previous_response_id"] == first["id"]


async def websocket_reconnect_store_false_recovery(target: Target) -> None:
    async with await target.socket() as socket:
        first = await socket.completed(store=False, input="Remember the code word: copper. Reply with OK.")
    async with await target.socket() as socket:
        lost = await socket.turn(
            store=False, previous_response_id=first["id"], input="Go on after reconnecting."
        )
        assert lost.code == "previous_response_not_found"
        await socket.completed(store=False, input=[user("Start anew and reply with exactly: recovered")])


async def websocket_previous_response_not_found(target: Target) -> None:
    async with await target.socket() as socket:
        turn = await socket.turn(
            store=False, previous_response_id="resp_that_never_was", input="This must fail."
        )
        assert turn.code == "previous_response_not_found"


async def websocket_failed_continuation_evicts_cache(target: Target) -> None:
    async with await target.socket() as socket:
        first = await socket.completed(store=False, input="Remember the code word: ember. Reply with OK.")
        orphan = {
            "type": "function_call_output",
            "call_id": "call_of_nobody",
            "output": "no call has this id",
        }
        failed = await socket.turn(store=False, previous_response_id=first["id"], input=[orphan])
        assert failed.last["type"] in ("error", "response.failed")
        retried = await socket.turn(
            store=False, previous_response_id=first["id"], input="Go on all the same."
        )
        assert retried.code == "previous_response_not_found"


async def websocket_compact_new_chain(target: Target) -> None:
    compacted = await _compacted(target, input=[user("The code word is amber."), assistant("Understood.")])
    async with await target.socket() as socket:
        response = await socket.completed(
            store=False, input=[*compacted["output"], user("Reply with exactly: continued")]
        )
        assert response["previous_response_id"] is None


async def system_prompt(target: Target) -> None:
    system = {"type": "message", "role": "system", "content": "You are a pirate. Always talk like one."}
    response = await target.create(input=[system, user("Say hello.")])
    assert response["status"] == "completed"


async def tool_calling(target: Target) -> None:
    question = "What's the weather like in San Francisco?"
    response = await target.create(input=[user(question)], tools=[WEATHER])
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert calls, response["output"]
    assert all(call["name"] == "get_weather" for call in calls)
    assert all(isinstance(json.loads(call["arguments"])["location"], str) for call in calls)


async def image_input(target: Target) -> None:
    picture = "data:image/png;base64," + base64.b64encode(red_square(32)).decode()
    parts = [
        {"type": "input_text", "text": "What do you see in this image? Answer in one sentence."},
        {"type": "input_image", "image_url": picture},
    ]
    response = await target.create(input=[{"type": "message", "role": "user", "content": parts}])
    assert response["status"] == "completed"


async def multi_turn(target: Target) -> None:
    history = [user("My name is Alice."), assistant("Hello Alice! How can I help?"), user("What is my name?")]
    response = await target.create(input=history)
    assert response["status"] == "completed"


async def compact_response(target: Target) -> None:
    await _compacted(
        target,
        prompt_cache_key="scenario-compact",
        input=[user("We launch on Tuesday and tell support first."), assistant("Understood: Tuesday.")],
    )


async def compact_missing_model(target: Target) -> None:
    answer = await target.post("/responses/compact", input=[user("Compact this conversation.")])
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["param"] == "model"


async def _compacted(target: Target, **body: Any) -> Json:
    answer = await target.post("/responses/compact", model=target.model, **body)
    assert answer.status_code == 200, answer.text
    resource: Json = answer.json()
    assert_valid("CompactResource", resource)
    assert [item["type"] for item in resource["output"]] == ["compaction"]
    return resource


def red_square(side: int) -> bytes:
    """A PNG that is all red."""

    def section(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = (b"\0" + b"\xff\0\0" * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + section(b"IHDR", header)
        + section(b"IDAT", zlib.compress(rows))
        + section(b"IEND", b"")
    )


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__.replace("_", "-"): scenario
    for scenario in (
        basic_response,
        assistant_phase,
        response_output_phase_schema,
        streaming_response,
        websocket_response,
        websocket_sequential_responses,
        websocket_continuation,
        websocket_reconnect_store_false_recovery,
        websocket_previous_response_not_found,
        websocket_failed_continuation_evicts_cache,
        websocket_compact_new_chain,
        system_prompt,
        tool_calling,
        image_input,
        multi_turn,
        compact_response,
        compact_missing_model,
    )
}
