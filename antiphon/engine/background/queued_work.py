"""Background work from a queue that several machines share: any of them can work on a stored response."""

import asyncio
from typing import Protocol

from antiphon.engine.background.job import BackgroundJob
from antiphon.store.base import RUNNING, StoredResponse
from antiphon.store.store import Store, WorkQueue


class QueuedJobRunner(Protocol):
    """What works on the responses of a queue in this process."""

    @property
    def is_leaving(self) -> bool: ...

    def stop_work(self, id: str) -> None: ...

    async def resume_with_retries(self, response: StoredResponse) -> BackgroundJob | None:
        """Begin to work on a response; None if there is nothing to work on, or no time."""
        ...


class QueuedWork:
    """Works on what the queue gives, so many at once; with no slots on nothing."""

    is_shared = True
    """Do other processes go on at once with what this one leaves?"""

    def __init__(self, store: Store, queue: WorkQueue, slots: int, runner: QueuedJobRunner) -> None:
        self.owner = queue.owner
        self._store = store
        self._queue = queue
        self._slots = slots
        self._runner = runner
        self._stopped: set[str] = set()  # cancelled, perhaps before the work on them has begun

    async def open(self) -> None:
        if self._slots:
            await self._queue.open(self, self._slots)

    def note_work(self) -> None:
        """The queue knows what is worked on."""

    async def stop(self) -> None:
        await self._queue.stop()

    async def close(self) -> None:
        await self._queue.close()

    async def work(self, tenant: str, id: str, attempt: int) -> None:
        try:
            found = await self._store.get(tenant, id)
            if found is None or found.status not in RUNNING or found.attempt != attempt:
                return
            job = await self._runner.resume_with_retries(found)
            if id in self._stopped:
                self._runner.stop_work(id)
            if job is not None and job.task is not None:
                # Until then a response that broke off may have no end, and needs its job.
                await asyncio.wait({job.task})
        finally:
            self._stopped.discard(id)
        if self._runner.is_leaving or (job is not None and job.is_lost):
            await self._queue.hand_over(id, attempt)  # which leaves what is another's alone

    def stop_work(self, id: str) -> None:
        self._stopped.add(id)
        self._runner.stop_work(id)
