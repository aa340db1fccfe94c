"""The ASGI application: access control, routes, and every error as JSON."""

import asyncio
import re
from difflib import get_close_matches
from time import perf_counter

from msgspec.structs import replace

from antiphon.config import Config, ConfigErrors
from antiphon.engine.failures import Problem, problem_of
from antiphon.engine.request_context import RequestContext
from antiphon.server.access import AccessControl
from antiphon.server.asgi_exchange import AsgiExchange
from antiphon.server.exchange import NO_RETRY, Exchange, Handler, Head
from antiphon.server.gateway import Gateway
from antiphon.server.routes import (
    ai_sdk,
    chat_completions,
    chats,
    codex_search,
    compaction,
    containers,
    conversations,
    embeddings,
    files,
    hashbrown,
    info,
    messages,
    responses,
    routing,
    session,
    stored_responses,
    vector_stores,
    vscode,
    web,
    websocket,
)
from antiphon.spec.errors import SpecError, invalid_request, not_found
from antiphon.store import StoreError
from antiphon.stream.dialects import OPENAI
from antiphon.wires.asgi import AsgiScope, ClientGone, Receive, Send
from antiphon.wires.tenant_at_work import work_for

_NOT_OPEN = "the server must run the lifespan protocol"
# Paths without a key: what load balancers and people with a browser ask for.
_OPEN_PATHS = frozenset(
    {
        "/",
        "/api/hello",
        "/api/v1/chat/health",
        "/docs",
        "/favicon.svg",
        "/healthz",
        "/openapi.json",
        "/readyz",
    }
)
# Where every error is in the shape of another API, whatever dialect the client has elsewhere.
_DIALECTS = (("/v1/chat/completions", OPENAI), ("/v1/embeddings", OPENAI))
# The web app's own files: they hold no data, and ask for the key themselves.
_OPEN_FOLDERS = ("/c/", "/assets/")
_ROUTES: dict[str, dict[str, Handler]] = {
    "/v1/responses": {"POST": responses.create},
    "/v1/responses/compact": {"POST": compaction.compact},
    "/v1/responses/input_tokens": {"POST": responses.input_tokens},
    "/v1/responses/{id}": {"GET": stored_responses.retrieve, "DELETE": stored_responses.delete},
    "/v1/responses/{id}/cancel": {"POST": stored_responses.cancel},
    "/v1/responses/{id}/input_items": {"GET": stored_responses.input_items},
    "/v1/messages": {"POST": messages.create},
    "/v1/messages/count_tokens": {"POST": messages.count_tokens},
    "/v1/chat/completions": {"POST": chat_completions.create},
    "/v1/chat/completions/{id}": {"GET": chat_completions.retrieve, "DELETE": chat_completions.delete},
    "/v1/embeddings": {"POST": embeddings.create},
    "/v1/alpha/search": {"POST": codex_search.create},
    "/v1/containers": {"POST": containers.create},
    "/v1/containers/{id}/files": {"GET": containers.list_files},
    "/v1/containers/{id}/files/{item}/content": {"GET": containers.content},
    "/v1/files": {"GET": files.listed, "POST": files.create},
    "/v1/files/{id}": {"GET": files.retrieve, "DELETE": files.delete},
    "/v1/files/{id}/content": {"GET": files.content},
    "/v1/vector_stores": {"GET": vector_stores.listed, "POST": vector_stores.create},
    "/v1/vector_stores/{id}": {
        "GET": vector_stores.retrieve,
        "POST": vector_stores.update,
        "DELETE": vector_stores.delete,
    },
    "/v1/vector_stores/{id}/files": {"GET": vector_stores.files, "POST": vector_stores.add_file},
    "/v1/vector_stores/{id}/files/{item}": {
        "GET": vector_stores.file,
        "DELETE": vector_stores.remove_file,
    },
    "/v1/vector_stores/{id}/search": {"POST": vector_stores.search},
    "/v1/conversations": {"POST": conversations.create},
    "/v1/conversations/{id}": {
        "GET": conversations.retrieve,
        "POST": conversations.update,
        "DELETE": conversations.delete,
    },
    "/v1/conversations/{id}/items": {"GET": conversations.items, "POST": conversations.add_items},
    "/v1/conversations/{id}/items/{item}": {
        "GET": conversations.item,
        "DELETE": conversations.delete_item,
    },
    "/v1/antiphon/chats": {"GET": chats.listed_chats, "POST": chats.create},
    "/v1/antiphon/chats/{id}": {"GET": chats.retrieve, "POST": chats.update, "DELETE": chats.delete},
    "/v1/antiphon/chats/{id}/responses": {"GET": chats.responses},
    "/api/v1/chat": {"POST": ai_sdk.create, "GET": ai_sdk.resume_v1},
    "/api/v1/chat/health": {"GET": info.healthz},
    "/api/v1/chat/{id}/stream": {"GET": ai_sdk.resume},
    "/api/hashbrown": {"POST": hashbrown.chat},
    "/api/vscode/chat": {"POST": vscode.chat},
    "/v1/models": {"GET": info.models},
    "/v1/models/{id...}": {"GET": info.model},
    "/v1/audit": {"GET": info.audit},
    "/v1/antiphon/audit/{id}": {"GET": stored_responses.audit},
    "/v1/antiphon/routes": {"GET": routing.routes},
    "/v1/antiphon/session": {
        "GET": session.retrieve,
        "POST": session.create,
        "DELETE": session.delete,
    },
    "/api/hello": {"GET": info.healthz},
    "/healthz": {"GET": info.healthz},
    "/readyz": {"GET": info.readyz},
    "/openapi.json": {"GET": info.openapi},
    "/docs": {"GET": info.docs},
    "/favicon.svg": {"GET": info.favicon},
    "/": {"GET": web.page},
    "/c/{chat}": {"GET": web.page},
    "/assets/{name}": {"GET": web.asset},
}


