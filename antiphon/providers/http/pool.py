"""Connections that wait for work: the latest is taken first, and none waits longer than it may."""

import asyncio
import re
from asyncio import TimerHandle
from functools import lru_cache

from antiphon.providers.http.connection import UpstreamConnection
from antiphon.providers.http.deadlines import DeadlineTimer
from antiphon.providers.http.target import Origin

KEEP_ALIVE = 30.0
LINGER = 1.0
"""How long a connection may take to end an answer whose last event is here already."""
DISTRUST = 60.0
"""For how long an upstream that sent what no request asked for gets no kept connections."""
MOST_DISTRUSTED = 1000
"""Beyond this many upstreams the one that has been distrusted the longest is trusted again."""

_TIMEOUT = re.compile(rb"timeout\s*=\s*(\d{1,9})", re.IGNORECASE)


class Pool:
    """All connections of one client."""

    def __init__(self, deadlines: DeadlineTimer) -> None:
        self.connections: set[UpstreamConnection] = set()
        self.lingering: dict[UpstreamConnection, TimerHandle] = {}
        self.distrusted: dict[tuple[str, str, int], float] = {}
        """Until when an upstream gets no kept connections; the latest last."""
        self._deadlines = deadlines

    def add(self, connection: UpstreamConnection) -> None:
        self.connections.add(connection)
        self._deadlines.add(connection)

    def take(self, origin: Origin, now: float) -> UpstreamConnection | None:
        """Take the idle connection that was used last, which is the least likely to be dead."""
        idle = origin.idle
        if self.distrusted and self._is_distrusted(origin, now):
            return None
        while idle:
            connection = idle.pop()
            if connection.expires <= now or not connection.keeps:
                connection.abort()
            elif connection.has_unasked():
                connection.expires = expires = now + LINGER  # the event loop reads it and judges it
                if expires < self._deadlines.next:
                    self._deadlines.look_at(expires)
            else:
                connection.expires = 0.0
                return connection
        return None

    def distrust(self, origin: Origin, now: float) -> None:
        """Drop the idle connections of an origin that sent unasked bytes: they could pass for an answer."""
        self.distrusted.pop(origin.place, None)
        if len(self.distrusted) >= MOST_DISTRUSTED:
            del self.distrusted[next(iter(self.distrusted))]
        self.distrusted[origin.place] = now + DISTRUST
        while origin.idle:
            origin.idle.pop().abort()

    def _is_distrusted(self, origin: Origin, now: float) -> bool:
        until = self.distrusted.get(origin.place, 0.0)
        if until and until <= now:
            del self.distrusted[origin.place]
        return until > now

    def keep(self, connection: UpstreamConnection) -> None:
        """Keep a connection whose answer is complete for the next request, or close it."""
        stated = connection.keep_alive
        seconds = KEEP_ALIVE if stated is None else _keep_alive_seconds(stated)
        origin = connection.origin
        if (
            not connection.keeps
            or not seconds
            or (self.distrusted and self._is_distrusted(origin, connection.heard))
        ):
            connection.abort()
            return
        if connection.pieces:
            connection.pieces.clear()
        origin.idle.append(connection)
        connection.expires = expires = connection.heard + seconds
        if expires < self._deadlines.next:
            self._deadlines.look_at(expires)

    def leave(self, connection: UpstreamConnection, finished: bool) -> None:
        """Take back a connection in the middle of its answer: wait a moment for the end, or close it."""
        if finished and connection.error is None and not connection.single and connection.is_usable:
            self.lingering[connection] = connection.loop.call_later(LINGER, connection.abort)
            connection.linger()
        else:
            connection.abort()

    def settle(self, connection: UpstreamConnection) -> None:
        """Keep a connection that lingered: its answer has ended."""
        connection.is_lingering = False
        if (timer := self.lingering.pop(connection, None)) is not None:
            timer.cancel()
        self.keep(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        """Remove a connection that was lost."""
        self.connections.discard(connection)
        self._deadlines.remove(connection)
        if (timer := self.lingering.pop(connection, None)) is not None:
            timer.cancel()
        if connection.expires and connection in connection.origin.idle:
            connection.origin.idle.remove(connection)

    async def close(self) -> None:
        for connection in list(self.connections):
            connection.abort()
        # A transport lets go of its socket in the next turn of the loop.
        await asyncio.sleep(0)


@lru_cache(maxsize=128)
def _keep_alive_seconds(stated: bytes) -> float:
    """How long to keep a connection: not quite as long as the upstream says that it will."""
    if (found := _TIMEOUT.search(stated)) is None:
        return KEEP_ALIVE
    seconds = int(found[1])
    return min(KEEP_ALIVE, max(seconds - 1.0, seconds / 2))
