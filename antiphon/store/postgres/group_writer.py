"""Writes new responses and events of many callers in one transaction.

While PostgreSQL carries out one group, the writer collects the next. When a group fails, it tries the jobs
again one by one, so that only a bad write fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.errors import UniqueViolation

from antiphon.store.base import ItemPosition, StoreConflict, StoreUnavailable
from antiphon.store.postgres import event_log, responses
from antiphon.store.postgres.backend import carry_out
from antiphon.store.postgres.connection import Connection, one
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.event_log import EventBatch
from antiphon.store.postgres.responses import PostgresPlan
from antiphon.store.records import settlements

MOST = 128
"""The number of jobs in one transaction."""
MOST_BYTES = 8 * 1024 * 1024


@dataclass(slots=True, eq=False)
class GroupedWrite:
    """A new response, whose result is its place, or a batch of events, whose result is whether it was
    written.
    """

    future: asyncio.Future[Any]
    what: PostgresPlan | EventBatch
    result: ItemPosition | bool | None = None
    error: Exception | None = None

    def resolve(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class GroupWriter:
    def __init__(self, database: Database) -> None:
        self.groups = 0
        self._database = database
        self._waiting: list[GroupedWrite] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, what: PostgresPlan | EventBatch) -> Any:
        """Returns once the write is committed; it is written even if the caller is cancelled."""
        job = GroupedWrite(asyncio.get_running_loop().create_future(), what)
        self._waiting.append(job)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await job.future

    async def close(self) -> None:
        """Waits for the writes under way."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._waiting:
                group, behind = self._next_group(), len(self._waiting)
                await self._carry_out(group)
                if any(isinstance(job.error, StoreUnavailable) for job in group):
                    self._give_up(behind)
        finally:
            self._task = None

    def _give_up(self, count: int) -> None:
        """Fails the jobs behind a group that failed: they have waited as long, and PostgreSQL is away."""
        late, self._waiting = self._waiting[:count], self._waiting[count:]
        for job in late:
            job.error = self._database.unavailable()
            job.resolve()

    def _next_group(self) -> list[GroupedWrite]:
        group: list[GroupedWrite] = []
        size = 0
        while self._waiting and len(group) < MOST and size < MOST_BYTES:
            group.append(self._waiting.pop(0))
            size += group[-1].what.size
        return group

    async def _carry_out(self, group: Sequence[GroupedWrite]) -> None:
        self.groups += 1

        async def write(db: Connection) -> bool:
            await write_group(db, group)
            return True

        async def verify(db: Connection) -> bool | None:
            # The group is one transaction, so that one of its jobs stands for the others.
            written = [job for job in group if job.error is None and job.result]
            return True if not written or await is_written(db, written[0].what) else None

        try:
            await self._database.write(write, verify, pipelined=True)
        except Exception as error:
            if len(group) > 1 and not isinstance(error, StoreUnavailable):
                for job in group:
                    await self._carry_out([job])
                return
            for job in group:
                job.error = _explain(error, job.what)
        for job in group:
            job.resolve()


async def write_group(db: Connection, group: Sequence[GroupedWrite]) -> None:
    """Writes jobs, and notes the result of each."""
    saves = [(job, job.what) for job in group if isinstance(job.what, PostgresPlan)]
    logs = [(job, job.what) for job in group if isinstance(job.what, EventBatch)]
    # Both statements are sent before the answer to either is read.
    saving = await responses.begin_insert(db, [plan for _, plan in saves])
    logging = await event_log.begin_log(db, [batch for _, batch in logs])
    places = await responses.read_places(saving)
    for n, (job, plan) in enumerate(saves):
        job.error, job.result = None, places.get(n)
        if job.result is None:
            try:
                job.result = await responses.insert_branch(db, plan)
            except StoreConflict as conflict:
                job.error = conflict
    mine = await event_log.read_logged(logging)
    for n, (job, _) in enumerate(logs):
        job.error, job.result = None, n in mine
    settled = [row for job, plan in saves if job.error is None for row in plan.response.settlements]
    if settled:
        await carry_out(db, settlements.add(settled))


async def is_written(db: Connection, what: PostgresPlan | EventBatch) -> bool:
    if isinstance(what, PostgresPlan):
        return await responses.is_stored(db, what.response.tenant, what.response.id)
    found = await one(db, event_log.IS_LOGGED, (what.first, what.last, what.data, what.id))
    return found is not None


def _explain(error: Exception, what: PostgresPlan | EventBatch) -> Exception:
    if isinstance(what, EventBatch) and isinstance(error.__cause__, UniqueViolation):
        return StoreConflict(f"An event numbered {what.first} is already logged.")
    return error
