"""The connection of a check to the server (JSON, server-sent events, WebSocket), which keeps every
exchange.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)

from antiphon.compliance.catalog import LATEST, TRANSPORTS, RuleTransport, Spec
from antiphon.compliance.http_exchange import TERMINAL, Arrival, Json, RecordedExchange
from antiphon.stream.sse import Decoder, EventTooLarge

MAX_BODY: Final = 64 * 1024 * 1024
_BUFFERED: Final = 0.001
"""Seconds to wait for a message that has arrived already."""
_ABSENT: Final = (404, 405, 426, 501)
_ENDS: Final = TERMINAL | {"error"}


class Failed(Exception):
    """The server broke the rule."""


class NotOffered(Failed):
    """The server has no such feature: an official scenario fails, other checks of the feature are skipped."""


class Skipped(Exception):
    """The rule cannot be judged, for this reason."""


class TooWeak(Skipped):
    """The model did not do what the check needs; another try may show more."""


@dataclass(frozen=True, slots=True)
class ServerUnderTest:
    """The server that is judged. `second_key` belongs to another tenant."""

    url: str
    model: str
    api_key: str | None = None
    second_key: str | None = None
    timeout: float = 60.0
    spec: Spec = LATEST
    transports: tuple[RuleTransport, ...] = TRANSPORTS
    websocket_limit: float | None = None
    """How long the server lets a socket live, where it was made short enough to wait for."""

    def headers(self, key: str | None = None) -> dict[str, str]:
        shown = key or self.api_key
        return {"authorization": f"Bearer {shown}"} if shown else {}


@dataclass(slots=True)
class Probe:
    """The means of one try of one check."""

    target: ServerUnderTest
    http: httpx.AsyncClient
    number: int = 1
    """Which try it is."""
    exchanges: list[RecordedExchange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> str:
        return self.target.model

    # --- exchanges ----------------------------------------------------------------------------------------

    async def send(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        *,
        key: str | None = None,
        anonymous: bool = False,
        content_type: str | None = "application/json",
        leave_after: int | None = None,
    ) -> RecordedExchange:
        """Sends one HTTP request, and accepts any answer; closes it after `leave_after` events."""
        headers = {} if anonymous else self.target.headers(key)
        if content_type is not None:
            headers["content-type"] = content_type
        exchange = RecordedExchange("json", method, path, content, _without_key(headers))
        self.exchanges.append(exchange)
        try:
            async with asyncio.timeout(self.target.timeout):
                request = self.http.build_request(
                    method, self.target.url + path, content=content or None, headers=headers
                )
                answer = await self.http.send(request, stream=True)
                try:
                    await _receive(answer, exchange, leave_after)
                finally:
                    await answer.aclose()
        except TimeoutError:
            exchange.failure = f"no complete answer within {self.target.timeout:g} seconds"
        except (httpx.HTTPError, EventTooLarge) as error:
            exchange.failure = f"{type(error).__name__}: {error}".removesuffix(": ")
        exchange.seconds = exchange.now()
        return exchange

    async def post(self, path: str, body: object, **options: Any) -> RecordedExchange:
        return await self.send("POST", path, json.dumps(body).encode(), **options)

    async def ask(self, *, key: str | None = None, **body: Any) -> RecordedExchange:
        """Requests a response, and accepts any answer."""
        return await self.post("/responses", {"model": self.model, **body}, key=key)

    # --- what usually must hold ---------------------------------------------------------------------------

    async def create(self, *, key: str | None = None, **body: Any) -> Json:
        """Requests a response, which must come with HTTP 200 as JSON."""
        return respond(await self.ask(key=key, **body))

    async def stream(self, **body: Any) -> RecordedExchange:
        """Requests a stream, which must come and end."""
        exchange = await self.ask(stream=True, **body)
        require_answer(exchange)
        if not exchange.is_stream:
            raise Failed(f"`stream: true` was answered with {exchange.content_type or 'no content type'}")
        if exchange.response is None:
            raise Failed("the stream ended without a terminal event that has a response")
        return exchange

    async def require_refusal(self, *, key: str | None = None, **body: Any) -> Json:
        """Sends a request that the server must refuse as a mistake of the client, and returns the error."""
        return refusal(await self.ask(key=key, **body))

    async def create_if_supported(self, what: str, **body: Any) -> Json:
        """Requests a response that a server need not support: a refusal skips the check."""
        exchange = await self.ask(**body)
        require_contact(exchange)
        if exchange.status is not None and 400 <= exchange.status < 500 and exchange.error is not None:
            raise Skipped(f"capability absent: {what} ({describe_answer(exchange)})")
        return respond(exchange)

    @asynccontextmanager
    async def socket(self, *, key: str | None = None) -> AsyncIterator["ProbeSocket"]:
        address = self.target.url.replace("http", "ws", 1) + "/responses"
        try:
            async with asyncio.timeout(self.target.timeout):
                connection = await connect(
                    address,
                    additional_headers=self.target.headers(key),
                    max_size=MAX_BODY,
                    open_timeout=None,
                    proxy=None,
                )
        except InvalidStatus as error:
            kind = NotOffered if error.response.status_code in _ABSENT else Failed
            raise kind(f"the WebSocket did not open: HTTP {error.response.status_code}") from error
        except InvalidMessage as error:
            raise NotOffered(f"the WebSocket did not open: {error}") from error
        except (OSError, InvalidHandshake, TimeoutError) as error:
            raise Failed(f"the WebSocket did not open: {error}") from error
        async with ProbeSocket(self, connection) as socket:
            yield socket


class ProbeSocket:
    """A WebSocket to the server; turns follow each other."""

    def __init__(self, probe: Probe, connection: ClientConnection) -> None:
        self._probe = probe
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, _: TracebackType | None
    ) -> None:
        await self._receive_rest()
        await self._connection.close()

    async def _receive_rest(self) -> None:
        """Receives the messages after the end of the last turn; a correct server has sent none.

        Once the server has answered a ping, all its earlier messages have arrived.
        """
        last = self._probe.exchanges[-1] if self._probe.exchanges else None
        if last is None or last.transport != "websocket" or last.failure is not None:
            return
        with suppress(WebSocketException, TimeoutError):
            async with asyncio.timeout(self._probe.target.timeout):
                await (await self._connection.ping())
        with suppress(WebSocketException, TimeoutError):
            while True:
                async with asyncio.timeout(_BUFFERED):
                    last.arrivals.append(_message(last, await self._connection.recv()))

    async def turn(self, **body: Any) -> RecordedExchange:
        """Runs one turn, and accepts any end of it."""
        return await self.send_message(
            json.dumps({"type": "response.create", "model": self._probe.model, **body})
        )

    async def send_message(self, message: str) -> RecordedExchange:
        exchange = self._begin(message)
        await self._connection.send(message)
        await self._receive_turn(exchange)
        return exchange

    async def say_all(self, *bodies: Mapping[str, Any]) -> list[RecordedExchange]:
        """Sends several turns at once, and receives their events one turn after the other."""
        model = self._probe.model
        messages = [json.dumps({"type": "response.create", "model": model, **body}) for body in bodies]
        exchanges = [self._begin(message) for message in messages]
        for message in messages:
            await self._connection.send(message)
        for exchange in exchanges:
            await self._receive_turn(exchange)
        return exchanges

    async def complete_turn(self, **body: Any) -> Json:
        exchange = await self.turn(**body)
        response = _terminal(exchange)
        require_completed(response, describe_answer(exchange))
        return response

    async def wait_for_close(self, seconds: float) -> RecordedExchange:
        """Receives what the server sends by itself until it closes the socket."""
        exchange = self._begin("")
        try:
            async with asyncio.timeout(seconds):
                while True:
                    exchange.arrivals.append(_message(exchange, await self._connection.recv()))
        except ConnectionClosed:
            pass
        except TimeoutError:
            exchange.failure = f"the socket was still open after {seconds:g} seconds"
        exchange.seconds = exchange.now()
        return exchange

    def _begin(self, message: str) -> RecordedExchange:
        exchange = RecordedExchange("websocket", "WEBSOCKET", "/responses", message.encode())
        self._probe.exchanges.append(exchange)
        return exchange

    async def _receive_turn(self, exchange: RecordedExchange) -> None:
        try:
            async with asyncio.timeout(self._probe.target.timeout):
                while not exchange.arrivals or exchange.arrivals[-1].type not in _ENDS:
                    exchange.arrivals.append(_message(exchange, await self._connection.recv()))
        except TimeoutError:
            exchange.failure = f"the turn had no end within {self._probe.target.timeout:g} seconds"
        except WebSocketException as error:
            exchange.failure = f"the socket closed inside the turn: {error}"
        exchange.seconds = exchange.now()


async def _receive(answer: httpx.Response, exchange: RecordedExchange, leave_after: int | None) -> None:
    exchange.status = answer.status_code
    exchange.headers = {name.lower(): value for name, value in answer.headers.items()}
    if exchange.is_stream:
        exchange.transport = "sse"
    decoder = Decoder(MAX_BODY)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in answer.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BODY:
                raise EventTooLarge(MAX_BODY)
            if exchange.is_stream:
                at = exchange.now()
                exchange.arrivals += (Arrival(at, e.data, e.event) for e in decoder.feed(piece))
                if leave_after is not None and len(exchange.arrivals) >= leave_after:
                    exchange.left_early = True
                    return
    finally:
        exchange.body = b"".join(pieces)
    if exchange.is_stream:
        exchange.arrivals += (Arrival(exchange.now(), e.data, e.event) for e in decoder.close())


def _message(exchange: RecordedExchange, message: str | bytes) -> Arrival:
    text = message if isinstance(message, str) else message.decode(errors="replace")
    return Arrival(exchange.now(), text)


def _without_key(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: "Bearer …" if name == "authorization" else value for name, value in headers.items()}


# --- judging one exchange ---------------------------------------------------------------------------------


def describe_answer(exchange: RecordedExchange) -> str:
    """Describes the answer of the server in a few words."""
    if exchange.failure is not None:
        return exchange.failure
    error = exchange.error
    about = error.get("message") or error.get("code") if error else None
    if about is None and exchange.body and not exchange.is_stream:
        about = exchange.body[:200].decode(errors="replace")
    start = f"HTTP {exchange.status}" if exchange.status is not None else "a message"
    return f"{start}: {str(about)[:300]}" if about else start


def require_contact(exchange: RecordedExchange) -> None:
    if exchange.failure is not None:
        raise Failed(exchange.failure)


def require_answer(exchange: RecordedExchange) -> None:
    require_contact(exchange)
    if exchange.transport != "websocket" and exchange.status != 200:
        raise Failed(f"expected HTTP 200, got {describe_answer(exchange)}")


def respond(exchange: RecordedExchange) -> Json:
    """Returns the response of an answer; raises `Failed` if there is none or if it has failed."""
    require_answer(exchange)
    response = exchange.response
    if response is None:
        raise Failed("the answer is no response object")
    if response.get("status") == "failed":
        raise Failed(f"the response failed: {describe_error(response.get('error'))}")
    return response


def response_unless_model_failed(exchange: RecordedExchange, what: str) -> Json | None:
    """Returns the response, or None where the server says that the model has failed.

    Raises `Skipped` for a server that lacks the means, and `TooWeak` for one that has failed itself.
    """
    require_contact(exchange)
    response, error = exchange.response, exchange.error
    if response is not None and response.get("status") != "failed":
        return response
    if error is None:
        raise Failed(f"expected a response, got {describe_answer(exchange)}")
    if exchange.status is not None and 400 <= exchange.status < 500:
        raise Skipped(f"capability absent: {what} ({describe_answer(exchange)})")
    if error.get("type") not in (None, "model_error"):
        raise TooWeak(f"there was no answer to judge: {describe_answer(exchange)}")
    return None


def require_completed(response: Json, description: str = "") -> None:
    """Raises an error if a response without a limit did not complete; `description` is the server's
    answer.
    """
    status, details = response.get("status"), response.get("incomplete_details") or {}
    if status == "incomplete" and details.get("reason") == "max_output_tokens":
        raise TooWeak("the model talked until its own limit")
    if status != "completed":
        raise Failed(f"the response is {status!r}{description and f': {description}'}")


def _terminal(exchange: RecordedExchange) -> Json:
    require_contact(exchange)
    response = exchange.response
    if response is None:
        raise Failed(f"the turn ended without a response: {describe_answer(exchange)}")
    return response


def describe_error(error: object) -> str:
    return str(error.get("message") or error.get("code")) if isinstance(error, dict) else "no error was given"


def refusal(exchange: RecordedExchange) -> Json:
    """The error of a refusal: 4xx over HTTP, an error or a failed response inside a stream or a turn."""
    require_contact(exchange)
    if exchange.is_stream:
        response = exchange.response
        if exchange.error is None or (response is not None and response.get("status") != "failed"):
            raise Failed("the request was carried out, it must be refused")
        return exchange.error
    status = exchange.status or 0
    if 200 <= status < 300:
        raise Failed("the request was carried out, it must be refused")
    if not 400 <= status < 500:
        raise Failed(f"a mistake of the client was answered with {describe_answer(exchange)}")
    error = exchange.error
    if error is None:
        raise Failed(f"HTTP {status} came without an error object: {describe_answer(exchange)}")
    return error


def require_offered(exchange: RecordedExchange, what: str) -> None:
    if exchange.status in _ABSENT:
        raise NotOffered(f"there is no {what}: {describe_answer(exchange)}")


def expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)
