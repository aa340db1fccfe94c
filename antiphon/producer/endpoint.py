"""Any generator of an answer, or an agent, as an Open Responses endpoint: a plain ASGI application.

from antiphon.producer import ResponsesApp

async def answer(request):
    yield "Hello, "
    yield "world."

app = ResponsesApp(answer, model="greeter")   # uvicorn module:app
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import aclosing
from typing import TypeVar

from antiphon.producer.answering import Answer, Answering, Answers, Summarise
from antiphon.producer.conversations import Ability, no_compaction
from antiphon.producer.produce import FAILED
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_compact_request, decode_request, decode_websocket_create
from antiphon.spec.errors import ErrorBody, ErrorPayload, SpecError, invalid_request, not_found
from antiphon.spec.items import Item
from antiphon.spec.limits import MAX_BODY
from antiphon.spec.request import Request, WebSocketCreate
from antiphon.stream.framing import frames, lines
from antiphon.stream.sse import DONE, KEEPALIVE
from antiphon.wires.asgi import AsgiScope, ClientGone, Receive, Send
from antiphon.wires.pieces import Pieces, check_json_type, decode_pieces, too_large
from antiphon.wires.responses_socket import PATH, ResponsesSocket, Texts, refuse_handshake, texts_of

T = TypeVar("T")
_Headers = list[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")
_MODELS, _COMPACT = "/v1/models", f"{PATH}/compact"
_METHODS = {PATH: ("POST",), _COMPACT: ("POST",), _MODELS: ("GET", "HEAD")}
_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class EndpointExchange:
    """One HTTP request to a producer's endpoint, and its answer, over ASGI."""

    def __init__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self._headers = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self.extra_headers: _Headers = []

    async def body(self, limit: int) -> bytes:
        check_json_type(self._headers.get(*_JSON))
        chunks = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks += message.get("body", b"")
            if len(chunks) > limit:
                raise too_large(limit)
            if not message.get("more_body", False):
                return bytes(chunks)

    async def read_request(self, decode: Callable[..., T], limit: int) -> T:
        """Reads and decodes the body; decodes a large one in a thread, because it would block the event
        loop.
        """
        return await decode_pieces(decode, await self.body(limit), limit)

    async def wait_until_gone(self) -> None:
        """Returns when the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def run_unless_gone(self, work: Coroutine[object, object, T]) -> T:
        """Returns the result of the work; cancels the work when the client goes away."""
        working, gone = asyncio.ensure_future(work), asyncio.ensure_future(self.wait_until_gone())
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGone
            return working.result()
        finally:
            gone.cancel()
            working.cancel()
            await asyncio.wait({working})

    async def start(self, status: int, headers: _Headers) -> None:
        sent = [*headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def answer(self, body: bytes, status: int = 200) -> None:
        await self.start(status, [_JSON, (b"content-length", b"%d" % len(body))])
        await self.write(body, last=True)

    async def fail(self, error: ErrorPayload, status: int) -> None:
        await self.answer(ErrorBody.encode(error), status)


class ResponsesApp:
    """Serves `/v1/responses` as JSON, as a stream and over a WebSocket, compaction, and the one model's name.

    `answer` is called with the request, whose `input` is the whole conversation as items. It yields words or
    deltas; a `SpecError` that it raises goes to the client, any other exception only to the log. The app
    checks its answer against `tool_choice` and `text.format`. `without` names what the agent cannot do:
    requests that need it are refused. `summarise` is called with such a request, too, and returns a summary
    in words for `POST /v1/responses/compact`; `seal_key`, 32 bytes, lets other processes open what it made.

    `memory` is how many responses can be continued from with `previous_response_id`. After `patience` seconds
    of silence a stream begins anyway, and every `keepalive` seconds it gets a comment. A WebSocket ends after
    `websocket_limit` seconds, or `websocket_idle` seconds without a turn; 0 is no limit. A web page may open
    one if it comes from the endpoint's own host, or if its origin is in `origins`.
    """

    def __init__(
        self,
        answer: Answer | Answering,
        *,
        model: str = "agent",
        without: Collection[Ability] = (),
        summarise: Summarise | None = None,
        seal_key: bytes | None = None,
        memory: int = 1000,
        patience: float = 5.0,
        keepalive: float = 15.0,
        max_body: int = MAX_BODY,
        websocket_limit: float = 3600.0,
        websocket_idle: float = 300.0,
        origins: Collection[str] = (),
    ) -> None:
        self._answers = Answers(
            answer,
            summarise,
            model=model,
            memory=memory,
            without=without,
            seal_key=seal_key,
            patience=patience,
            keepalive=keepalive,
        )
        self._since = int(time.time())
        self._model = model
        self._max_body = max_body
        self._websocket_limit = websocket_limit
        self._websocket_idle = websocket_idle
        self._origins = {origin.lower() for origin in origins}

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            exchange = EndpointExchange(scope, receive, send)
            try:
                await self._handle(exchange, scope)
            except ClientGone:
                return
            except SpecError as error:
                await exchange.fail(error.payload, error.status)

    async def _handle(self, exchange: EndpointExchange, scope: AsgiScope) -> None:
        path = _path(scope)
        if path not in _METHODS:
            raise _unknown_path()
        if scope["method"] not in _METHODS[path]:
            allowed = ", ".join(_METHODS[path])
            exchange.extra_headers.append((b"allow", allowed.encode()))
            error = invalid_request(f"{scope['method']} is not possible here; use {allowed}")
            raise SpecError(error.with_code("method_not_allowed"), 405)
        if path == _MODELS:
            model = {"id": self._model, "object": "model", "created": self._since, "owned_by": "antiphon"}
            await exchange.answer(encode({"object": "list", "data": [model]}))
        elif path == _COMPACT:
            if not self._answers.compacts:
                raise no_compaction()
            request = await exchange.read_request(decode_compact_request, self._max_body)
            await exchange.answer(encode(await exchange.run_unless_gone(self._answers.compact(request))))
        else:
            await self._respond(exchange, await exchange.read_request(decode_request, self._max_body))

    async def _respond(self, exchange: EndpointExchange, request: Request) -> None:
        turn = await self._answers.begin(request)
        gone = asyncio.ensure_future(exchange.wait_until_gone())
        try:
            async with aclosing(self._answers.events(turn, gone)) as batches:
                begun = False
                async for events in batches:
                    if request.stream:
                        if not begun:
                            await exchange.start(200, _EVENT_STREAM)
                        await exchange.write(KEEPALIVE if events is None else frames(events))
                    begun = True
        finally:
            gone.cancel()
        if request.stream:
            await exchange.write(DONE, last=True)
        elif turn.builder.error is not None:
            raise SpecError(turn.builder.error)
        else:
            await exchange.answer(encode(turn.builder.response))

    async def _socket(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        refusal = _unknown_path() if _path(scope) != PATH else self._foreign_page(dict(scope["headers"]))
        if refusal is not None:
            await refuse_handshake(refusal, scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        await AgentSocket(
            self._answers,
            receive,
            send,
            texts_of(scope, send),
            max_body=self._max_body,
            limit=self._websocket_limit,
            idle=self._websocket_idle,
        ).run()

    def _foreign_page(self, headers: Mapping[bytes, bytes]) -> SpecError | None:
        """Returns the refusal of a page of another origin: browsers let any page open a WebSocket
        anywhere.
        """
        origin, host = (headers.get(name, b"").decode("latin-1").lower() for name in (b"origin", b"host"))
        if not origin or origin.partition("://")[2] == host or self._origins & {origin, "*"}:
            return None
        message = f"the origin {origin[:100]!r} may not open a WebSocket here; list it in `origins`"
        return SpecError(ErrorPayload("permission_denied", message, code="forbidden"))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._answers.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


def _path(scope: AsgiScope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", "")).rstrip("/")


def _unknown_path() -> SpecError:
    *others, last = _METHODS
    there = f"{', '.join(others)} and {last}"
    return SpecError(not_found(f"there is only {there} here").with_code("unknown_path"))


log = logging.getLogger("antiphon.producer")


class AgentSocket(ResponsesSocket[list[Item]]):
    def __init__(
        self,
        answers: Answers,
        receive: Receive,
        send: Send,
        texts: Texts,
        *,
        max_body: int,
        limit: float,
        idle: float,
    ) -> None:
        super().__init__(receive, send, texts, limit=limit, idle=idle)
        self._answers = answers
        self._max_body = max_body

    async def decode_message(self, message: bytes | Pieces) -> WebSocketCreate:
        return await decode_pieces(decode_websocket_create, message, self._max_body)

    async def respond(self, request: WebSocketCreate) -> bool:
        turn = await self._answers.begin(request, self.memory)
        async with aclosing(self._answers.events(turn)) as batches:
            async for events in batches:
                if events and not self.texts.put(lines(events).split(b"\n")[:-1]):
                    await self.texts.ready()
        await self.texts.ready()
        return turn.builder.error is None

    async def fail(self, error: Exception) -> None:
        if isinstance(error, SpecError):
            await self.send_error(error.payload, error.status)
        else:
            log.error("a turn failed with %s", type(error).__name__, exc_info=error)
            await self.send_error(FAILED, FAILED.status)

    def broke(self, error: Exception) -> None:
        log.error("a socket broke with %s", type(error).__name__, exc_info=error)
