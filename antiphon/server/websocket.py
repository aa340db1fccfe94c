"""The WebSocket on `/v1/responses`: one turn after the other, with a memory of its own."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing

import msgspec

from antiphon.bridges.encoder import Lines
from antiphon.engine.context import Memory
from antiphon.engine.engine import Caller
from antiphon.engine.run import INTERNAL, SHUTDOWN, Run
from antiphon.providers.base import UpstreamError
from antiphon.server.asgi import Message, Receive, Scope, Send
from antiphon.server.auditing import Audit
from antiphon.server.exchange import ClientGone, request_id
from antiphon.server.gateway import Gateway
from antiphon.spec.decode import decode_websocket_create
from antiphon.spec.errors import ErrorBody, ErrorPayload, SpecError, WebSocketError, not_found
from antiphon.spec.events import AnyEvent
from antiphon.spec.request import WebSocketCreate
from antiphon.store import StoreError

log = logging.getLogger("antiphon.server")

PATH = "/v1/responses"
AT_ONCE = "antiphon.at_once"
"""The extension of ASGI under which our own server has a `Put`."""
Put = Callable[[Sequence[bytes]], bool]
"""Sends texts without waiting; False, and none of them sent, if that is not possible now."""
_NORMAL, _GOING_AWAY = 1000, 1001
_WAITING_MESSAGES = 16
_LIMIT = ErrorPayload(
    "invalid_request",
    "this connection has reached its time limit; open a new one and send the context again",
    code="websocket_connection_limit_reached",
)


async def serve(gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
    headers = dict(scope["headers"])
    id = request_id(headers)
    named = (b"x-request-id", id.encode("latin-1"))
    try:
        gateway.gate.check_source(headers)
        caller = gateway.gate.admit(headers).asking(id)
        if scope["path"].rstrip("/") != PATH:
            raise SpecError(not_found(f"there is no WebSocket at {scope['path'][:200]}"))
    except SpecError as error:
        await _refuse(error, named, receive, send)
        return
    await receive()
    spelled = (b"x-antiphon-dialect", caller.dialect.name.encode())
    await send({"type": "websocket.accept", "headers": [named, spelled]})
    socket = Socket(gateway, caller, receive, send, scope.get("extensions", {}).get(AT_ONCE))
    await socket.run()


async def _refuse(error: SpecError, named: tuple[bytes, bytes], receive: Receive, send: Send) -> None:
    """A handshake that is answered with plain HTTP."""
    await receive()
    headers = [(b"content-type", b"application/json"), named]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": ErrorBody.encode(error.payload)})


class Socket:
    """One connection. Messages wait in a queue while a turn runs; a closed socket cancels the turn."""

    def __init__(
        self, gateway: Gateway, caller: Caller, receive: Receive, send: Send, put: Put | None
    ) -> None:
        self._gateway = gateway
        self._caller = caller
        self._receive = receive
        self._send = send
        self._at_once = put
        self._memory = Memory()
        self._messages: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_MESSAGES)
        self._audit: Audit | None = None

    async def run(self) -> None:
        turns = asyncio.ensure_future(self._turns())
        reader = asyncio.ensure_future(self._read())
        with self._gateway.connected(self):
            try:
                await asyncio.wait({turns, reader}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (turns, reader):
                    task.cancel()
                for end in await asyncio.gather(turns, reader, return_exceptions=True):
                    if isinstance(end, Exception) and not isinstance(end, ClientGone):
                        log.error("request %s: the socket broke", self._caller.request_id, exc_info=end)

    async def close(self, code: int = _GOING_AWAY) -> None:
        await self._put({"type": "websocket.close", "code": code})

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            await self._messages.put(text.encode() if text is not None else message.get("bytes") or b"")

    async def _turns(self) -> None:
        server = self._gateway.config.server
        loop = asyncio.get_running_loop()
        ends = loop.time() + server.websocket_limit if server.websocket_limit else None
        while True:
            idle = loop.time() + server.websocket_idle if server.websocket_idle else None
            patience = min((t for t in (ends, idle) if t is not None), default=None)
            try:
                async with asyncio.timeout_at(patience):
                    message = await self._messages.get()
            except TimeoutError:
                if patience == ends:  # not by the clock: a timer may wake a moment early
                    await self._error(_LIMIT, 400)
                await self.close(_NORMAL)
                return
            await self._turn(message)
            if ends is not None and loop.time() >= ends:
                await self._error(_LIMIT, 400)
                await self.close(_NORMAL)
                return

    async def _turn(self, message: bytes) -> None:
        """One turn; exactly one message ends it when it fails."""
        request: WebSocketCreate | None = None
        try:
            if self._gateway.stopping:
                raise SpecError(SHUTDOWN, 503)
            request = decode_websocket_create(message, max_bytes=self._gateway.config.server.body_limit)
            run = await self._gateway.engine.start(
                request, self._caller, memory=self._memory, error_event=False
            )
            self._gateway.begin(run)
            try:
                await self._stream(run)
            finally:
                self._gateway.end(run)
            succeeded = run.error is None
        except SpecError as error:
            succeeded = False
            await self._error(error.payload, error.status)
        except UpstreamError as error:
            succeeded = False
            await self._error(error.payload, error.status)
        except StoreError as error:
            succeeded = False
            await self._error(ErrorPayload("server_error", str(error), code="store_failed"), 503)
        except ClientGone:
            raise
        except Exception:
            succeeded = False
            log.exception("request %s failed", self._caller.request_id)
            await self._error(INTERNAL, 500)
        if self._audit is not None:
            self._audit.finish()
            self._audit = None
        if not succeeded and request is not None and request.previous_response_id:
            self._memory.evict(request.previous_response_id)

    async def _stream(self, run: Run) -> None:
        server = self._gateway.config.server
        await run.begin(server.created_after or None)
        encoder = Lines(self._caller.dialect.for_response(run.response))
        audit = self._audit = self._gateway.audits.of_turn(run.turn.request.tools, self._caller)
        put = self._at_once

        def tell(events: list[AnyEvent]) -> bool:
            if put is None:
                return False
            lines = encoder.encode(events).split(b"\n")[:-1]
            if not put(lines):
                return False
            if audit is not None:
                for line in lines:
                    audit.sent_message(line.decode())
            return True

        async with aclosing(run.events(tell)) as batches:
            async for events in batches:
                for line in encoder.encode(events).decode().split("\n")[:-1]:
                    await self._put({"type": "websocket.send", "text": line})
                    if audit is not None:
                        audit.sent_message(line)

    async def _error(self, error: ErrorPayload, status: int) -> None:
        named = self._caller.dialect.error(error)
        payload = msgspec.structs.replace(named, code=named.code or named.type)
        text = msgspec.json.encode(WebSocketError(status, payload)).decode()
        await self._put({"type": "websocket.send", "text": text})
        if self._audit is not None:
            self._audit.sent_message(text)

    async def _put(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:  # what ASGI servers raise when the other side has closed
            raise ClientGone from None
