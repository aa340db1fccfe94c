"""A connection of its own that reconnects after it was lost, for LISTEN and for locks of a session."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import psycopg

from antiphon.store.base import StoreUnavailable
from antiphon.store.postgres.connection import SETTINGS, Connection

log = logging.getLogger(__name__)

_RETRY = 0.2
_CHECK = 5.0
"""Seconds of silence after which a query checks whether the server still answers."""


class ReconnectingSession:
    """Connects, calls `prepare`, and passes notifications to `on_notification`; again after each loss.

    It calls `on_change` with True once it is connected, and with False once the connection is lost.
    """

    def __init__(
        self,
        conninfo: str,
        prepare: Callable[[Connection], Awaitable[None]],
        on_notification: Callable[[str, str], None] | None = None,
        on_change: Callable[[bool], None] | None = None,
    ) -> None:
        self.since: float | None = None
        """The time of the event loop since which it is connected; None while it is not."""
        self.lost_at = 0.0
        """The time of the event loop at which it was last connected."""
        self._conninfo = conninfo
        self._prepare = prepare
        self._on_notification = on_notification
        self._on_change = on_change
        self._connected = asyncio.Event()
        self._is_failing = False  # which was said already
        self._task: asyncio.Task[None] | None = None
        self._reason = "it does not answer"
        """Why it is not connected."""

    async def open(self, connection_timeout: float | None = None) -> None:
        """Returns once it is connected; raises `StoreUnavailable` with the reason after so many seconds."""
        self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(connection_timeout):
                await self._connected.wait()
        except TimeoutError:
            await self.close()
            raise StoreUnavailable(f"A connection to PostgreSQL was refused: {self._reason}") from None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                await self._connect_and_listen()
            except (psycopg.Error, OSError) as error:
                self._reason = " ".join(str(error).split())
                if not self._is_failing:
                    log.warning("there is no connection to PostgreSQL, connecting again: %s", self._reason)
                self._is_failing = True
            except Exception:
                # Without this task no notification would arrive any more.
                log.exception("a connection to PostgreSQL failed, connecting again")
            finally:
                self._set_connected(None)
            await asyncio.sleep(_RETRY)

    async def _connect_and_listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._conninfo, **SETTINGS)
        try:
            await self._prepare(connection)
            self._set_connected(asyncio.get_running_loop().time())
            while True:
                async for notice in connection.notifies(timeout=_CHECK):
                    if self._on_notification is not None:
                        self._on_notification(notice.channel, notice.payload)
                await connection.execute("SELECT 1")
        finally:
            await connection.close()

    def _set_connected(self, since: float | None) -> None:
        was, self.since = self.since, since
        if since is None:
            self._connected.clear()
            if was is not None:
                self.lost_at = asyncio.get_running_loop().time()
        else:
            self._connected.set()
            self._is_failing = False
        if self._on_change is not None and (was is None) != (since is None):
            self._on_change(since is not None)
