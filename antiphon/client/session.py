"""A conversation over one WebSocket, which outlives the socket.

The session keeps every item that was said. As long as the server remembers the last response, a turn sends
only what is new; when it does not, for whatever reason, the turn is sent again with everything.
"""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Literal, Self, Unpack

from antiphon.client.errors import (
    AntiphonError,
    ConnectionFailed,
    StatusError,
    StreamBroken,
    TimedOut,
    UnexpectedAnswer,
    UsageError,
)
from antiphon.client.resources.create import Creator
from antiphon.client.resources.parameters import (
    Input,
    InputItem,
    Parameters,
    as_input,
    encode_body,
    item_list,
    request_body,
)
from antiphon.client.settings import Timeouts
from antiphon.client.streams import AsyncEventStream, EventSource
from antiphon.client.transport.http import MAX_BODY, Clock, too_large
from antiphon.client.transport.response_decoding import via
from antiphon.client.transport.retry import pause_before_next
from antiphon.client.transport.websocket import ClientSocket, envelope_in
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.stream.reader import Reader
from antiphon.wires.websocket import NoWebSocket

FORGOTTEN = "previous_response_not_found"
LIMIT_REACHED = "websocket_connection_limit_reached"
_OURS = ("previous_response_id", "conversation", "background", "stream_options")


