"""Chooses the job that a worker takes next: tenants take turns, however many jobs each of them has queued.

procrastinate takes the oldest job, so that a tenant with sixty jobs makes all others wait. Here the tenant
with the fewest running jobs on all machines comes first; among equals, the one that this process has served
longest ago. The rest is as in procrastinate: the priority, the order within a lock, and one worker for each
job.
"""

from collections import OrderedDict
from typing import Any, Final, LiteralString

from procrastinate.connector import BaseConnector

INDEX: Final = """
    CREATE INDEX procrastinate_jobs_tenant ON procrastinate_jobs ((args ->> 'tenant'), priority DESC, id)
    WHERE status = 'todo'
"""
"""The index that finds the waiting tenants, however many jobs they have."""

_MOST = 200
"""The number of tenants that a process remembers."""
_FEW, _ALL = 8, 100_000
"""The number of tenants in a search: the first few, and all of them if the jobs of those must wait."""

# Each tenant offers a few jobs, so that workers that search at the same moment find one each.
_FETCH: LiteralString = """
    WITH RECURSIVE waiting (tenant) AS (
        (SELECT args ->> 'tenant' FROM procrastinate_jobs WHERE status = 'todo'
         ORDER BY args ->> 'tenant' LIMIT 1)
        UNION ALL
        SELECT (SELECT args ->> 'tenant' FROM procrastinate_jobs
                WHERE status = 'todo' AND args ->> 'tenant' > waiting.tenant
                ORDER BY args ->> 'tenant' LIMIT 1)
        FROM waiting WHERE waiting.tenant IS NOT NULL
    ), running AS (
        SELECT args ->> 'tenant' AS tenant, count(*) AS jobs
        FROM procrastinate_jobs WHERE status = 'doing' GROUP BY 1
    ), first AS MATERIALIZED (
        SELECT waiting.tenant, coalesce(running.jobs, 0) AS jobs,
            coalesce(array_position(%(served)s::text[], waiting.tenant), 0) AS turn
        FROM waiting LEFT JOIN running ON running.tenant = waiting.tenant
        WHERE waiting.tenant IS NOT NULL ORDER BY jobs, turn LIMIT %(tenants)s
    ), offered AS (
        SELECT job.id, first.jobs, first.turn
        FROM first CROSS JOIN LATERAL (
            SELECT id FROM procrastinate_jobs AS one
            WHERE status = 'todo' AND args ->> 'tenant' = first.tenant
                AND queue_name = ANY(%(queues)s::varchar[])
                AND (scheduled_at IS NULL OR scheduled_at <= now())
                AND (lock IS NULL OR NOT EXISTS (
                    SELECT FROM procrastinate_jobs AS other
                    WHERE other.lock = one.lock AND (other.status = 'doing' OR (other.status = 'todo' AND (
                        other.priority > one.priority OR (other.priority = one.priority AND other.id < one.id)
                    )))
                ))
            ORDER BY priority DESC, id LIMIT 4
        ) AS job
    ), taken AS (
        SELECT job.id FROM procrastinate_jobs AS job JOIN offered ON offered.id = job.id
        WHERE job.status = 'todo'
        ORDER BY offered.jobs, offered.turn, job.priority DESC, job.id LIMIT 1
        FOR UPDATE OF job SKIP LOCKED
    )
    UPDATE procrastinate_jobs AS job SET status = 'doing', worker_id = %(worker_id)s
    FROM taken WHERE job.id = taken.id
    RETURNING job.id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name,
        attempts, worker_id
"""


class JobTurns:
    """Takes jobs, and remembers the tenants that it has served."""

    def __init__(self) -> None:
        self._served: OrderedDict[str, None] = OrderedDict()  # the one served longest ago first

    async def take_job(
        self, connector: BaseConnector, queues: list[str], worker_id: int
    ) -> dict[str, Any] | None:
        """Takes a job for a worker and returns its row, or None if there is none."""
        for tenants in (_FEW, _ALL):
            found = await connector.execute_query_all_async(
                _FETCH, queues=queues, worker_id=worker_id, served=list(self._served), tenants=tenants
            )
            for row in found:
                self._remember(row["args"]["tenant"])
                return row
        return None

    def _remember(self, tenant: str) -> None:
        self._served[tenant] = None
        self._served.move_to_end(tenant)
        if len(self._served) > _MOST:
            self._served.popitem(last=False)
