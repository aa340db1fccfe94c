"""Opening a WebSocket to a server: quietly, within limits, and what a refused handshake means."""

import logging

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES
from antiphon.wires import USER_AGENT

CLOSING = 1.0
"""The seconds that the other side has to answer a closing handshake."""
# Answers to a handshake that say something about the caller or the moment, not about WebSockets.
_NOT_ABOUT_SOCKETS = frozenset({401, 407, 408, 429})
_NOT_IMPLEMENTED = 501
# The library's debug lines would show the key and every message. This logger is in no registry, so that no
# configuration of logging can turn it on.
_quiet = logging.Logger(__name__, logging.CRITICAL + 1)


class NoWebSocket(Exception):
    """The server answered the handshake with plain HTTP: it has no WebSocket here."""


class HandshakeRefused(Exception):
    """The server may have a WebSocket here, but not for this caller or not now."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        """Their names in lower case."""
        self.body = body


async def dial(
    url: str,
    headers: dict[str, str],
    *,
    open_timeout: float | None = None,
    ping_timeout: float | None = 20.0,
    compression: str | None = "deflate",
    use_proxy: bool = True,
) -> ClientConnection:
    """Raises `NoWebSocket`, `HandshakeRefused`, or what `websockets` and the network raise.

    `use_proxy` takes the proxy that the environment names, if it names one.
    """
    try:
        return await connect(
            url,
            additional_headers=headers,
            user_agent_header=USER_AGENT,
            open_timeout=open_timeout,
            ping_timeout=ping_timeout,
            close_timeout=CLOSING,
            max_size=DEFAULT_MAX_EVENT_BYTES,
            compression=compression,
            proxy=True if use_proxy else None,
            logger=_quiet,
        )
    except InvalidStatus as error:
        answer = error.response
        status = answer.status_code
        if status not in _NOT_ABOUT_SOCKETS and (status < 500 or status == _NOT_IMPLEMENTED):
            raise NoWebSocket(f"HTTP {status}") from None
        named = {name.lower(): value for name, value in answer.headers.raw_items()}
        raise HandshakeRefused(status, named, bytes(answer.body or b"")) from None
