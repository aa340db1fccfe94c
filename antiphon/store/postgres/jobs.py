"""The jobs that stand for running background responses, in the tables of procrastinate.

A response and its job are written in one transaction. A job is for one attempt, and the job for the next
attempt is made in the transaction that ends it: with procrastinate's own retry, a process that was only slow
could end the job of the process that continues.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.schema import SchemaManager
from procrastinate.types import JSONValue

from antiphon.store.postgres.connection import Connection, execute, one, rows

QUEUE = "antiphon"
TASK = "antiphon:work"
OWNER = "queue"
"""The owner of all responses that have a job; the attempt says which process works on one."""
WORKER_LOCKS = 0x416E7469
"""The class of the session locks by which a worker shows that its process lives; the key is its id."""

SCHEMA = (
    SchemaManager.get_schema(),
    "CREATE INDEX procrastinate_jobs_response ON procrastinate_jobs ((args ->> 'response'))",
)

_OF_RESPONSE = """
    SELECT id, lock, priority, args FROM procrastinate_jobs
    WHERE args ->> 'response' = %s AND status = 'doing' FOR UPDATE
"""
_OF_ATTEMPT = """
    SELECT id, lock, priority, args FROM procrastinate_jobs
    WHERE args ->> 'response' = %s AND (args ->> 'attempt')::int = %s AND status = 'doing' FOR UPDATE
"""
_OF_WORKERS = """
    SELECT id, lock, priority, args FROM procrastinate_jobs
    WHERE status = 'doing' AND queue_name = %s AND (worker_id IS NULL OR worker_id = ANY(%s))
    FOR UPDATE SKIP LOCKED
"""
_NEXT_ATTEMPT = """
    UPDATE responses SET attempt = attempt + 1
    WHERE id = %s AND attempt = %s AND owner IS NOT NULL RETURNING attempt
"""
# A worker whose process is dead holds no lock; one that hangs, or whose host is gone, has an old heartbeat.
_WORKERS = """
    SELECT doing.worker_id,
        worker.id IS NULL OR worker.last_heartbeat < now() - make_interval(secs => %s), lock.objid IS NULL
    FROM (SELECT DISTINCT worker_id FROM procrastinate_jobs WHERE status = 'doing' AND queue_name = %s) doing
    LEFT JOIN procrastinate_workers worker ON worker.id = doing.worker_id
    LEFT JOIN pg_locks lock ON lock.locktype = 'advisory' AND lock.granted AND lock.classid::bigint = %s
        AND lock.objid::bigint = worker.id AND lock.objsubid = 2
        AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    WHERE doing.worker_id IS DISTINCT FROM %s
"""


class Jobs:
    """Adds, aborts and replaces jobs inside a transaction of the caller."""

    def __init__(self) -> None:
        self.app = App(connector=PsycopgConnector())

    async def add(self, connection: Connection, tenant: str, response: str, lock: str | None) -> None:
        """Adds the job of a new response. Workers take jobs with the same `lock` one after another."""
        await self._defer(connection, {"tenant": tenant, "response": response, "attempt": 0}, lock, 0)

    async def abort(self, connection: Connection, tenant: str, response: str) -> None:
        """Asks the worker of a response to stop; does nothing about a job that has not begun."""
        for id, _, _, work in await rows(connection, _OF_RESPONSE, (response,)):
            if work["tenant"] != tenant:
                continue
            with _raise_psycopg_errors():
                await self.app.job_manager.cancel_job_by_id_async(id, abort=True, connection=connection)

    async def find_silent_workers(
        self, connection: Connection, own_worker: int | None, stalled_after: float
    ) -> tuple[set[int | None], set[int | None]]:
        """Returns the workers with an old heartbeat, and those whose process seems to be gone, that have
        jobs.
        """
        found = await rows(connection, _WORKERS, (stalled_after, QUEUE, WORKER_LOCKS, own_worker))
        return {id for id, is_stalled, _ in found if is_stalled}, {id for id, _, is_gone in found if is_gone}

    async def replace(self, connection: Connection, response: str, attempt: int) -> int:
        """Begins the attempt after this one, unless it has begun; returns the number of replaced jobs."""
        return await self._replace(connection, _OF_ATTEMPT, (response, attempt))

    async def replace_all(self, connection: Connection, workers: Iterable[int | None]) -> int:
        """Begins the next attempt of all jobs of these workers, and of unknown workers."""
        return await self._replace(connection, _OF_WORKERS, (QUEUE, list(workers)))

    async def _replace(self, connection: Connection, query: str, given: Sequence[object]) -> int:
        found = await rows(connection, query, given)
        for id, lock, priority, work in found:
            await execute(connection, "SELECT procrastinate_finish_job_v1(%s, 'failed', true)", (id,))
            row = await one(connection, _NEXT_ATTEMPT, (work["response"], work["attempt"]))
            if row is not None:  # else the response has ended
                # Before the jobs that wait for the same lock, because they came after it.
                await self._defer(connection, work | {"attempt": row[0]}, lock, priority + 1)
        return len(found)

    async def _defer(
        self, connection: Connection, work: dict[str, JSONValue], lock: str | None, priority: int
    ) -> None:
        configured = self.app.configure_task(
            TASK, queue=QUEUE, lock=lock, priority=priority, connection=connection
        )
        with _raise_psycopg_errors():
            await configured.defer_async(**work)


@contextmanager
def _raise_psycopg_errors() -> Iterator[None]:
    """Raises the error of psycopg behind procrastinate's, as any other statement of the transaction does."""
    try:
        yield
    except ConnectorException as error:
        if isinstance(error.__cause__, psycopg.Error):
            raise error.__cause__ from None
        raise
