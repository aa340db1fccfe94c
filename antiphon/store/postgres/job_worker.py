"""The worker of this process: it takes the jobs of background responses, and those of workers that died."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import psycopg_pool
from procrastinate import JobContext
from procrastinate.exceptions import ConnectorException
from procrastinate.job_context import AbortReason
from procrastinate.worker import Worker

from antiphon.store.base import StoreError
from antiphon.store.postgres.connection import SETTINGS, Connection
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.job_manager import ResilientJobManager, WorkerLock
from antiphon.store.postgres.jobs import OWNER, QUEUE, TASK, Jobs
from antiphon.store.postgres.notifications import Listener
from antiphon.store.store import JobHandler

log = logging.getLogger(__name__)

STALLED_AFTER = 3.0
"""Seconds without a heartbeat after which the host of a worker counts as dead."""
_SEARCH_INTERVAL = 0.25
_POLL_INTERVAL = 0.5
"""Seconds between two searches for jobs; only a search finds the next job of a conversation."""
_HEARTBEAT_INTERVAL = 1.0
_WORKER_ROW_LIFETIME = 3600.0
"""Seconds after which the row of a silent worker is removed."""
_HAND_OVER_TIMEOUT = 3.0
"""Seconds to hand responses over when the worker stops."""
_RETRY_DELAY = 1.0
"""Seconds before the next try after a failure."""


async def _do_not_compile(db: Connection) -> None:
    """Keeps PostgreSQL from compiling the search for a job, which takes ten times as long as the search."""
    await db.execute("SET jit = off")


class DeadWorkerSearch:
    """Finds workers that have died, and lets others continue their responses, for as long as `run` runs."""

    def __init__(
        self, database: Database, jobs: Jobs, listener: Listener, own_worker: Callable[[], int | None]
    ) -> None:
        """`own_worker` returns the id of this process's worker."""
        self._database = database
        self._jobs = jobs
        self._listener = listener
        self._own_worker = own_worker
        self._suspects: set[int | None] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_SEARCH_INTERVAL)
            try:
                await self._search_once()
            except StoreError as error:
                log.info("dead workers could not be looked for: %s", error)
            except Exception:
                log.exception("dead workers could not be looked for")

    async def _search_once(self) -> None:
        since = self._listener.since
        if since is None or asyncio.get_running_loop().time() - since < STALLED_AFTER:
            # PostgreSQL may have restarted, which frees all locks: wait for the heartbeats of living workers.
            self._suspects.clear()
            return
        own_worker = self._own_worker()
        stalled, gone = await self._database.read(
            lambda db: self._jobs.find_silent_workers(db, own_worker, STALLED_AFTER)
        )
        # A lost connection frees a lock, too; a living worker has taken it again by the next search.
        dead = stalled | (gone & self._suspects)
        self._suspects = gone
        if dead and (count := await self._database.write(lambda db: self._jobs.replace_all(db, dead))):
            log.warning("other workers continue %d background responses whose worker is gone", count)


class JobWorker:
    """A `WorkQueue` on procrastinate, with connections of its own: a heartbeat must not wait for others."""

    owner = OWNER

    def __init__(self, database: Database, jobs: Jobs, listener: Listener) -> None:
        self._pool = psycopg_pool.AsyncConnectionPool(
            database.url,
            kwargs=SETTINGS,
            configure=_do_not_compile,
            min_size=1,
            max_size=2,
            open=False,
            name="antiphon-jobs",
            timeout=STALLED_AFTER,
            # After a failure it connects again with the next call, instead of waiting longer and longer.
            reconnect_timeout=_HEARTBEAT_INTERVAL,
            check=psycopg_pool.AsyncConnectionPool.check_connection,
        )
        self._app = jobs.app
        self._jobs = jobs
        self._database = database
        self._manager = ResilientJobManager(jobs.app.connector, listener, WorkerLock(database.url))
        self._app.job_manager = self._manager
        self._worker: Worker | None = None
        self._search = DeadWorkerSearch(database, jobs, listener, self._worker_id)
        self._working: asyncio.Task[None] | None = None
        self._searching: asyncio.Task[None] | None = None

    async def open(self, handler: JobHandler, slots: int) -> None:
        await self._pool.open()
        await self._app.open_async(self._pool)

        async def work(context: JobContext, *, tenant: str, response: str, attempt: int) -> None:
            await self._run_job(handler, context, tenant, response, attempt)

        self._app.task(name=TASK, queue=QUEUE, pass_context=True)(work)
        self._working = asyncio.create_task(self._supervise(slots))
        self._searching = asyncio.create_task(self._search.run())

    async def stop(self) -> None:
        self._manager.is_stopping = True
        if self._worker is not None:
            self._worker.stop()  # type: ignore[no-untyped-call]

    async def hand_over(self, id: str, attempt: int) -> None:
        await self._database.write(lambda db: self._jobs.replace(db, id, attempt))

    async def close(self) -> None:
        """Stops, and hands the remaining responses over, within a few seconds."""
        await self.stop()
        if self._working is not None:
            await asyncio.wait({self._working}, timeout=2 * _HAND_OVER_TIMEOUT)
        for task in (self._searching, self._working):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        await self._pool.close()

    def _worker_id(self) -> int | None:
        return None if self._worker is None else self._worker.worker_id

    async def _supervise(self, slots: int) -> None:
        while not self._manager.is_stopping:
            self._worker = Worker(
                self._app,
                queues=[QUEUE],
                name=None,
                concurrency=slots,
                fetch_job_polling_interval=_POLL_INTERVAL,
                abort_job_polling_interval=_POLL_INTERVAL,
                update_heartbeat_interval=_HEARTBEAT_INTERVAL,
                stalled_worker_timeout=_WORKER_ROW_LIFETIME,
                delete_jobs="always",
                install_signal_handlers=False,
                shutdown_graceful_timeout=_HAND_OVER_TIMEOUT,
            )
            try:
                await self._worker.run()  # type: ignore[no-untyped-call]
            except ConnectorException as error:
                reason = str(error.__cause__).partition("\n")[0]
                log.error("the worker of background responses failed, starting another: %s", reason)
            except Exception:
                log.exception("the worker of background responses failed, starting another")
            if not self._manager.is_stopping:
                await asyncio.sleep(_RETRY_DELAY)

    async def _run_job(
        self, handler: JobHandler, context: JobContext, tenant: str, id: str, attempt: int
    ) -> None:
        """Runs a response; procrastinate aborts the job when a client has cancelled the response."""
        working = asyncio.create_task(self._work_until_ended(handler, tenant, id, attempt))
        while not working.done():
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                if context.abort_reason() is not AbortReason.USER_REQUEST:
                    working.cancel()
                    self._manager.keep_unfinished(context.job)
                    raise
                handler.stop_work(id)
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
            except StoreError as error:
                log.warning("background response %s could not be handed over: %s", id, error)
                self._manager.keep_unfinished(context.job)

    async def _work_until_ended(self, handler: JobHandler, tenant: str, id: str, attempt: int) -> None:
        """Runs a response until it has ended; raises `StoreError` only while this process stops."""
        while True:
            try:
                await handler.work(tenant, id, attempt)
                return
            except StoreError as error:
                if self._manager.is_stopping:
                    raise
                log.warning("background response %s cannot be worked on yet: %s", id, error)
            except Exception:
                log.exception("the work on background response %s failed", id)
                with suppress(StoreError):
                    await self.hand_over(id, attempt)
                    return
            await asyncio.sleep(_RETRY_DELAY)
