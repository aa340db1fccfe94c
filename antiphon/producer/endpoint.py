"""Any generator of an answer, or an agent, as an Open Responses endpoint: a plain ASGI application.

from antiphon.producer import ResponsesApp

async def answer(request):
    yield "Hello, "
    yield "world."

app = ResponsesApp(answer, model="greeter")   # uvicorn module:app
"""

import asyncio
import inspect
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from antiphon.producer.builder import ResponseBuilder
from antiphon.producer.produce import Said, produce
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import (
    ErrorBody,
    ErrorPayload,
    SpecError,
    invalid_param,
    invalid_request,
    not_found,
)
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import Item, ItemReference, Message
from antiphon.spec.limits import MAX_BODY
from antiphon.spec.request import Request
from antiphon.spec.response import Response
from antiphon.stream.framing import frames
from antiphon.stream.sse import DONE, KEEPALIVE

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = Callable[[Request], AsyncIterator[Said]]

Headers = list[tuple[bytes, bytes]]

_RESPONSES, _MODELS = "/v1/responses", "/v1/models"
_METHODS = {_RESPONSES: ("POST",), _MODELS: ("GET", "HEAD")}
_JSON = (b"content-type", b"application/json")
_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@runtime_checkable
class Answering(Protocol):
    """An agent: something with an `answer`."""

    def answer(self, request: Request) -> AsyncIterator[Said]: ...


class _ClientGone(Exception):
    pass


class ResponsesApp:
    """Serves `POST /v1/responses`, as JSON and as a stream, and `GET /v1/models` with the one model.

    `answer` is called with the request, whose `input` is the whole conversation as items. It yields words or
    deltas; a `SpecError` that it raises is told to the client, any other exception is only logged. `memory`
    is how many responses can be continued from with `previous_response_id`. After `patience` seconds of
    silence a stream begins anyway, and every `keepalive` seconds it gets a comment.
    """

    def __init__(
        self,
        answer: Answer | Answering,
        *,
        model: str = "agent",
        memory: int = 1000,
        patience: float = 5.0,
        keepalive: float = 15.0,
        max_body: int = MAX_BODY,
    ) -> None:
        self._answer: Answer = answer.answer if isinstance(answer, Answering) else answer
        if inspect.iscoroutinefunction(self._answer) or inspect.isgeneratorfunction(self._answer):
            raise TypeError("an answer is an async generator: write it with `async def` and `yield`")
        self._since = int(time.time())
        self._model = model
        self._memory = memory
        self._patience = patience
        self._keepalive = keepalive
        self._max_body = max_body
        self._conversations: OrderedDict[str, list[Item]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await _no_websocket(scope, receive, send)
        else:
            exchange = _Exchange(scope, receive, send)
            try:
                await self._handle(exchange, scope)
            except _ClientGone:
                return
            except SpecError as error:
                await exchange.fail(error.payload, error.status)

    async def _handle(self, exchange: "_Exchange", scope: Scope) -> None:
        path = str(scope["path"]).removeprefix(scope.get("root_path", "")).rstrip("/")
        if path not in _METHODS:
            there = " and ".join(_METHODS)
            raise SpecError(not_found(f"there is only {there} here").with_code("unknown_path"))
        if scope["method"] not in _METHODS[path]:
            allowed = ", ".join(_METHODS[path])
            exchange.extra_headers.append((b"allow", allowed.encode()))
            error = invalid_request(f"{scope['method']} is not possible here; use {allowed}")
            raise SpecError(error.with_code("method_not_allowed"), 405)
        if path == _MODELS:
            model = {"id": self._model, "object": "model", "created": self._since, "owned_by": "antiphon"}
            await exchange.answer(encode({"object": "list", "data": [model]}))
            return
        request = decode_request(await exchange.body(self._max_body), max_bytes=self._max_body)
        await self._respond(exchange, request)

    async def _respond(self, exchange: "_Exchange", request: Request) -> None:
        items = self._conversation(request)
        whole = replace(request, input=items)
        builder = ResponseBuilder(request.model or self._model, request=whole)
        async with aclosing(self._events(builder, exchange, whole, items)) as batches:
            if request.stream:
                await self._stream(exchange, builder, batches)
            else:
                async for _ in batches:
                    pass
                if builder.error is not None:
                    raise SpecError(builder.error)
                await exchange.answer(encode(builder.response))

    def _remember(self, response: Response, items: list[Item]) -> None:
        if response.store and response.status in ("completed", "incomplete"):
            self._conversations[response.id] = [*items, *response.output]
            while len(self._conversations) > self._memory:
                self._conversations.popitem(last=False)

    async def _stream(
        self,
        exchange: "_Exchange",
        builder: ResponseBuilder,
        batches: AsyncIterator[list[AnyEvent] | None],
    ) -> None:
        started = False
        async for events in batches:
            if builder.error is not None and not started:
                raise SpecError(builder.error)  # nothing was sent yet, so the status can still tell
            if not started:
                await exchange.start(200, _EVENT_STREAM)
                started = True
                if events is None:
                    events = builder.start()
            await exchange.write(KEEPALIVE if events is None else frames(events))
        await exchange.write(DONE, last=True)

    async def _events(
        self, builder: ResponseBuilder, exchange: "_Exchange", request: Request, items: list[Item]
    ) -> AsyncGenerator[list[AnyEvent] | None, None]:
        """Batches of events, None for a while of silence. A client that goes away cancels the answer."""
        batches = produce(builder, self._answer, request)
        gone = asyncio.ensure_future(exchange.gone())
        waiting: asyncio.Future[list[AnyEvent] | None] | None = None
        quiet = self._patience
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(batches, None))
                both: set[asyncio.Future[Any]] = {waiting, gone}
                done, _ = await asyncio.wait(both, timeout=quiet, return_when=asyncio.FIRST_COMPLETED)
                quiet = self._keepalive
                if waiting in done:
                    events, waiting = waiting.result(), None
                    if events is None:
                        return
                    if builder.finished:  # known before the client hears of its end, and continues it
                        self._remember(builder.response, items)
                    yield events
                elif gone in done:
                    raise _ClientGone
                else:
                    yield None
        finally:
            gone.cancel()
            if waiting is not None:
                waiting.cancel()
                await asyncio.wait({waiting})
            await batches.aclose()

    def _conversation(self, request: Request) -> list[Item]:
        """Everything that was said before this answer."""
        for name in ("background", "conversation"):
            if getattr(request, name):
                raise _unsupported(name, f"this endpoint has no {name}; leave it out")
        before: list[Item] = []
        if request.previous_response_id is not None:
            known = self._conversations.get(request.previous_response_id)
            if known is None:
                error = not_found("there is no such previous response; send the conversation again")
                named = error.with_code("previous_response_not_found").with_param("previous_response_id")
                raise SpecError(named)
            before = known
        given = request.input or []
        new: list[Item] = [Message(role="user", content=given)] if isinstance(given, str) else given
        for n, item in enumerate(new):
            if isinstance(item, ItemReference):
                raise _unsupported(f"input[{n}]", "items cannot be referred to here; send them whole")
        return [*before, *new]


