"""procrastinate's access to its tables, changed so that a worker survives a PostgreSQL that is away for a
while.

procrastinate's own worker ends with the first query that fails, and its heartbeats stop without a message;
other processes would take over its jobs although they still run.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import psycopg
import psycopg_pool
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager, NotificationCallback

from antiphon.store.postgres.connection import Connection
from antiphon.store.postgres.job_turns import JobTurns
from antiphon.store.postgres.jobs import WORKER_LOCKS
from antiphon.store.postgres.notifications import Listener
from antiphon.store.postgres.reconnecting_session import ReconnectingSession

log = logging.getLogger(__name__)

_RETRY = 0.5
_AWAY = (psycopg.OperationalError, psycopg_pool.PoolTimeout, psycopg.InterfaceError)


def is_away(error: ConnectorException) -> bool:
    """Was PostgreSQL away? Otherwise it has answered with an error."""
    return isinstance(error.__cause__, _AWAY)


class WorkerLock:
    """Holds a lock while the process of a worker lives: PostgreSQL frees it the moment that the process dies.

    It takes the lock again after a lost connection.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._session: ReconnectingSession | None = None

    async def hold(self, worker: int) -> None:
        """Takes the lock of this worker, and returns once it holds it."""
        await self.release()

        async def lock(connection: Connection) -> None:
            await connection.execute("SELECT pg_advisory_lock(%s, %s)", (WORKER_LOCKS, worker))

        self._session = ReconnectingSession(self._conninfo, lock)
        await self._session.open()

    async def release(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class ResilientJobManager(JobManager):
    """Holds the lock of a registered worker, and receives notifications on the process's own connection."""

    def __init__(self, connector: BaseConnector, listener: Listener, lock: WorkerLock) -> None:
        super().__init__(connector)
        self.is_stopping = False
        """True once nothing is to be tried again."""
        self._listener = listener
        self._lock = lock
        self._unfinished: set[int | None] = set()
        self._turns = JobTurns()

    def keep_unfinished(self, job: Job) -> None:
        """Keeps a job unfinished when its task ends, so that others find that its worker is gone."""
        self._unfinished.add(job.id)

    async def register_worker(self) -> int:
        worker = await super().register_worker()
        await self._lock.hold(worker)
        return worker

    async def unregister_worker(self, worker_id: int) -> None:
        try:
            await super().unregister_worker(worker_id)
        except ConnectorException as error:
            log.info("worker %d could not be unregistered: %s", worker_id, error.__cause__)
        await self._lock.release()

    async def update_heartbeat(self, worker_id: int) -> None:
        try:
            await super().update_heartbeat(worker_id)
        except ConnectorException as error:
            log.warning("the heartbeat of background work failed: %s", error.__cause__)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Takes the job whose turn it is; procrastinate would take the oldest."""
        try:
            row = await self._turns.take_job(self.connector, list(queues or ()), worker_id)
        except ConnectorException as error:
            if not is_away(error):
                raise
            return None  # it polls, so it asks again soon
        return None if row is None else Job.from_row(row)

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:
        try:
            return await super().list_jobs_to_abort_async(queue)
        except ConnectorException as error:
            if not is_away(error):
                raise
            return ()  # it polls, so it asks again soon

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        if job.id in self._unfinished:
            self._unfinished.discard(job.id)
            return
        while True:
            try:
                await super().finish_job(job, status, delete_job)
                return
            except ConnectorException as error:
                if not is_away(error):
                    return  # another job has taken its place
                if self.is_stopping:
                    return  # its response has ended, so another worker has nothing to do
            await asyncio.sleep(_RETRY)

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        heard: set[asyncio.Task[Any]] = set()

        async def hear(notification: Any) -> None:
            await on_notification(channel="", notification=notification)

        def on_job(notification: Any) -> None:
            task = asyncio.create_task(hear(notification))
            heard.add(task)
            task.add_done_callback(heard.discard)

        self._listener.on_job = on_job
        await asyncio.Event().wait()
