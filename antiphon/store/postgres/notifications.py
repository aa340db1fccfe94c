"""Notifications between processes with NOTIFY and LISTEN, about changed responses and new jobs.

Each NOTIFY takes a lock of the whole server when it commits, so an `Announcer` puts many changes into one.
Each process hears everything over the one connection of its `Listener`.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable

from psycopg import sql

from antiphon.store.base import StoreError
from antiphon.store.changes import Changes
from antiphon.store.postgres.connection import Connection
from antiphon.store.postgres.jobs import QUEUE
from antiphon.store.postgres.reconnecting_session import ReconnectingSession

log = logging.getLogger(__name__)

CHANGE_CHANNEL = "antiphon_changes"
ANNOUNCE_INTERVAL = 0.02
"""Seconds between two announcements of one process, at least."""
_LONGEST = 7900
"""PostgreSQL refuses a payload of 8,000 bytes."""
_MANY = "*"
JOB_CHANNEL = f"procrastinate_queue_v1#{QUEUE}"
"""The channel on which procrastinate announces a job, or the abortion of one."""

JobCallback = Callable[[dict[str, object]], None]

_RECONNECT_TIME = 1.0
"""Seconds in which a lost connection is made again, if PostgreSQL runs."""
_POLL_WHILE_CONNECTED = 5.0
POLL_WHILE_DISCONNECTED = 0.25
"""Seconds after which a follower reads without a notification, with and without the connection."""


def encode_payload(ids: Iterable[str]) -> str:
    """Encodes the ids of changed responses, or only that there are many."""
    text = " ".join(sorted(ids))
    return text if len(text.encode()) <= _LONGEST else _MANY


def decode_payload(payload: str) -> list[str] | None:
    """Decodes the ids in a payload; None stands for all responses."""
    return None if payload == _MANY else payload.split()


class Announcer:
    """Collects ids and sends them with `notify(payload)`, the first at once, further ones after a pause."""

    def __init__(self, notify: Callable[[str], Awaitable[None]]) -> None:
        self._notify = notify
        self._ids: set[str] = set()
        self._sending: asyncio.Task[None] | None = None

    def announce(self, id: str) -> None:
        self._ids.add(id)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Sends the remaining ids."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while self._ids:
            ids, self._ids = self._ids, set()
            try:
                await self._notify(encode_payload(ids))
            except StoreError as error:
                # Listeners have lost their connections, too, and read everything once they are back.
                log.info("%d changes could not be announced: %s", len(ids), error)
            await asyncio.sleep(ANNOUNCE_INTERVAL)


class Listener:
    """Wakes the followers of changed responses, and passes the notifications of the job queue on."""

    def __init__(self, conninfo: str, changes: Changes) -> None:
        self._changes = changes
        self.on_job: JobCallback | None = None
        self._session = ReconnectingSession(conninfo, self._listen, self._hear, self._on_connection_change)

    @property
    def since(self) -> float | None:
        """The time of the event loop since which no notification was missed; None without a connection."""
        return self._session.since

    def is_away(self, answered: float) -> bool:
        """Has the connection been lost for more than a moment, and PostgreSQL not `answered` since?"""
        lost, now = self._session.lost_at, asyncio.get_running_loop().time()
        return self._session.since is None and now - lost > _RECONNECT_TIME and answered <= lost

    async def open(self, connection_timeout: float) -> None:
        await self._session.open(connection_timeout)

    async def close(self) -> None:
        await self._session.close()

    async def _listen(self, connection: Connection) -> None:
        for channel in (CHANGE_CHANNEL, JOB_CHANNEL):
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

    def _hear(self, channel: str, payload: str) -> None:
        if channel == JOB_CHANNEL:
            if self.on_job is not None:
                self.on_job(json.loads(payload))
            return
        ids = decode_payload(payload)
        if ids is None:
            self._changes.notify_all()
        for id in ids or ():
            self._changes.notify(id)

    def _on_connection_change(self, is_connected: bool) -> None:
        """Wakes all followers, because notifications are missed without a connection."""
        self._changes.interval = _POLL_WHILE_CONNECTED if is_connected else POLL_WHILE_DISCONNECTED
        self._changes.notify_all()
