"""Finds workers that have died, and has their responses worked on by others."""

import asyncio
import logging
from collections.abc import Callable

from antiphon.store.base import StoreError
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.listening import Listener
from antiphon.store.postgres.queue.jobs import Jobs

log = logging.getLogger(__name__)

STALLED = 3.0
"""Seconds without a heartbeat after which the host of a worker is taken for dead."""
_SCAN = 0.25


class DeadWorkerSearch:
    """Looks again and again, for as long as `run` is awaited."""

    def __init__(
        self, database: Database, jobs: Jobs, listener: Listener, me: Callable[[], int | None]
    ) -> None:
        """`me` is the worker of this process."""
        self._database = database
        self._jobs = jobs
        self._listener = listener
        self._me = me
        self._suspects: set[int | None] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_SCAN)
            try:
                await self._look()
            except StoreError as error:
                log.info("dead workers could not be looked for: %s", error)
            except Exception:
                log.exception("dead workers could not be looked for")

    async def _look(self) -> None:
        since = self._listener.since
        if since is None or asyncio.get_running_loop().time() - since < STALLED:
            # PostgreSQL may have restarted, which frees all locks: the living have to be heard first.
            self._suspects.clear()
            return
        me = self._me()
        stalled, gone = await self._database.read(lambda db: self._jobs.silent_workers(db, me, STALLED))
        # A lost connection frees a lock too. Who lives has taken it again by the next look.
        dead = stalled | (gone & self._suspects)
        self._suspects = gone
        if dead and (count := await self._database.write(lambda db: self._jobs.replace_all(db, dead))):
            log.warning("%d background responses go on elsewhere: their worker is gone", count)
