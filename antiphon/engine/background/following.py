"""Follows the logs of responses, wherever these are made: reads what is logged, and waits for what is not."""

import asyncio
import logging
from collections.abc import Callable

from antiphon.store.base import RUNNING, LoggedEvent, StoreUnavailable
from antiphon.store.store import Store

log = logging.getLogger(__name__)

_PAGE = 500

_Place = tuple[str, str, int]


class Logs:
    """The events of responses for all who follow them in this process."""

    def __init__(self, store: Store, is_left: Callable[[str], bool]) -> None:
        """`is_left` says whether this process waits no longer for the events of a response that runs."""
        self._store = store
        self._is_left = is_left
        self._reading: dict[_Place, asyncio.Task[list[LoggedEvent] | None]] = {}

    async def events(self, tenant: str, id: str, after: int) -> list[LoggedEvent] | None:
        """The next logged events, waited for; none when there are no more, None without such a response.

        A store that is away for a while only makes the wait longer.
        """
        with self._store.changes.watch(id) as watch:
            while True:
                watch.mark_read()
                try:
                    logged = await self._read(tenant, id, after)
                    if logged or logged is None:
                        return logged
                    found = await self._store.get(tenant, id)
                    if found is None:
                        return None
                    if found.status not in RUNNING:
                        if found.last_event is None or found.last_event <= after:
                            return []
                        continue  # it has ended since the log was read
                except StoreUnavailable as error:
                    log.info("background response %s cannot be followed for now: %s", id, error)
                if self._is_left(id):
                    return []
                await watch.wait()

    async def _read(self, tenant: str, id: str, after: int) -> list[LoggedEvent] | None:
        """Those who follow a response are mostly at the same place in its log, and share one read of it."""
        place = (tenant, id, after)
        if (reading := self._reading.get(place)) is not None:
            logged = await asyncio.shield(reading)
            if logged or logged is None:
                return logged
            # It began before this follower came, and may have missed what the follower was told of.
            return await self._store.events_after(tenant, id, after, _PAGE)
        reading = asyncio.create_task(self._load(place))
        reading.add_done_callback(_retrieve)
        self._reading[place] = reading
        return await asyncio.shield(reading)

    async def _load(self, place: _Place) -> list[LoggedEvent] | None:
        try:
            return await self._store.events_after(*place, _PAGE)
        finally:
            del self._reading[place]


def _retrieve(reading: asyncio.Task[list[LoggedEvent] | None]) -> None:
    """The follower that wanted this may be gone, and then nothing else looks at what went wrong."""
    if not reading.cancelled():
        reading.exception()
