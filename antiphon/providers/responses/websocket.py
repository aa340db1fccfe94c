"""Turns over a WebSocket: one after the other on each connection, which is kept for the next."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.protocol import State

from antiphon.config import UpstreamTimeouts
from antiphon.providers import errors
from antiphon.providers.base import Sink, UpstreamError
from antiphon.providers.responses.stream import ResponsesStream
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import ErrorPayload
from antiphon.wires.websocket import HandshakeRefused, NoWebSocket, dial

_LONGEST = 55 * 60.0
"""Servers end a connection after an hour; it is left a little earlier."""
_KEPT = 16
_CONNECTION_TOO_OLD = "websocket_connection_limit_reached"
_TRANSPORT = frozenset({"content-type", "accept"})


def _is_warning(data: bytes) -> bool:
    """Does it only say that the connection will end soon? Some servers call that an error."""
    if len(data) > 1000 or b"connection_expiring" not in data:
        return False
    message = msgspec.json.decode(data)
    error = message.get("error") if message.get("type") == "error" else None
    return isinstance(error, dict) and error.get("code") == "connection_expiring"


class Sockets:
    """The connections to one address."""

    def __init__(
        self,
        provider: str,
        url: str,
        headers: Mapping[str, str],
        timeouts: UpstreamTimeouts,
        secrets: Collection[str],
    ) -> None:
        self._provider = provider
        self._url = url
        self._headers = {name: value for name, value in headers.items() if name.lower() not in _TRANSPORT}
        self._timeouts = timeouts
        self._secrets = secrets
        self._idle: list[tuple[ClientConnection, float]] = []

    async def ask(self, message: bytes, parser: ResponsesStream, sink: Sink) -> None:
        """Send one turn and put its answer into the sink, one batch an event."""
        loop = asyncio.get_running_loop()
        total = self._timeouts.total
        deadline = loop.time() + total if total else None
        socket, until, first = await self._begin(message)
        try:
            sink.accepted()
            data: bytes | None = first
            while data is not None:
                if (batch := parser.message(data)) and not sink.put(batch):
                    await sink.ready()
                if parser.over:
                    return
                error: ErrorPayload | None = None
                try:
                    data = await self._receive(socket, deadline)
                    while _is_warning(data):
                        until = 0.0
                        data = await self._receive(socket, deadline)
                except UpstreamError as failure:
                    data, error = None, failure.payload
            sink.put(parser.end(error))
        finally:
            usable = parser.is_terminated and socket.state is State.OPEN and loop.time() < until
            if usable and len(self._idle) < _KEPT:
                self._idle.append((socket, until))
            else:
                # There is no word for giving a turn up, so the connection says it.
                socket.transport.abort()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        await asyncio.gather(*(socket.close() for socket, _ in idle), return_exceptions=True)

    async def _begin(self, message: bytes) -> tuple[ClientConnection, float, bytes]:
        """A connection on which the turn has begun, and the first event of it."""
        while (kept := self._take()) is not None:
            socket, until = kept
            try:
                first = await self._ask(socket, message)
            except UpstreamError as error:
                if error.payload.code not in (errors.UPSTREAM_CLOSED, _CONNECTION_TOO_OLD):
                    raise
                continue  # it had gone stale; nothing of the turn was answered
            return socket, until, first
        socket = await self._connect()
        until = asyncio.get_running_loop().time() + _LONGEST
        return socket, until, await self._ask(socket, message)

    def _take(self) -> tuple[ClientConnection, float] | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            socket, until = self._idle.pop()
            if socket.state is State.OPEN and now < until:
                return socket, until
            socket.transport.abort()
        return None

    async def _ask(self, socket: ClientConnection, message: bytes) -> bytes:
        patience = min(filter(None, (self._timeouts.first_byte, self._timeouts.total)), default=None)
        try:
            async with asyncio.timeout(patience):
                await socket.send(message, text=True)
                first = await socket.recv(decode=False)
            if (refusal := self._read_refusal(first)) is not None:
                raise refusal
        except BaseException as error:
            socket.transport.abort()
            if isinstance(error, ConnectionClosed):
                raise errors.closed(self._provider, "before the answer") from None
            if isinstance(error, TimeoutError):
                raise errors.timed_out(self._provider, "no answer", patience or 0.0) from None
            raise
        return first

    def _read_refusal(self, data: bytes) -> UpstreamError | None:
        """An error with a status, in the place of a response."""
        try:
            message = msgspec.json.decode(data, type=dict[str, Any])
        except UNREADABLE:
            return None
        if message.get("type") != "error":
            return None
        status, inner = message.get("status"), message.get("error")
        if isinstance(inner, dict) and inner.get("code") == _CONNECTION_TOO_OLD:
            return UpstreamError(
                ErrorPayload("server_error", "the connection is too old", _CONNECTION_TOO_OLD), 502
            )
        if not isinstance(status, int) or not 400 <= status < 600:
            return errors.from_error_object(self._provider, message, secrets=self._secrets)
        return errors.from_response(self._provider, status, {}, data, secrets=self._secrets)

    async def _receive(self, socket: ClientConnection, deadline: float | None) -> bytes:
        idle = self._timeouts.idle
        whens = [asyncio.get_running_loop().time() + idle] if idle else []
        if deadline is not None:
            whens.append(deadline)
        when = min(whens, default=None)
        try:
            async with asyncio.timeout_at(when):
                return await socket.recv(decode=False)
        except TimeoutError:
            if when == deadline:
                total = self._timeouts.total
                raise errors.timed_out(self._provider, "the answer did not end", total) from None
            raise errors.timed_out(self._provider, "the answer stopped arriving", idle) from None
        except ConnectionClosed:
            raise errors.closed(self._provider, "in the middle of the answer") from None

    async def _connect(self) -> ClientConnection:
        try:
            return await dial(
                self._url,
                self._headers,
                open_timeout=self._timeouts.connect or None,
                ping_timeout=None,
                compression=None,
            )
        except HandshakeRefused as refused:
            raise errors.from_response(
                self._provider, refused.status, refused.headers, refused.body, secrets=self._secrets
            ) from None
        except (InvalidHandshake, InvalidURI) as error:
            raise NoWebSocket(type(error).__name__) from None
        except TimeoutError:
            raise errors.timed_out(self._provider, "no connection", self._timeouts.connect) from None
        except (OSError, EOFError) as error:
            why = errors.scrub(str(error), self._secrets)
            raise errors.unreachable(self._provider, f"it cannot be reached: {why}") from None
