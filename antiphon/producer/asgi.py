"""Any generator of an answer, or an agent, as an Open Responses endpoint: a plain ASGI application.

from antiphon.producer import ResponsesApp

async def answer(request):
    yield "Hello, "
    yield "world."

app = ResponsesApp(answer, model="greeter")   # uvicorn module:app
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from antiphon.producer.answers import Said, produce
from antiphon.producer.builder import ResponseBuilder
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
from antiphon.spec.opaque import encode
from antiphon.spec.request import Request
from antiphon.stream.framing import frames
from antiphon.stream.sse import DONE, KEEPALIVE

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = Callable[[Request], AsyncIterator[Said]]

_PATH = "/v1/responses"
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
    """Serves `POST /v1/responses`, as JSON and as a stream.

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
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            exchange = _Exchange(receive, send)
            try:
                self._check(scope)
                request = decode_request(await exchange.body(self._max_body), max_bytes=self._max_body)
                await self._respond(exchange, request)
            except _ClientGone:
                return
            except SpecError as error:
                await exchange.fail(error.payload, error.status)

    def _check(self, scope: Scope) -> None:
        path = str(scope["path"]).removeprefix(scope.get("root_path", "")).rstrip("/")
        if path != _PATH:
            raise SpecError(not_found(f"there is only {_PATH} here").with_code("unknown_path"))
        if scope["method"] != "POST":
            error = invalid_request(f"{scope['method']} is not possible here; use POST")
            raise SpecError(error.with_code("method_not_allowed"), 405)

    async def _respond(self, exchange: "_Exchange", request: Request) -> None:
        items = self._conversation(request)
        whole = replace(request, input=items)
        builder = ResponseBuilder(request.model or self._model, request=whole)
        async with aclosing(self._events(builder, exchange, whole)) as batches:
            if request.stream:
                await self._stream(exchange, builder, batches)
            else:
                async for _ in batches:
                    pass
                if builder.error is not None:
                    raise SpecError(builder.error)
                await exchange.answer(encode(builder.response))
        response = builder.response
        if request.store and response.status in ("completed", "incomplete"):
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
        self, builder: ResponseBuilder, exchange: "_Exchange", request: Request
    ) -> AsyncGenerator[list[AnyEvent] | None, None]:
        """Batches of events, None for a while of silence. A client that goes away cancels the answer."""
        batches = produce(builder, self._answer(request))
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

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def body(self, limit: int) -> bytes:
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

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def answer(self, body: bytes, status: int = 200) -> None:
        length = (b"content-length", b"%d" % len(body))
        await self.start(status, [(b"content-type", b"application/json"), length])
        await self.write(body, last=True)

    async def fail(self, error: ErrorPayload, status: int) -> None:
        """Some clients drop a message whose `code` or `param` is null, so neither is."""
        named = replace(error, code=error.code or error.type, param=error.param or "")
        await self.answer(msgspec.json.encode(ErrorBody(named)), status)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _unsupported(param: str, message: str) -> SpecError:
    return SpecError(invalid_param(param, message).with_code("unsupported_parameter"))
