"""A WebSocket server for tests of sessions: each turn gets what the test has queued for it."""

import asyncio
import json
from collections import deque
from http import HTTPStatus
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from antiphon.client import AsyncClient
from antiphon.spec.decode import decode_websocket_create
from antiphon.spec.request import new_response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta
from tests.client.scripted_server import PATIENT, QUICK, say
from tests.providers.fake_server import until_accepted

DROP = "drop"
"""Cut the connection without a word."""
CUT = "cut"
"""Begin to answer, then cut the connection."""
HANG = "hang"
"""Begin to answer, and never end."""
DEAF = "deaf"
"""Begin to answer, and hear nothing more, not even a goodbye."""

Turn = str | dict[str, Any] | list[AnyDelta] | tuple[str | bytes, ...]


class SocketServer:
    """Answers each `response.create` with the next turn: deltas, an envelope, bare messages, or a fault."""

    def __init__(self, *turns: Turn, refuses: int = 0) -> None:
        self.turns = deque(turns)
        self.bodies: list[dict[str, Any]] = []
        self.connections = 0
        self.gone = asyncio.Event()
        self.heard = asyncio.Event()
        self._refuses = refuses
        self._server: Server | None = None
        self._deaf: list[asyncio.Transport] = []

    async def __aenter__(self) -> Self:
        self._server = await serve(self._serve, "127.0.0.1", 0, process_request=self._check)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        for transport in self._deaf:
            transport.abort()  # it would wait for a goodbye that it cannot hear
        await until_accepted()
        self._server.close(close_connections=True)
        await self._server.wait_closed()

    def client(self, **options: Any) -> AsyncClient:
        assert self._server is not None
        port = next(iter(self._server.sockets)).getsockname()[1]
        given: dict[str, Any] = {"timeouts": PATIENT, "retries": QUICK, "trust_env": False} | options
        return AsyncClient(f"http://127.0.0.1:{port}/v1", "key", **given)

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        if self._refuses:
            return connection.respond(HTTPStatus(self._refuses), "no")
        return None

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        try:
            async for message in socket:
                body = json.loads(message)
                self.bodies.append(body)
                self.heard.set()
                turn = self.turns.popleft() if len(self.turns) > 1 else self.turns[0]
                if turn == DROP:
                    socket.transport.abort()
                elif isinstance(turn, tuple):
                    for one in turn:
                        await socket.send(one)
                elif isinstance(turn, dict):
                    await socket.send(json.dumps(turn))
                    if turn.get("close"):
                        await socket.close()
                else:
                    await self._answer(socket, message, turn)
        except ConnectionClosed:
            pass
        finally:
            self.gone.set()

    async def _answer(
        self, socket: ServerConnection, message: str | bytes, turn: str | list[AnyDelta]
    ) -> None:
        raw = message.encode() if isinstance(message, str) else message
        request = decode_websocket_create(raw)
        composer = Composer(new_response(request, model="m", now=1), clock=lambda: 2.0, error_event=False)
        deltas = say("said") if isinstance(turn, str) else turn
        events = composer.start() + composer.feed(deltas)
        for event in events[:4] if isinstance(turn, str) else events:
            await socket.send(event.to_json().decode())
        if turn == CUT:
            socket.transport.abort()
        elif turn == DEAF:
            socket.transport.pause_reading()
            self._deaf.append(socket.transport)