def _compiled(path: str) -> re.Pattern[str]:
    """`{id}` is one segment of a path, `{id...}` all the rest of it."""
    rest = re.sub(r"\{(\w+)\.\.\.\}", r"(?P<\1>.+)", path)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", rest))


_FIXED = {path: methods for path, methods in _ROUTES.items() if "{" not in path}
_PATTERNS = [(_compiled(path), methods) for path, methods in _ROUTES.items() if "{" in path]


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
                handler = _find_handler(head)
            work_for(exchange.context.tenant)
            await handler(gateway, exchange)
            if exchange.problem is not None or log.access:
                log.ended(
                    exchange.context, exchange.run, head.route, began, exchange.status, exchange.problem
                )
        except (ClientGone, asyncio.CancelledError) as end:
            if not (exchange.was_left() or isinstance(end, ClientGone)):
                raise
            log.went_away(exchange.context, exchange.run, head.route, began)
        except Exception as error:
            problem = problem_of(error, exchange.request_id)
            await _fail(exchange, problem)
            log.ended(exchange.context, exchange.run, head.route, began, exchange.status, problem)
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
    head.extra_headers = gate.version(head.headers)
    if origin is not None:
        head.extra_headers += _cors(origin)
    is_preflight = origin is not None and head.method == "OPTIONS"
    if is_preflight or head.path in _OPEN_PATHS or head.path.startswith(_OPEN_FOLDERS):
        exchange.context = RequestContext(request_id=exchange.request_id)
    else:
        exchange.context = gate.admit(head.headers, exchange.request_id)
    return _preflight if is_preflight else _find_handler(head)


async def _fail(exchange: Exchange, problem: Problem) -> None:
    exchange.is_watched = False
    for path, dialect in _DIALECTS:
        if exchange.head.path.startswith(path):
            exchange.context = replace(exchange.context, dialect=dialect, request_id=exchange.request_id)
    if exchange.started:
        await exchange.finish()
        return
    headers: list[tuple[bytes, bytes]] = []
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.retry_after is not None:
        headers.append((b"retry-after", b"%d" % round(problem.retry_after)))
    if problem.is_final:
        headers.append(NO_RETRY)
    await exchange.fail(problem.payload, problem.status, headers)


def _find_handler(head: Head) -> Handler:
    path = head.path
    methods = _FIXED.get(path)
    if methods is None:
        path = path.rstrip("/") or "/"
        methods = _FIXED.get(path)
    if methods is None:
        for pattern, found in _PATTERNS:
            if match := pattern.fullmatch(path):
                head.params = match.groupdict()
                methods = found
                break
    if methods is None:
        raise SpecError(not_found(_nothing_at(head.path)).with_code("unknown_path"))
    method = "GET" if head.method == "HEAD" else head.method
    if method not in methods:
        allowed = ", ".join(methods)
        head.extra_headers = [*head.extra_headers, (b"allow", allowed.encode())]
        error = invalid_request(f"{head.method} is not possible here; use {allowed}")
        raise SpecError(error.with_code("method_not_allowed"), 405)
    return methods[method]


def _nothing_at(path: str) -> str:
    message, asked = f"there is nothing at {path[:200]}", path[:200].rstrip("/")
    near = [place for place in (f"/v1{asked}", asked.replace("/v1/v1", "/v1")) if place in _FIXED]
    near = near or get_close_matches(asked, _FIXED, 1, 0.85)
    return f"{message}; did you mean {near[0]}?" if near else message


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
