"""The server's side of the WebSocket on `/v1/responses`: one turn after the other, over any ASGI server."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import msgspec

from antiphon.spec.errors import ErrorBody, ErrorPayload, SpecError, WebSocketError
from antiphon.spec.limits import LARGE, StreamId
from antiphon.spec.request import WebSocketCreate
from antiphon.wires.asgi import AsgiMessage, AsgiScope, ClientGone, Receive, Send, Sender
from antiphon.wires.pieces import Pieces

T = TypeVar("T")

PATH = "/v1/responses"
TEXTS = "antiphon.texts"
"""The extension of ASGI under which our own server has `Texts`."""
WAITING_BYTES = 1024 * 1024
"""With more than this in messages that wait, no other is taken."""
_WAITING_MESSAGES = 16
_NORMAL, _GOING_AWAY = 1000, 1001
_REFUSAL = "websocket.http.response"
_LIMIT = ErrorPayload(
    "invalid_request",
    "this connection has reached its time limit; open a new one and send the context again",
    code="websocket_connection_limit_reached",
)


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


class NamedTexts:
    """Texts that are objects, each with the `stream_id` of its turn."""

    def __init__(self, texts: Texts, stream_id: str) -> None:
        self._texts = texts
        self._stream_id = stream_id

    def put(self, texts: Sequence[bytes]) -> bool:
        return self._texts.put([_with_stream_id(text, self._stream_id) for text in texts])

    async def ready(self) -> None:
        await self._texts.ready()


def _with_stream_id(text: bytes, stream_id: str) -> bytes:
    return text[:-1] + b',"stream_id":%b}' % msgspec.json.encode(stream_id)


class _Named(msgspec.Struct):
    """What is read of a message that is refused."""

    stream_id: StreamId | None = None


def texts_of(scope: AsgiScope, send: Send) -> Texts:
    """The fastest way to send texts that this server has."""
    return (scope.get("extensions") or {}).get(TEXTS) or SentTexts(send)


async def refuse_handshake(
    error: SpecError, scope: AsgiScope, receive: Receive, send: Send, *headers: tuple[bytes, bytes]
) -> None:
    """Answer with plain HTTP; a server that cannot do that closes, which clients see as 403."""
    await receive()
    if _REFUSAL not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": _NORMAL})
        return
    named = [(b"content-type", b"application/json"), *headers]
    await send({"type": f"{_REFUSAL}.start", "status": error.status, "headers": named})
    await send({"type": f"{_REFUSAL}.body", "body": ErrorBody.encode(error.payload)})


class TurnMemory(Generic[T]):
    """What a connection remembers of its newest response, with `store: false` or not."""

    def __init__(self) -> None:
        self._kept: dict[str, T] = {}

    def get(self, id: str) -> T | None:
        return self._kept.get(id)

    def keep(self, id: str, context: T) -> None:
        """Only the newest response of the connection can be continued from here."""
        self._kept = {id: context}

    def evict(self, id: str) -> None:
        self._kept.pop(id, None)

    @property
    def newest(self) -> T | None:
        return next(iter(self._kept.values()), None)

    def forget(self) -> None:
        self._kept = {}


class ResponsesSocket(ABC, Generic[T]):
    """One connection. Messages wait in a queue while a turn runs; a closed socket cancels the turn.

    It ends after `limit` seconds, or after `idle` seconds without a turn; 0 is no limit.
    """

    def __init__(
        self, receive: Receive, send: Send, texts: Texts, *, limit: float = 0.0, idle: float = 0.0
    ) -> None:
        self.memory: TurnMemory[T] = TurnMemory()
        self.texts = texts
        """Where a turn puts its events."""
        self._unnamed = texts
        self._stream_id: str | None = None
        """What the client calls the turn."""
        self._receive = receive
        self._send = send
        self._limit = limit
        self._idle = idle
        self._messages: asyncio.Queue[bytes | Pieces | SpecError] = asyncio.Queue(_WAITING_MESSAGES)
        self._size = 0
        """How many bytes the messages that wait have, and the one whose turn it is."""
        self._waiting = 0
        """How many of them wait."""
        self._took = asyncio.Event()

    # --- what differs between servers ---------------------------------------------------------------------

    @abstractmethod
    async def decode_message(self, message: bytes | Pieces) -> WebSocketCreate:
        """The request in a message; raises `SpecError`."""

    @abstractmethod
    async def respond(self, request: WebSocketCreate) -> bool:
        """Put the events of one turn into `texts`; False if they end in a failure.

        What it raises before the first event `fail` sends to the client.
        """

    @abstractmethod
    async def fail(self, error: Exception) -> None:
        """Tell the client, by `send_error`, why the turn has failed."""

    @abstractmethod
    def broke(self, error: Exception) -> None:
        """Log the unexpected error that has ended the connection."""

    def hold(self, size: int) -> None:
        """The messages have this many bytes from now on; a `SpecError` refuses the one that came last."""

    # --- what does not ------------------------------------------------------------------------------------

    async def run(self) -> None:
        turns = asyncio.ensure_future(self._turns())
        reader = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait({turns, reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (turns, reader):
                task.cancel()
            for end in await asyncio.gather(turns, reader, return_exceptions=True):
                if isinstance(end, Exception) and not isinstance(end, ClientGone):
                    self.broke(end)
            self.hold(0)

    async def close(self, code: int = _GOING_AWAY) -> None:
        await self._put({"type": "websocket.close", "code": code})

    async def send_error(self, error: ErrorPayload, status: int) -> str:
        """The envelope that ends a turn; its text is given back."""
        named = error.with_code(error.code or error.type)
        text = msgspec.json.encode(WebSocketError(status, named))
        told = text if self._stream_id is None else _with_stream_id(text, self._stream_id)
        await self.texts.ready()
        await self._put({"type": "websocket.send", "text": told.decode()})
        return text.decode()

    async def turn(self, message: bytes | Pieces) -> None:
        """One turn; exactly one message ends it when it fails."""
        request: WebSocketCreate | None = None
        succeeded = False
        try:
            request = await self.decode_message(message)
            self._name_turn(request.stream_id)
            succeeded = await self.respond(request)
        except ClientGone:
            raise
        except Exception as error:
            if request is None and isinstance(message, bytes) and len(message) < LARGE:
                with suppress(ValueError):
                    self._name_turn(msgspec.json.decode(message, type=_Named).stream_id)
            await self.fail(error)
        finally:
            self._name_turn(None)
        if not succeeded and request is not None and request.previous_response_id:
            self.memory.evict(request.previous_response_id)

    def _name_turn(self, stream_id: str | None) -> None:
        self._stream_id = stream_id
        self.texts = self._unnamed if stream_id is None else NamedTexts(self._unnamed, stream_id)

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            data: bytes | Pieces = text.encode() if text is not None else message.get("bytes") or b""
            try:
                self.hold(self._size + len(data))
            except SpecError as error:
                await self._messages.put(error)
                continue
            self._size += len(data)
            self._waiting += len(data)
            await self._messages.put(data)
            del message, text, data  # or the last one would stay for as long as no other comes
            while self._waiting > WAITING_BYTES:
                self._took.clear()
                await self._took.wait()

    async def _turns(self) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._limit if self._limit else None
        while True:
            idle = loop.time() + self._idle if self._idle else None
            patience = min((t for t in (ends, idle) if t is not None), default=None)
            try:
                async with asyncio.timeout_at(patience):
                    message = await self._messages.get()
            except TimeoutError:
                if patience == ends:  # not by the clock: a timer may wake a moment early
                    await self.send_error(_LIMIT, 400)
                await self.close(_NORMAL)
                return
            if isinstance(message, SpecError):
                await self.send_error(message.payload, message.status)
                continue
            size = len(message)
            self._waiting -= size
            self._took.set()
            await self.turn(message)
            self._size -= size
            self.hold(self._size)
            if ends is not None and loop.time() >= ends:
                await self.send_error(_LIMIT, 400)
                await self.close(_NORMAL)
                return

    async def _put(self, message: AsgiMessage) -> None:
        try:
            await self._send(message)
        except OSError:  # what ASGI servers raise when the other side has closed
            raise ClientGone from None
