"""The WebSocket on `/v1/responses`: its turns are runs of the engine."""

import asyncio
import logging
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from antiphon.bridges.encoder import JsonLines
from antiphon.engine.failures import SHUTDOWN, Problem, problem_of
from antiphon.engine.request_context import RequestContext
from antiphon.engine.run import Run
from antiphon.engine.run_state import RunState
from antiphon.server.asgi_exchange import names_two_hosts
from antiphon.server.auditing import Audit
from antiphon.server.body_memory import SMALL, MemoryShare, decoded_size
from antiphon.server.exchange import request_id, two_hosts_error
from antiphon.server.gateway import Gateway
from antiphon.server.streaming import deliver
from antiphon.spec.decode import decode_websocket_create
from antiphon.spec.errors import ErrorPayload, SpecError, not_found
from antiphon.spec.events import AnyEvent
from antiphon.spec.limits import LARGE
from antiphon.spec.request import WebSocketCreate
from antiphon.store.base import Context
from antiphon.wires.asgi import AsgiScope, Receive, Send
from antiphon.wires.pieces import Pieces, decode_pieces
from antiphon.wires.responses_socket import PATH, ResponsesSocket, Texts, refuse_handshake, texts_of
from antiphon.wires.slots import work_for
from antiphon.wires.worker_thread import in_worker_thread

log = logging.getLogger("antiphon.server")


async def serve(gateway: Gateway, scope: AsgiScope, receive: Receive, send: Send) -> None:
    headers = dict(scope["headers"])
    id = request_id(headers)
    named = (b"x-request-id", id.encode("latin-1"))
    try:
        if names_two_hosts(scope):
            raise two_hosts_error()
        gateway.gate.check_source(headers)
        try:
            context = gateway.gate.admit(headers, id)
        except SpecError as refusal:
            context = await gateway.sessions.admit(headers, refusal, id)
        if scope["path"].rstrip("/") != PATH:
            raise SpecError(not_found(f"there is no WebSocket at {scope['path'][:200]}"))
    except SpecError as error:
        await refuse_handshake(error, scope, receive, send, named)
        gateway.requests.log_refusal(error.payload, error.status, f"WS {scope['path']}", id)
        return
    work_for(context.tenant)
    await receive()
    spelled = (b"x-antiphon-dialect", context.dialect.name.encode())
    version = gateway.gate.version(headers)
    await send({"type": "websocket.accept", "headers": [named, spelled, *version]})
    await GatewaySocket(gateway, context, receive, send, texts_of(scope, send)).run()


class SocketEnd:
    """One turn on a connection: each event is a message."""

    def __init__(self, gateway: Gateway, run: Run, texts: Texts) -> None:
        context = run.state.context
        self._audits = gateway.audits
        self._context = context
        self._tools = run.turn.tools
        self._encoder = JsonLines(context.dialect.for_response(run.response))
        self._texts = texts
        self.audit: Audit | None = None

    def open(self) -> None:
        self.audit = self._audits.of_turn(self._tools, self._context)

    def put(self, events: list[AnyEvent]) -> bool:
        lines = self._encoder.encode(events).split(b"\n")[:-1]
        has_room = self._texts.put(lines)
        if self.audit is not None:
            for line in lines:
                self.audit.record_message(line.decode())
        return has_room

    async def ready(self) -> None:
        await self._texts.ready()

    async def put_long(self, event: AnyEvent) -> None:
        if not self.put([event]):
            await self.ready()
        await asyncio.sleep(0)

    async def close(self, events: list[AnyEvent]) -> None:
        self.put(events)
        await self._texts.ready()


class GatewaySocket(ResponsesSocket[Context]):
    """One connection to the gateway, within its limits, audited if that is on."""

    def __init__(
        self, gateway: Gateway, context: RequestContext, receive: Receive, send: Send, texts: Texts
    ) -> None:
        server = gateway.config.server
        super().__init__(receive, send, texts, limit=server.websocket_limit, idle=server.websocket_idle)
        self._gateway = gateway
        self._connected = context
        """What the handshake said; each turn has a context of its own."""
        self._context = context
        self._run: RunState | None = None
        self._held = MemoryShare(gateway.memory, context.tenant)
        self._decoded = 0  # bytes that the message takes whose turn it is
        self._remembered = 0  # bytes of the newest response and its context
        self._end: SocketEnd | None = None
        self._problem: Problem | None = None
        """Why the last turn failed, if it did."""

    async def run(self) -> None:
        with self._gateway.track_socket(self):
            try:
                await super().run()
            finally:
                self._held.hold(0)

    def hold(self, size: int) -> None:
        more = self._decoded + self._remembered
        if more:
            self._held.hold_decoded(size + more)
        else:
            self._held.hold(size)

    def broke(self, error: Exception) -> None:
        log.error("request %s: the socket broke", self._connected.request_id, exc_info=error)

    async def decode_message(self, message: bytes | Pieces) -> WebSocketCreate:
        if self._gateway.stopping:
            raise SpecError(SHUTDOWN, 503)
        context, decode, skipped = self._connected, decode_websocket_create, list[str]()
        if context.dialect.is_lenient:
            decode = partial(decode_websocket_create, skipped=skipped)
        if len(message) > SMALL:
            pieces = (message,) if isinstance(message, bytes) else message.each()
            self._decoded = await in_worker_thread(decoded_size, pieces)
            self.hold(self._size)
        is_large = len(message) > LARGE  # of the pieces, decoding leaves none
        request = await decode_pieces(decode, message, self._gateway.config.server.body_limit)
        if skipped or is_large:
            context = replace(context, is_large=is_large, skipped=tuple(skipped))
        self._context = context
        return request

    async def turn(self, message: bytes | Pieces) -> None:
        began = perf_counter()
        self._problem = None
        await super().turn(message)
        self._decoded = 0
        self._hold_remembered()
        end, self._end = self._end, None
        if end is not None and end.audit is not None:
            end.audit.finish()
        run, self._run = self._run, None  # it holds the whole request, and the socket may be idle for long
        self._gateway.requests.log_end(self._connected, run, f"WS {PATH}", began, 0, self._problem)

    def _hold_remembered(self) -> None:
        """Count what the connection remembers; where there is no room for it, it is forgotten."""
        context = self.memory.newest
        self._remembered = 0 if context is None else context.size
        try:
            self.hold(self._size)
        except SpecError:
            self.memory.forget()
            self._remembered = 0

    async def respond(self, request: WebSocketCreate) -> bool:
        gateway, dialect = self._gateway, self._context.dialect
        dialect.check_words(request)
        self._run = state = gateway.engine.new_run(self._context)
        run = await gateway.engine.start(
            request,
            state,
            memory=self.memory,
            error_event=False,
            stream_error_codes=dialect.stream_error_codes,
        )
        self._end = SocketEnd(gateway, run, self.texts)
        await deliver(gateway, run, self._end)
        self._problem = run.problem
        return self._problem is None

    async def fail(self, error: Exception) -> None:
        self._problem = problem = problem_of(error, self._connected.request_id)
        await self.send_error(problem.payload, problem.status)

    async def send_error(self, error: ErrorPayload, status: int) -> str:
        text = await super().send_error(self._connected.dialect.error(error), status)
        if self._end is not None and self._end.audit is not None:
            self._end.audit.record_message(text)
        return text
