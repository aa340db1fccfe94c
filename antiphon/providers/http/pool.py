"""Connections that wait for work: the latest is taken first, and none waits longer than it may."""

import asyncio
import re
from asyncio import AbstractEventLoop, TimerHandle

from antiphon.providers.http.connection import Connection
from antiphon.providers.http.target import Origin

KEEP_ALIVE = 30.0
LINGER = 1.0
"""How long a connection may take to end an answer whose last event is here already."""

_BETWEEN_SWEEPS = 1.0
_TIMEOUT = re.compile(rb"timeout\s*=\s*(\d{1,9})", re.IGNORECASE)


class Pool:
    """All connections of one client."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.lingering: dict[Connection, TimerHandle] = {}
        self._sweeper: TimerHandle | None = None

    def add(self, connection: Connection) -> None:
        self.connections.add(connection)

    def take(self, origin: Origin, now: float) -> Connection | None:
        """The one that was used last, which is the least likely to be dead."""
        idle = origin.idle
        while idle:
            connection = idle.pop()
            if connection.expires > now and connection.is_usable:
                connection.expires = 0.0
                return connection
            connection.abort()
        return None

    def leave(self, connection: Connection, loop: AbstractEventLoop, *, finished: bool) -> None:
        """Nobody reads from it any more: keep it, wait a moment for the end of its answer, or close it."""
        if connection.complete:
            self._keep(connection, loop)
        elif finished and connection.error is None and not connection.single and connection.is_usable:
            self.lingering[connection] = loop.call_later(LINGER, connection.abort)
            connection.linger()
        else:
            connection.abort()

    def settle(self, connection: Connection) -> None:
        """The answer that a connection lingered for has ended."""
        connection.is_lingering = False
        if (timer := self.lingering.pop(connection, None)) is not None:
            timer.cancel()
        self._keep(connection, asyncio.get_running_loop())

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self.connections.discard(connection)
        if (timer := self.lingering.pop(connection, None)) is not None:
            timer.cancel()
        if connection.expires and connection in connection.origin.idle:
            connection.origin.idle.remove(connection)

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self.connections):
            connection.abort()
        # A transport lets go of its socket in the next turn of the loop.
        await asyncio.sleep(0)

    def _keep(self, connection: Connection, loop: AbstractEventLoop) -> None:
        patience = _patience(connection.keep_alive)
        if not connection.keeps or not patience or not connection.is_usable:
            connection.abort()
            return
        connection.rest(loop.time() + patience)
        connection.origin.idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(patience, self._sweep, loop)

    def _sweep(self, loop: AbstractEventLoop) -> None:
        now = loop.time()
        waiting = [connection for connection in self.connections if connection.expires]
        for connection in waiting:
            if connection.expires <= now:
                connection.abort()
        ends = [connection.expires for connection in waiting if connection.expires > now]
        later = max(min(ends, default=0.0), now + _BETWEEN_SWEEPS)
        self._sweeper = loop.call_at(later, self._sweep, loop) if ends else None


def _patience(told: bytes | None) -> float:
    """How long to keep a connection: not quite as long as the upstream says that it will."""
    if told is None or (found := _TIMEOUT.search(told)) is None:
        return KEEP_ALIVE
    seconds = int(found[1])
    return min(KEEP_ALIVE, max(seconds - 1.0, seconds / 2))
