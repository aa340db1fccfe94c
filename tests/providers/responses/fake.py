"""Fake servers of `/responses`, one over HTTP and one over WebSocket, with programmable answers and faults.

They refuse a body that does not fit the official SDK's own request types, and remember every request.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from openai.types.responses.input_token_count_params import InputTokenCountParams
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from openai.types.responses.responses_client_event_param import ResponsesClientEventParam
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from antiphon.config import Secret, UpstreamTimeouts
from antiphon.providers.http import UpstreamClient
from antiphon.providers.responses import OpenResponses
from tests.providers.build import build
from tests.providers.conformance import asked
from tests.providers.conformance.said import Mind, Script
from tests.providers.fake_server import FakeServer, Piece, Received, Step, Wire, refusal
from tests.providers.responses import wire
from tests.providers.typed_dicts import mistakes

Events = list[wire.Json]
Reply = Script | Wire | Events
_JSON = {"content-type": "application/json"}


class FakeResponses(FakeServer):
    """Queue replies with `says`: scripts, events, or bytes; else its mind answers, or it says nothing."""

    mind: Mind | None = None
    prefix = "/v1"
    lacks: ClassVar[Mapping[str, str]] = {}

    def __init__(self, *, strict: bool = True, api_key: str | None = None) -> None:
        super().__init__()
        self._strict = strict
        self._api_key = api_key
        self._replies: deque[Reply] = deque()

    def says(self, *replies: Reply) -> Self:
        self._replies.extend(replies)
        return self

    def plays(self, *scripts: Script) -> None:
        self._replies.extend(scripts)

    def provider(self, http: UpstreamClient) -> OpenResponses:
        return self.made(http)

    def made(self, http: UpstreamClient, quirks: str = "openai", **options: Any) -> OpenResponses:
        return build(OpenResponses, "responses", http, self.base_url, quirks=quirks, **options)

    def mistakes(self, received: Received) -> list[str]:
        if received.path.endswith("/input_tokens"):
            return mistakes(received.body, InputTokenCountParams)
        streamed = received.body.get("stream")
        shape = ResponseCreateParamsStreaming if streamed else ResponseCreateParamsNonStreaming
        return mistakes(received.body, shape) + wire.unpaired(received.body.get("input"))

    def reply(self, received: Received) -> Wire:
        told = received.headers.get("authorization", "")
        if self._api_key is not None and told != f"Bearer {self._api_key}":
            said = f"Incorrect API key provided: {told[7:]}."
            return refusal(401, wire.error(said, "invalid_request_error", "invalid_api_key"))
        if received.path == "/v1/models":
            listed = [{"id": wire.MODEL, "object": "model", "created": 1, "owned_by": "us"}]
            return refusal(200, json.dumps({"object": "list", "data": listed}).encode())
        if received.method == "GET":
            return refusal(426, wire.error("There is no WebSocket here."))
        if received.path not in ("/v1/responses", "/v1/responses/input_tokens"):
            return refusal(404, b'{"detail":"Not Found"}')
        if self._strict and (wrong := self.mistakes(received)):
            return refusal(400, wire.error("; ".join(wrong), code="unknown_parameter"))
        if received.path == "/v1/responses/input_tokens":
            counted = {"object": "response.input_tokens", "input_tokens": len(json.dumps(received.body))}
            return refusal(200, json.dumps(counted).encode())
        chosen: Reply
        if self._replies:
            chosen = self._replies.popleft()
        else:
            chosen = self.mind(asked.responses(received.body)) if self.mind else Script()
        if isinstance(chosen, Wire):
            return chosen
        if isinstance(chosen, list):
            return Wire([*map(wire.sse, chosen), wire.DONE])
        if received.body.get("stream"):
            return Wire(list(_pieces(chosen, received.body)))
        body = json.dumps(wire.whole(chosen, received.body), ensure_ascii=False).encode()
        return Wire([body], headers=_JSON)


def _pieces(script: Script, request: wire.Json) -> Iterable[Piece]:
    yield from map(wire.sse, wire.events(script, request))
    yield Step.CLOSE if script.ending == "cut" else wire.DONE


class FakeResponsesSocket:
    """The same over a WebSocket, where an error with a status is the answer to a turn that is refused."""

    mind: Mind | None = None
    lacks: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.slice = 0
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        """A client went away before its answer had ended."""
        self._replies: deque[Script | Events | Step] = deque()
        self._server: Server | None = None

    def says(self, *replies: Script | Events | Step) -> Self:
        self._replies.extend(replies)
        return self

    def plays(self, *scripts: Script) -> None:
        self._replies.extend(scripts)

    def provider(self, http: UpstreamClient) -> OpenResponses:
        return self.made(http)

    def made(self, http: UpstreamClient, **options: Any) -> OpenResponses:
        timeouts = options.pop("timeouts", None) or UpstreamTimeouts(connect=5, first_byte=5, idle=5)
        return build(
            OpenResponses,
            "responses",
            http,
            self.base_url,
            quirks="openai",
            api_key=Secret("sk-1"),
            websocket=True,
            timeouts=timeouts,
            **options,
        )

    def mistakes(self, received: Received) -> list[str]:
        return mistakes(received.body, ResponsesClientEventParam) + wire.unpaired(received.body.get("input"))

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> Self:
        self._server = await serve(self._serve, "127.0.0.1", 0, compression=None, close_timeout=1)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        request = socket.request
        assert request is not None
        headers = {name.lower(): value for name, value in request.headers.raw_items()}
        try:
            async for message in socket:
                received = Received("WEBSOCKET", request.path, headers, json.loads(message))
                self.requests.append(received)
                self.asked.set()
                await self._answer(socket, received)
        except ConnectionClosed:
            self.gone.set()

    async def _answer(self, socket: ServerConnection, received: Received) -> None:
        if wrong := self.mistakes(received):
            refused = json.loads(wire.error("; ".join(wrong), code="unknown_parameter"))
            await socket.send(json.dumps({"type": "error", "status": 400, **refused}))
            return
        chosen: Script | Events | Step
        if self._replies:
            chosen = self._replies.popleft()
        else:
            chosen = self.mind(asked.responses(received.body)) if self.mind else Script()
        if chosen is Step.HANG:
            await socket.wait_closed()
            self.gone.set()
            return
        if chosen is Step.CLOSE:
            await socket.close()
            return
        told = wire.events(chosen, received.body) if isinstance(chosen, Script) else chosen
        for event in told if not isinstance(told, Step) else ():
            await socket.send(json.dumps(event, ensure_ascii=False))
        if isinstance(chosen, Script) and chosen.ending == "cut":
            await socket.close()
