"""Tells the other processes which responses have changed: many in one NOTIFY, and seldom.

Each NOTIFY takes a lock of the whole server when it commits, so there is never one for each row.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from antiphon.store.base import StoreError

log = logging.getLogger(__name__)

CHANNEL = "antiphon_changes"
PAUSE = 0.02
"""Seconds between two announcements of one process, at least."""
_LONGEST = 7900
"""PostgreSQL refuses a payload of 8,000 bytes."""
_MANY = "*"


def payload_of(ids: Iterable[str]) -> str:
    """The ids of what has changed, or only that many have."""
    text = " ".join(sorted(ids))
    return text if len(text.encode()) <= _LONGEST else _MANY


def ids_in(payload: str) -> list[str] | None:
    """What a payload names; None stands for everything."""
    return None if payload == _MANY else payload.split()


class Announcer:
    """Collects ids and sends them on with `notify(payload)`, the first at once, more after a pause."""

    def __init__(self, notify: Callable[[str], Awaitable[None]]) -> None:
        self._notify = notify
        self._ids: set[str] = set()
        self._sending: asyncio.Task[None] | None = None

    def announce(self, id: str) -> None:
        self._ids.add(id)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Send what is left."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while self._ids:
            ids, self._ids = self._ids, set()
            try:
                await self._notify(payload_of(ids))
            except StoreError as error:
                # Whoever listens has lost its connection too, and reads everything once it is back.
                log.info("%d changes could not be announced: %s", len(ids), error)
            await asyncio.sleep(PAUSE)
