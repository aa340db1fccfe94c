"""The one connection on which a process hears from the others: what has changed, and what there is to do."""

import asyncio
import json
from collections.abc import Callable

from psycopg import sql

from antiphon.store.changes import Changes
from antiphon.store.postgres.announcing import CHANNEL, ids_in
from antiphon.store.postgres.connection import Connection
from antiphon.store.postgres.lasting_session import LastingSession
from antiphon.store.postgres.queue.jobs import QUEUE

JOBS = f"procrastinate_queue_v1#{QUEUE}"
"""Where procrastinate says that there is a job, or that one is to be aborted."""

Hearing = Callable[[dict[str, object]], None]

_MOMENT = 1.0
"""Seconds in which a lost connection is made again, if PostgreSQL is there."""
_LISTENING = 5.0
POLLING = 0.25
"""How many seconds a follower waits before it looks by itself, with and without the connection."""


class Listener:
    """Wakes those who follow a response, and passes on the notifications of the job queue."""

    def __init__(self, conninfo: str, changes: Changes) -> None:
        self._changes = changes
        self.on_job: Hearing | None = None
        self._session = LastingSession(conninfo, self._listen, self._hear, self._connected)

    @property
    def since(self) -> float | None:
        """The time of the event loop since when nothing was missed; None while there is no connection."""
        return self._session.since

    def is_away(self, answered: float) -> bool:
        """Is there no connection, not only for a moment, and has PostgreSQL not `answered` since then?"""
        lost, now = self._session.lost, asyncio.get_running_loop().time()
        return self._session.since is None and now - lost > _MOMENT and answered <= lost

    async def open(self, patience: float) -> None:
        await self._session.open(patience)

    async def close(self) -> None:
        await self._session.close()

    async def _listen(self, connection: Connection) -> None:
        for channel in (CHANNEL, JOBS):
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

    def _hear(self, channel: str, payload: str) -> None:
        if channel == JOBS:
            if self.on_job is not None:
                self.on_job(json.loads(payload))
            return
        ids = ids_in(payload)
        if ids is None:
            self._changes.notify_all()
        for id in ids or ():
            self._changes.notify(id)

    def _connected(self, is_connected: bool) -> None:
        """What happened without the connection was missed, so everyone has to look."""
        self._changes.interval = _LISTENING if is_connected else POLLING
        self._changes.notify_all()
