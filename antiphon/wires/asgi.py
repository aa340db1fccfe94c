"""What every ASGI application here needs: the types of its three callables, and sending without waiting."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

AsgiScope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

_WAITING = 16
"""With more messages than this to be sent, no more are to be put."""


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


class Sender:
    """Sends messages one after the other, so that the code that puts them need not wait."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[AsgiMessage] = deque()
        self._sending: asyncio.Task[None] | None = None

    def put(self, message: AsgiMessage) -> bool:
        """False: it was taken, but put no more before `ready` has returned."""
        self._waiting.append(message)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send_all())
        return self.has_room

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < _WAITING

    async def ready(self) -> None:
        """Wait until all is sent."""
        if self._sending is not None:
            await asyncio.shield(self._sending)

    def stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send_all(self) -> None:
        while self._waiting:
            with contextlib.suppress(OSError):  # so some servers say that the client is gone
                await self._send(self._waiting.popleft())