class AsyncSession:
    """One turn after the other, each continuing the one before: `async with client.session(...) as session:`.

    `items` is the whole conversation so far: keep it, and a later session can go on from it.
    """

    def __init__(
        self,
        creator: Creator,
        *,
        model: str | None,
        items: Iterable[InputItem],
        websocket: bool,
        parameters: Parameters,
    ) -> None:
        _check(parameters)
        self.items: list[InputItem] = list(items)
        self._creator = creator
        self._http = creator.http
        self._model = model
        self._parameters = parameters
        self._uses_socket = websocket
        self._socket: ClientSocket | None = None
        self._last: _Link | None = None
        self._turn: _Turn | None = None
        self._closed = False

    @property
    def transport(self) -> Literal["websocket", "http"]:
        """The transport of turns; `http` once the server has shown that it has no WebSocket."""
        return "websocket" if self._uses_socket else "http"

    @property
    def response_id(self) -> str | None:
        """The response that the next turn continues."""
        return self._last.id if self._last else None

    async def create(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> Response:
        """Runs one turn. If the connection breaks in its middle, it connects again and repeats the turn."""
        attempt = 0
        while True:
            try:
                async with self.stream(input, model=model, **parameters) as events:
                    return await events.final()
            except StreamBroken as error:
                if not self._uses_socket or not isinstance(error.__cause__, ConnectionFailed):
                    raise  # over plain HTTP it had its retries, and an endless answer would be endless again
                lost = ConnectionFailed(str(error), sent=False)
                pause = pause_before_next(lost, attempt, self._http.retries, repeatable=True)
                if pause is None:
                    raise
            attempt += 1
            await asyncio.sleep(pause)

    def stream(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> AsyncEventStream:
        """Streams one turn; leaving the stream early ends the turn on the server, too."""
        _check(parameters)
        merged: Parameters = {**self._parameters, **parameters}
        return AsyncEventStream(_Turn(self, item_list(input), model or self._model, merged))

    async def close(self) -> None:
        self._closed = True
        await self._hang_up()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- what a turn asks of its session ------------------------------------------------------------------

    def _begin(self, turn: "_Turn") -> None:
        if self._closed:
            raise UsageError("this session is closed; create a new one, with `items=` to go on from this one")
        self._http.check()
        if self._turn is not None:
            raise UsageError(
                "a session has one turn at a time; finish or close the stream of the last one first"
            )
        self._turn = turn

    async def _end(self, turn: "_Turn") -> None:
        """The turn is over, well or not; what it said is kept if it came to its end."""
        if self._turn is not turn:
            return
        self._turn = None
        response = turn.finished
        if response is None and not turn.refused:
            # Broken off: only a new connection is sure to bring nothing of it.
            await self._hang_up()
            return
        if response is None or response.status == "failed":
            # The server no longer remembers what a failed turn continued, unless it is stored.
            self._last = self._last if self._last is not None and self._last.stored else None
            return
        self.items += turn.input
        self.items += [as_input(item) for item in response.output]
        stored = response.store and turn.stores and via(response) == "responses"
        self._last = _Link(response.id, stored, self._socket)

    def _continues(self) -> str | None:
        """The id that the server should still know."""
        last = self._last
        if last is None:
            return None
        return last.id if last.stored or (last.socket is not None and last.socket is self._socket) else None

    def _forget(self) -> None:
        self._last = None

    async def _open_socket(self, limits: Timeouts, clock: Clock) -> ClientSocket | None:
        """The open connection; None when this server has none to offer."""
        if self._closed:
            raise UsageError("this session was closed while it was being used")
        if not self._uses_socket:
            return None
        if self._socket is None:
            try:
                headers = {**self._http.headers, **self._parameters.get("extra_headers", {})}
                self._socket = await ClientSocket.dial(
                    self._http.address, headers, limits, clock, trust_env=self._http.trust_env
                )
            except NoWebSocket:
                self._uses_socket = False
        return self._socket

    async def _hang_up(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()


class _Link:
    """The last response: who remembers it."""

    def __init__(self, id: str, stored: bool, socket: ClientSocket | None) -> None:
        self.id = id
        self.stored = stored
        self.socket = socket


class _Turn:
    """The events of one turn, from its socket or from plain HTTP."""

    def __init__(
        self, session: AsyncSession, input: list[InputItem], model: str | None, parameters: Parameters
    ) -> None:
        self.input = input
        self.stores = parameters.get("store") is not False
        self.finished: Response | None = None
        self.refused = False
        self.request_id = ""
        self._session = session
        self._model = model
        self._parameters = parameters
        self._limits = parameters.get("timeouts", session._creator.http.timeouts)
        self._source: EventSource | None = None

    @property
    def response(self) -> Response:
        if self._source is None:
            raise UsageError("there is no response yet: the stream has not been opened")
        return self._source.response

    async def open(self) -> None:
        """Send the turn until the server takes it."""
        session = self._session
        session._begin(self)
        clock = Clock(self._limits.total)
        attempt = 0
        while True:
            chained = session._continues()
            try:
                await self._send(chained, clock)
                return
            except StatusError as error:
                if error.code == FORGOTTEN and chained is not None:
                    session._forget()
                    continue
                failed: AntiphonError = error
                if error.code == LIMIT_REACHED:
                    failed = ConnectionFailed(str(error), sent=False)
                    await session._hang_up()
            except (ConnectionFailed, TimedOut) as error:
                failed = error
                await session._hang_up()
            pause = None
            if session.transport == "websocket":  # plain calls have had their retries
                # The session knows the whole context, so a turn of which nothing came may be sent again.
                repeatable = isinstance(failed, ConnectionFailed)
                retries = session._creator.http.retries
                pause = pause_before_next(
                    failed, attempt, retries, repeatable=repeatable, remaining=clock.remaining()
                )
            if pause is None:
                self.refused = isinstance(failed, StatusError)
                raise failed
            attempt += 1
            await asyncio.sleep(pause)

    def take(self) -> list[AnyEvent] | None:
        assert self._source is not None
        events = self._source.take()
        if events and events[-1].is_terminal:
            self.finished = self._source.response
        return events

    async def wait(self) -> None:
        assert self._source is not None
        await self._source.wait()

    async def close(self) -> None:
        try:
            if self._source is not None:
                await self._source.close()
        finally:
            await self._session._end(self)

    async def _send(self, chained: str | None, clock: Clock) -> None:
        session = self._session
        socket = await session._open_socket(self._limits, clock)
        given = self.input if chained else [*session.items, *self.input]
        body = request_body(given, self._model, self._parameters)
        if chained:
            body["previous_response_id"] = chained
        if socket is None:
            self._source = await session._creator.open(encode_body(body | {"stream": True}), self._parameters)
            self.request_id = self._source.request_id
            return
        source = _SocketSource(socket, clock, self._limits)
        await socket.send(encode_body({"type": "response.create"} | body))
        message = await source.receive("read")
        refusal = envelope_in(message, session._creator.http.address)
        if refusal is not None:
            raise refusal
        source.message = message
        self._source = source


class _SocketSource:
    """The events of one turn on a socket."""

    request_id = ""

    def __init__(self, socket: ClientSocket, clock: Clock, limits: Timeouts) -> None:
        self._socket = socket
        self._clock = clock
        self._limits = limits
        self._reader = Reader()
        self._received = 0
        self.message: str | bytes | None = None

    @property
    def response(self) -> Response:
        return self._reader.response

    async def open(self) -> None:
        """Does nothing: the stream is open as soon as it is made."""

    async def receive(self, limit: Literal["read", "idle"]) -> str | bytes:
        seconds = self._limits.read if limit == "read" else self._limits.idle
        async with self._clock.within(limit, seconds):
            message = await self._socket.receive()
        self._received += len(message)
        if self._received > MAX_BODY:
            raise too_large(MAX_BODY)
        return message

    def take(self) -> list[AnyEvent] | None:
        message, self.message = self.message, None
        if message is not None and not self._reader.finished:
            self._reader.feed(message)
            return list(self._reader.events)
        return None if self._reader.finished else []

    async def wait(self) -> None:
        try:
            self.message = await self.receive("idle")
        except ConnectionFailed as error:
            response = self._reader.close()
            raise StreamBroken(f"{error}; the next turn makes a new connection", response) from error
        except UnexpectedAnswer as error:
            raise StreamBroken(str(error), self._reader.close()) from None

    async def close(self) -> None:
        """The socket belongs to the session."""


def _check(parameters: Parameters) -> None:
    for name in _OURS:
        if name in parameters:
            raise UsageError(
                f"a session has no `{name}`; it keeps the chain itself, and its turns follow each other"
            )