class _Exchange:
    """One HTTP request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._headers = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self.extra_headers: Headers = []

    async def body(self, limit: int) -> bytes:
        kind = self._headers.get(*_JSON).partition(b";")[0].strip().lower().decode("latin-1")
        if kind != "application/json" and not kind.endswith("+json"):
            error = invalid_request(f"this endpoint takes application/json, not {kind[:100]}")
            raise SpecError(error.with_code("unsupported_media_type"), 415)
        chunks = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            chunks += message.get("body", b"")
            if len(chunks) > limit:
                error = invalid_request(f"the body is larger than {limit:,} bytes")
                raise SpecError(error.with_code("body_too_large"), 413)
            if not message.get("more_body", False):
                return bytes(chunks)

    async def gone(self) -> None:
        """Ends when the client does."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Headers) -> None:
        sent = [*headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def answer(self, body: bytes, status: int = 200) -> None:
        await self.start(status, [_JSON, (b"content-length", b"%d" % len(body))])
        await self.write(body, last=True)

    async def fail(self, error: ErrorPayload, status: int) -> None:
        await self.answer(ErrorBody.encode(error), status)


async def _no_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse the handshake; where the ASGI server allows it, with an error that says what to do."""
    await receive()
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1000})
        return
    error = not_found("there is no WebSocket here; use POST").with_code("no_websocket")
    start = {"type": "websocket.http.response.start", "status": 404, "headers": [_JSON]}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": ErrorBody.encode(error)})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _unsupported(param: str, message: str) -> SpecError:
    return SpecError(invalid_param(param, message).with_code("unsupported_parameter"))
