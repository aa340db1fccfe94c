"""The ASGI application: access control, routes, and every error as JSON."""

import asyncio
from time import perf_counter

from msgspec.structs import replace

from antiphon.bridges.error_paths import with_their_param
from antiphon.config import Config, ConfigErrors
from antiphon.engine.failures import Problem, problem_of
from antiphon.engine.request_context import RequestContext
from antiphon.server.access import VERSION_HEADER, AccessControl
from antiphon.server.asgi_exchange import AsgiExchange
from antiphon.server.endpoints import OPEN_FOLDERS, OPEN_PATHS, find_door, find_handler
from antiphon.server.exchange import NO_RETRY, Exchange, Handler
from antiphon.server.gateway import Gateway
from antiphon.server.routes import websocket
from antiphon.spec.errors import SpecError
from antiphon.store import StoreError
from antiphon.wires.asgi import AsgiScope, ClientGone, Receive, Send
from antiphon.wires.slots import work_for

_NOT_OPEN = "the server must run the lifespan protocol"


class App:
    """A plain ASGI callable; the gateway behind it opens and closes with the server's lifespan."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.gateway: Gateway | None = None
        self.failure: ConfigErrors | StoreError | None = None

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] == "websocket":
            assert self.gateway is not None, _NOT_OPEN
            await websocket.serve(self.gateway, scope, receive, send)
        else:
            await self.answer(AsgiExchange(scope, receive, send))

    async def answer(self, exchange: Exchange) -> None:
        """Handle one request; whatever happens, the client gets an answer in the specification's shape."""
        gateway, head, began = self.gateway, exchange.head, perf_counter()
        assert gateway is not None, _NOT_OPEN
        log = gateway.requests
        try:
            exchange.memory = gateway.memory
            try:
                handler = _admit(gateway.gate, exchange)
            except SpecError as refusal:
                exchange.context = await gateway.sessions.admit(head.headers, refusal, exchange.request_id)
                handler = find_handler(head)
            work_for(exchange.context.tenant)
            await handler(gateway, exchange)
            if exchange.problem is not None or log.access:
                log.log_end(
                    exchange.context, exchange.run, head.route, began, exchange.status, exchange.problem
                )
        except (ClientGone, asyncio.CancelledError) as end:
            if not (exchange.was_cancelled_by_client() or isinstance(end, ClientGone)):
                raise
            log.log_departure(exchange.context, exchange.run, head.route, began)
        except Exception as error:
            problem = problem_of(error, exchange.request_id)
            await _fail(exchange, problem)
            log.log_end(exchange.context, exchange.run, head.route, began, exchange.status, problem)
        finally:
            if exchange.held is not None:
                exchange.held.hold(0)
            exchange.over()

    async def open(self) -> bool:
        """Open the gateway, unless it is open; `failure` says why that was not possible."""
        try:
            self.gateway = self.gateway or await Gateway.open(self.config)
        except (ConfigErrors, StoreError) as error:
            self.failure = error
        return self.failure is None

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        if not await self.open():
            await send({"type": "lifespan.startup.failed", "message": str(self.failure)})
            return
        assert self.gateway is not None
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.gateway.close()
        await send({"type": "lifespan.shutdown.complete"})


def _admit(gate: AccessControl, exchange: Exchange) -> Handler:
    """What handles such a request, if it may come in; the exchange knows its sender from then on."""
    head = exchange.head
    if head.refusal is not None:
        raise head.refusal
    origin = gate.check_source(head.headers)
    if VERSION_HEADER in head.headers:
        head.extra_headers = gate.version(head.headers)
    if origin is not None:
        head.extra_headers = [*head.extra_headers, *_cors(origin)]
    is_preflight = origin is not None and head.method == "OPTIONS"
    if is_preflight or head.path in OPEN_PATHS or head.path.startswith(OPEN_FOLDERS):
        exchange.context = RequestContext(request_id=exchange.request_id)
    else:
        exchange.context = gate.admit(head.headers, exchange.request_id)
    return _preflight if is_preflight else find_handler(head)


async def _fail(exchange: Exchange, problem: Problem) -> None:
    """Answer with an error, in the shape and the words of the API that the client speaks."""
    exchange.is_watched = False
    if exchange.has_begun:
        await exchange.finish()
        return
    door = find_door(exchange.head)
    context = exchange.context
    if not context.request_id:  # it was refused before it was handled
        context = RequestContext(request_id=exchange.request_id)
    exchange.context = context if door.dialect is None else replace(context, dialect=door.dialect)
    headers: list[tuple[bytes, bytes]] = []
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.retry_after is not None:
        headers.append((b"retry-after", b"%d" % round(problem.retry_after)))
    if problem.is_final:
        headers.append(NO_RETRY)
    error = problem.payload if exchange.param is None else with_their_param(problem.payload, exchange.param)
    body, status, more = door.error(error, problem.status, exchange.context)
    await exchange.answer(body, status, headers=(*headers, *more))


async def _preflight(_: Gateway, exchange: Exchange) -> None:
    """A listed origin may send whatever headers it names: every SDK has some of its own."""
    asked = exchange.head.headers.get(b"access-control-request-headers", b"")
    allowed = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"600"),
    ]
    await exchange.empty(headers=allowed)


def _cors(origin: str) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (
            b"access-control-expose-headers",
            b"x-request-id, x-antiphon-dialect, x-antiphon-receipts, x-antiphon-target, retry-after, "
            b"idempotent-replayed, x-should-retry, openresponses-version",
        ),
        (b"vary", b"origin"),
    ]
