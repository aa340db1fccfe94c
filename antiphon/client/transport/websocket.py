"""One WebSocket to `/responses` with its limits; its failures become the client's own errors."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Raw, Struct
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from antiphon.client.errors import ConnectionFailed, StatusError, TimedOut, UsageError, without_traceback
from antiphon.client.settings import ServerAddress, Timeouts
from antiphon.client.transport.http import Clock
from antiphon.client.transport.response_decoding import refusal_in, status_error
from antiphon.spec.codec import UNREADABLE
from antiphon.wires.websocket import CLOSING, HandshakeRefused, dial


class _Envelope(Struct):
    type: str = ""
    status: int = 0
    error: Raw = Raw(b"{}")


class ClientSocket:
    """Messages out and in, one at a time."""

    def __init__(self, connection: ClientConnection, address: ServerAddress) -> None:
        self._connection = connection
        self._address = address

    @classmethod
    async def dial(
        cls,
        address: ServerAddress,
        headers: dict[str, str],
        limits: Timeouts,
        clock: Clock,
        *,
        trust_env: bool,
    ) -> "ClientSocket":
        """Raises `NoWebSocket` where there is none; any other failure as an error of the client."""
        try:
            async with clock.within("connect", limits.connect):
                connection = await dial(
                    socket_url(address), {**headers, **address.headers()}, use_proxy=trust_env
                )
        except HandshakeRefused as refused:
            raise status_error(refused.status, refused.headers, refused.body, address.redact) from None
        except (WebSocketException, OSError, EOFError) as error:
            if isinstance(error, TimeoutError):
                raise TimedOut("connect", limits.connect or 0.0) from None
            said = str(error) or type(error).__name__
            raise ConnectionFailed(
                f"no WebSocket to {address.url}: {said}; {address.advice()}", sent=False
            ) from without_traceback(error)
        except (ValueError, TypeError) as error:
            raise UsageError(f"the WebSocket to {address.url} cannot be opened: {error}") from error
        return cls(connection, address)

    async def send(self, message: bytes) -> None:
        try:
            await self._connection.send(message.decode())
        except (ConnectionClosed, OSError) as error:
            raise self._broken_connection(error) from without_traceback(error)

    async def receive(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except (ConnectionClosed, OSError) as error:
            raise self._broken_connection(error) from without_traceback(error)

    async def close(self) -> None:
        """Say goodbye, and hang up whether or not it is answered."""
        try:
            with suppress(WebSocketException, OSError, TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._connection.close()
        finally:
            self._connection.transport.abort()

    def _broken_connection(self, error: Exception) -> ConnectionFailed:
        said = str(error) or type(error).__name__
        return ConnectionFailed(f"the WebSocket to {self._address.url} broke: {said}", sent=True)


def envelope_in(message: str | bytes, address: ServerAddress) -> StatusError | None:
    """The refusal of a turn, if this message is one."""
    try:
        envelope = msgspec.json.decode(message, type=_Envelope)
    except UNREADABLE:
        return None
    if envelope.type != "error":
        return None
    raw = message.encode("utf-8", "replace") if isinstance(message, str) else message
    told = refusal_in(raw)
    return told.as_error(envelope.status or 500, address.redact)


def socket_url(address: ServerAddress) -> str:
    parts = urlsplit(address.url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, parts.netloc, parts.path + "/responses", address.query, ""))
