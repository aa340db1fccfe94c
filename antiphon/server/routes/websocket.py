"""The WebSocket on `/v1/responses`: one turn after the other, with a context that the connection keeps."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

import msgspec

from antiphon.bridges.encoder import JsonLines
from antiphon.engine.context import Memory
from antiphon.engine.engine import Caller
from antiphon.engine.failures import SHUTDOWN, problem_of
from antiphon.engine.run import Run
from antiphon.providers.worker_thread import in_worker_thread
from antiphon.server.asgi_exchange import Message, Receive, Scope, Send, Sender, names_two_hosts
from antiphon.server.auditing import Audit
from antiphon.server.exchange import ClientGone, request_id, two_hosts
from antiphon.server.gateway import Gateway
from antiphon.server.memory import Held
from antiphon.server.pieces import Pieces, decode_pieces
from antiphon.server.streaming import tell
from antiphon.spec.decode import decode_websocket_create
from antiphon.spec.errors import ErrorBody, ErrorPayload, SpecError, WebSocketError, not_found
from antiphon.spec.events import AnyEvent
from antiphon.spec.limits import LARGE
from antiphon.spec.request import WebSocketCreate

log = logging.getLogger("antiphon.server")

PATH = "/v1/responses"
TEXTS = "antiphon.texts"
"""The extension of ASGI under which our own server has `Texts`."""
_NORMAL, _GOING_AWAY = 1000, 1001
_WAITING_MESSAGES = 16
_WAITING_BYTES = 1024 * 1024
"""With more than this in messages that wait, no other is taken."""
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
        if names_two_hosts(scope):
            raise two_hosts()
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
    texts = scope.get("extensions", {}).get(TEXTS) or SentTexts(send)
    await ResponsesSocket(gateway, caller, receive, send, texts).run()


async def _refuse(error: SpecError, named: tuple[bytes, bytes], receive: Receive, send: Send) -> None:
    """A handshake that is answered with plain HTTP."""
    await receive()
    headers = [(b"content-type", b"application/json"), named]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": ErrorBody.encode(error.payload)})


class Texts(Protocol):
    """Sends texts without waiting."""

    def put(self, texts: Sequence[bytes]) -> bool:
        """False: they were taken, but put no more before `ready` has returned."""

    async def ready(self) -> None:
        """Wait until the client has taken enough of what was put."""


class SentTexts:
    """Texts over any server of ASGI."""

    def __init__(self, send: Send) -> None:
        self._sender = Sender(send)

    def put(self, texts: Sequence[bytes]) -> bool:
        has_room = True
        for text in texts:
            has_room = self._sender.put({"type": "websocket.send", "text": text.decode()})
        return has_room

    async def ready(self) -> None:
        await self._sender.ready()


class SocketEnd:
    """One turn on a connection: each event is a message."""

    def __init__(self, gateway: Gateway, caller: Caller, run: Run, texts: Texts) -> None:
        self._audits = gateway.audits
        self._caller = caller
        self._tools = run.turn.request.tools
        self._encoder = JsonLines(caller.dialect.for_response(run.response))
        self._texts = texts
        self.audit: Audit | None = None

    def open(self) -> None:
        self.audit = self._audits.of_turn(self._tools, self._caller)

    def put(self, events: list[AnyEvent]) -> bool:
        lines = self._encoder.encode(events).split(b"\n")[:-1]
        has_room = self._texts.put(lines)
        if self.audit is not None:
            for line in lines:
                self.audit.sent_message(line.decode())
        return has_room

    async def ready(self) -> None:
        await self._texts.ready()

    async def close(self, events: list[AnyEvent]) -> None:
        self.put(events)
        await self._texts.ready()


class ResponsesSocket:
    """One connection. Messages wait in a queue while a turn runs; a closed socket cancels the turn."""

    def __init__(self, gateway: Gateway, caller: Caller, receive: Receive, send: Send, texts: Texts) -> None:
        self._gateway = gateway
        self._caller = caller
        self._receive = receive
        self._send = send
        self._texts = texts
        self._memory = Memory()
        self._messages: asyncio.Queue[bytes | Pieces | SpecError] = asyncio.Queue(_WAITING_MESSAGES)
        self._held = Held(gateway.memory)
        self._size = 0
        """How many bytes the messages that wait have, and the one whose turn it is."""
        self._waiting = 0
        """How many of them wait."""
        self._took = asyncio.Event()

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
                self._held.hold(0)

    async def close(self, code: int = _GOING_AWAY) -> None:
        await self._put({"type": "websocket.close", "code": code})

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            data: bytes | Pieces = text.encode() if text is not None else message.get("bytes") or b""
            try:
                self._held.hold(self._size + len(data))
            except SpecError as error:
                await self._messages.put(error)
                continue
            self._size += len(data)
            self._waiting += len(data)
            await self._messages.put(data)
            del message, text, data  # or the last one would stay for as long as no other comes
            while self._waiting > _WAITING_BYTES:
                self._took.clear()
                await self._took.wait()

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
            if isinstance(message, SpecError):
                await self._error(message.payload, message.status)
                continue
            size = len(message)
            self._waiting -= size
            self._took.set()
            await self._turn(message)
            self._size -= size
            self._held.hold(self._size)
            if ends is not None and loop.time() >= ends:
                await self._error(_LIMIT, 400)
                await self.close(_NORMAL)
                return

    async def _decoded(self, message: bytes | Pieces) -> WebSocketCreate:
        limit = self._gateway.config.server.body_limit
        self._caller.is_large = len(message) > LARGE
        if self._caller.is_large:
            return await in_worker_thread(decode_pieces, decode_websocket_create, message, limit)
        return decode_pieces(decode_websocket_create, message, limit)

    async def _turn(self, message: bytes | Pieces) -> None:
        """One turn; exactly one message ends it when it fails."""
        gateway, caller = self._gateway, self._caller
        request: WebSocketCreate | None = None
        end: SocketEnd | None = None
        try:
            if gateway.stopping:
                raise SpecError(SHUTDOWN, 503)
            request = await self._decoded(message)
            run = await gateway.engine.start(request, caller, memory=self._memory, error_event=False)
            end = SocketEnd(gateway, caller, run, self._texts)
            await tell(gateway, run, end)
            succeeded = run.problem is None
        except ClientGone:
            raise
        except Exception as error:
            succeeded = False
            problem = problem_of(error, caller.request_id)
            await self._error(problem.payload, problem.status, end)
        if end is not None and end.audit is not None:
            end.audit.finish()
        if not succeeded and request is not None and request.previous_response_id:
            self._memory.evict(request.previous_response_id)

    async def _error(self, error: ErrorPayload, status: int, end: SocketEnd | None = None) -> None:
        named = self._caller.dialect.error(error)
        payload = msgspec.structs.replace(named, code=named.code or named.type)
        text = msgspec.json.encode(WebSocketError(status, payload)).decode()
        await self._texts.ready()
        await self._put({"type": "websocket.send", "text": text})
        if end is not None and end.audit is not None:
            end.audit.sent_message(text)

    async def _put(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:  # what ASGI servers raise when the other side has closed
            raise ClientGone from None
