"""Background responses: they run without their caller, with a heartbeat and a time limit.

Each is a task with a row, an owner and a heartbeat. An owner is one process; with its heartbeat it hears of
cancellations from other processes, and it ends as failed what silent ones left behind. Nothing runs twice.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from antiphon.engine.engine import Caller, Engine
from antiphon.engine.failures import SHUTDOWN
from antiphon.engine.heartbeat import Lease
from antiphon.engine.job import BackgroundJob, Pace
from antiphon.engine.orphans import last_words
from antiphon.spec import ids
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.request import Request
from antiphon.store.base import RUNNING, LoggedEvent, StoredResponse, StoreError
from antiphon.stream.composer import Composer

log = logging.getLogger(__name__)

PACE = Pace()
_PAGE = 500


class Background:
    """All background work of this process. `open` it before the first `start`, and `close` it at the end."""

    def __init__(
        self, engine: Engine, pace: Pace | None = None, report: Callable[[BackgroundJob], None] | None = None
    ) -> None:
        """`report` is called with each job that has ended."""
        self.owner = ids.new_id("owner_")
        self.stopping = False
        self._engine = engine
        self._store = engine.store
        self._pace = pace or PACE
        self._report = report
        self._jobs: dict[str, BackgroundJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._orphans: dict[str, StoredResponse] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._lease: Lease | None = None
        self._wake = asyncio.Event()
        self._beaten = 0.0
        self._sweep_at = 0.0

    async def open(self) -> None:
        self._beaten = self._engine.clock()
        await self._store.heartbeat(self.owner, self._beaten)
        self._wake.set()
        self._keeper = asyncio.create_task(self._keep())
        self._lease = Lease(self._beat_late, self._pace)
        self._lease.start()

    async def start(self, request: Request, caller: Caller) -> BackgroundJob:
        """Begin the work; when this returns, the response is stored as `queued`."""
        if not request.store:
            message = "a background response must be stored to be found again; leave out `store: false`"
            raise SpecError(invalid_param("background", message).with_code("background_needs_store"))
        if self.stopping:
            raise SpecError(SHUTDOWN, 503)
        run = await self._engine.start(request, caller)
        job = BackgroundJob(self._engine, run, caller, self.owner, self._pace)
        await job.save()
        self._jobs[job.id] = job
        task = asyncio.create_task(self._carry_out(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._wake.set()
        return job

    async def cancel(self, tenant: str, id: str) -> StoredResponse | None:
        """Ask for the end, wait a while for it, and give the response as it is then."""
        found = await self._store.request_cancel(tenant, id)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.patience):
                while found is not None and found.status in RUNNING:
                    job = self._working(id)
                    if job is None:
                        await asyncio.sleep(self._pace.poll)
                    else:
                        job.stop(Composer.cancel)
                        await job.ended.wait()
                    found = await self._store.get(tenant, id)
        return found

    async def events(self, tenant: str, id: str, after: int) -> list[LoggedEvent] | None:
        """The next logged events, waited for; none when there are no more, None without such a response.

        Events of this process are waited for, those of another are looked for.
        """
        while True:
            logged = await self._store.events_after(tenant, id, after, _PAGE)
            if logged or logged is None:
                return logged
            job = self._working(id)
            if job is not None:
                await job.beyond(after)
                continue
            found = await self._store.get(tenant, id)
            if found is None:
                return None
            if found.status not in RUNNING:
                if found.last_event is None or found.last_event <= after:
                    return []
            elif self.stopping:
                return []
            else:
                await asyncio.sleep(self._pace.poll)

    async def finished(self) -> None:
        """Wait until nothing runs any more."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """End what still runs as failed. What cannot be written now is ended by the next process."""
        self.stopping = True
        for job in self._jobs.values():
            job.stop(lambda composer: composer.fail(SHUTDOWN))
        tasks = set(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._pace.patience)
            tasks = late
        if self._keeper is not None:
            tasks.add(self._keeper)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._lease is not None:
            self._lease.stop()

    def _working(self, id: str) -> BackgroundJob | None:
        """The job of a response that is made here and has not ended."""
        job = self._jobs.get(id)
        return None if job is None or job.ended.is_set() else job

    async def _carry_out(self, job: BackgroundJob) -> None:
        if self.stopping:
            job.stop(lambda composer: composer.fail(SHUTDOWN))
        try:
            await job.work()
            if self._report is not None:
                self._report(job)
        except Exception:
            log.exception("background response %s was dropped", job.id)
            found = await self._store.get(job.caller.tenant, job.id)
            if found is not None and found.owner == self.owner:
                self._orphans[job.id] = found
        finally:
            del self._jobs[job.id]

    # --- heartbeat ----------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.beat if self._jobs else self._pace.sweep):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._beat()
            except StoreError as error:
                log.warning("the heartbeat of background work failed: %s", error)
            except Exception:
                log.exception("the check of background work failed")

    def _beat_late(self) -> None:
        """From the thread of the lease: the event loop is late, and its work is not abandoned."""
        if self._jobs:
            self._store.beat(self.owner, self._engine.clock())

    async def _beat(self) -> None:
        now, time = self._engine.clock(), asyncio.get_running_loop().time()
        # A machine that slept wakes all owners at once, and each must be heard before it is taken for dead.
        slept = now - self._beaten > self._pace.stale / 2
        self._beaten = now
        if time < self._sweep_at or slept:
            for id in await self._store.heartbeat(self.owner, now):
                if id in self._jobs:
                    self._jobs[id].stop(Composer.cancel)
        else:
            self._sweep_at = time + self._pace.sweep
            for orphan in await self._store.claim_orphans(self.owner, now, now - self._pace.stale):
                self._orphans[orphan.id] = orphan
        for orphan in list(self._orphans.values()):
            await self._store.update(await last_words(self._store, orphan, self.owner, int(now)))
            del self._orphans[orphan.id]
            log.warning("background response %s ended as failed: its process is gone", orphan.id)
