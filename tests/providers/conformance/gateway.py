"""A real gateway with every fake behind it, asked over JSON, SSE and WebSocket: what the wires share."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from websockets.asyncio.client import connect

from antiphon.stream.auditor import audit, audit_sse
from tests.providers.azure import fake as fake_azure
from tests.providers.bedrock import fake as fake_bedrock
from tests.providers.compose import SOLICITED
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.said import Fake
from tests.providers.gemini import fake as fake_gemini
from tests.providers.writer import fake as fake_writer
from tests.server.servers import DEADLINE, Serving, configure

Json = dict[str, Any]
Transport = Literal["json", "sse", "websocket", "background"]
TRANSPORTS: tuple[Transport, ...] = ("json", "sse", "websocket")

# What a user writes for each wire, and the model that is asked.
SETTINGS: dict[str, tuple[str, str]] = {
    "anthropic": ('type = "anthropic"\nversion = "2026-10-21"', "claude-opus-5-5"),
    "azure": (f'type = "azure"\napi_key = "{fake_azure.KEY}"\napi_version = "{fake_azure.VERSION}"', "gpt"),
    "azure v1": (f'type = "azure"\napi_key = "{fake_azure.KEY}"', "gpt"),
    "bedrock": (f'type = "bedrock"\napi_key = "{fake_bedrock.KEY}"\nregion = "eu"', fake_bedrock.CLAUDE),
    "chat": ('type = "chat"\nprofile = "openai"', "gpt"),
    "chat openrouter": ('type = "chat"\nprofile = "openrouter"', "anthropic/claude"),
    "gemini": (f'type = "gemini"\napi_key = "{fake_gemini.KEY}"', fake_gemini.MODEL),
    "ollama": ('type = "ollama"', "qwen3"),
    "responses": ('type = "responses"\nquirks = "openai"', "gpt"),
    "responses websocket": ('type = "responses"\nquirks = "openai"\nwebsocket = true', "gpt"),
    "vertex": (
        f'type = "vertex"\napi_key = "unused"\nproject = "{fake_gemini.PROJECT}"\nlocation = "us-central1"\n'
        'headers = { Authorization = "Bearer ya29.a-token" }',
        "gemini-2.5-pro",
    ),
    "writer": (f'type = "writer"\napi_key = "{fake_writer.KEY}"', fake_writer.MODEL),
}


def slug(wire: str) -> str:
    """The name of a wire as a model's and a provider's."""
    return wire.replace(" ", "-")


def toml(fakes: dict[str, Fake]) -> str:
    lines = [
        f'[providers.{slug(wire)}]\nbase_url = "{fake.base_url}"\n{SETTINGS[wire][0]}\n'
        for wire, fake in fakes.items()
    ]
    models = [f'{slug(wire)} = "{slug(wire)}/{SETTINGS[wire][1]}"' for wire in fakes]
    return "\n".join([*lines, "[models]", *models, '[media]\nallow = ["127.0.0.1"]'])


# The types of items that a hosted tool brings.
_HOSTED = {
    "antiphon:function": {"antiphon:"},
    "mcp": {"mcp_call", "mcp_list_tools"},
    "code_interpreter": {"code_interpreter_call"},
    "file_search": {"file_search_call"},
    "web_search": {"web_search_call"},
}


class Gateway:
    """Every stream that it gives is held against the Auditor, every request upstream against the types."""

    def __init__(self, serving: Serving, fakes: dict[str, Fake]) -> None:
        self.url = serving.url
        self.fakes = fakes
        self.http = serving.client(X_Antiphon_Receipts="1")

    async def ask(self, wire: str, transport: Transport = "json", **request: Any) -> Json:
        """The response in the end; a request that is refused raises what it was told."""
        body = {"model": slug(wire), **request}
        match transport:
            case "json":
                answer = await asyncio.to_thread(self.http.post, "/v1/responses", json=body)
                response: Json = answer.json()
                if answer.status_code != 200:
                    raise Refused(answer.status_code, dict(answer.headers), response["error"])
            case "sse":
                events = await asyncio.to_thread(self._listen, body)
                response = events[-1]["response"]
            case "background":
                made = await self.ask(wire, "json", background=True, **request)
                path = f"/v1/responses/{made['id']}?stream=true"
                events = await asyncio.to_thread(self._listen, body, "GET", path)
                response = events[-1]["response"]
            case "websocket":
                events = await self._dial(body)
                assert audit(events, transport="websocket", solicited=_asked_for(body), extensions=True) == []
                response = events[-1]["response"]
        fake = self.fakes[wire]
        assert response["status"] == "queued" or fake.mistakes(fake.requests[-1]) == []
        return response

    async def leave(self, wire: str, **request: Any) -> None:
        """Go away once the first words have come."""
        await asyncio.to_thread(self._leave, {"model": slug(wire), "stream": True, **request})

    def _leave(self, body: Json) -> None:
        with self.http.stream("POST", "/v1/responses", json=body) as answer:
            for chunk in answer.iter_raw():
                if b"output_text.delta" in chunk:
                    return

    def _listen(self, body: Json, method: str = "POST", path: str = "/v1/responses") -> list[Json]:
        sent = {**body, "stream": True} if method == "POST" else None
        with self.http.stream(method, path, json=sent) as answer:
            raw = answer.read()
            if answer.status_code != 200:
                raise Refused(answer.status_code, dict(answer.headers), json.loads(raw)["error"])
        assert audit_sse(raw, solicited=_asked_for(body), extensions=True) == []
        datas = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: ")]
        return [json.loads(data) for data in datas if data != b"[DONE]"]

    async def _dial(self, body: Json) -> list[Json]:
        headers = {"X-Antiphon-Receipts": "1"}
        url = self.url.replace("http", "ws", 1) + "/v1/responses"
        async with (
            asyncio.timeout(DEADLINE),
            connect(url, additional_headers=headers, proxy=None, max_size=None) as socket,
        ):
            await socket.send(json.dumps({"type": "response.create", **body}))
            events: list[Json] = []
            while not events or not _is_last(events[-1]):
                events.append(json.loads(await socket.recv()))
        if events[-1]["type"] == "error":
            raise Refused(events[-1]["status"], {}, events[-1]["error"])
        return events


class Refused(Exception):
    def __init__(self, status: int, headers: dict[str, str], error: Json) -> None:
        super().__init__(f"{status}: {error}")
        self.status = status
        self.headers = headers
        self.error = error


def _asked_for(body: Json) -> set[str]:
    """The types of items outside the specification that this request may get."""
    kinds = {tool["type"] for tool in body.get("tools", ())}
    return SOLICITED.union(*(items for kind, items in _HOSTED.items() if kind in kinds))


def _is_last(event: Json) -> bool:
    kind = event["type"].removeprefix("response.")
    return kind in ("completed", "incomplete", "failed", "error")


@asynccontextmanager
async def gateway(folder: Path, *wires: str, **settings: str) -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as running:
        fakes = {wire: await running.enter_async_context(FAKES[wire]()) for wire in wires or FAKES}
        with Serving(configure(folder, toml(fakes), **settings)) as serving:
            yield Gateway(serving, fakes)
