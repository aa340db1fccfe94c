"""Background responses: they run without their caller, each a task with a stored row.

One attempt at a time writes a row: the store refuses the writes of a process that has lost it, and that
stops. The next attempt goes on where the log ends.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from antiphon.engine.background.following import Logs
from antiphon.engine.background.job import BackgroundJob, Ending, Logged, Pace
from antiphon.engine.background.job_record import UnreadableJob
from antiphon.engine.background.owned_rows import OwnedRows
from antiphon.engine.background.queued_work import QueuedWork
from antiphon.engine.background.takeover import (
    RESTARTED,
    UNREADABLE_JOB,
    Restored,
    final_change,
    rejoin_run,
    restore_run,
)
from antiphon.engine.engine import Engine
from antiphon.engine.failures import SHUTDOWN, note_failure, problem_of
from antiphon.engine.run_state import RunState
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.request import Request
from antiphon.store.base import RUNNING, LoggedEvent, StoreConflict, StoredResponse, StoreError
from antiphon.store.store import OwnedRowStore
from antiphon.stream.composer import Composer
from antiphon.wires.slots import work_for

log = logging.getLogger(__name__)

PACE = Pace()
T = TypeVar("T")


class Background:
    """All background work of this process. `open` it before the first `start`, and `close` it at the end."""

    def __init__(
        self, engine: Engine, pace: Pace | None = None, report: Callable[[BackgroundJob], None] | None = None
    ) -> None:
        """`report` is called with each job that has ended."""
        self.stopping = False
        self._engine = engine
        self._store = engine.store
        self._pace = pace or PACE
        self._report = report
        self._jobs: dict[str, BackgroundJob] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._logs = Logs(self._store, lambda id: self.stopping and self._working(id) is None)
        self._is_retired = False
        self._source = self._find_source()

    def _find_source(self) -> OwnedRows | QueuedWork:
        store, queue = self._store, self._store.work_queue
        if queue is not None:
            return QueuedWork(store, queue, self._engine.config.background.work, self)
        assert isinstance(store, OwnedRowStore)
        return OwnedRows(store, self._engine.clock, self._pace, self)

    @property
    def is_busy(self) -> bool:
        """Is anything worked on here?"""
        return bool(self._jobs)

    @property
    def is_leaving(self) -> bool:
        """Is what is worked on here left to others?"""
        return self.stopping or self._is_retired

    async def open(self) -> None:
        await self._source.open()

    async def start(self, request: Request, state: RunState) -> BackgroundJob:
        """Begin the work, here or elsewhere; when this returns, the response is stored as `queued`.

        A caller that is cancelled while the response is saved does not stop that: what is stored has begun.
        """
        job = await self.admit_job(request, state)
        await asyncio.shield(self._spawn(self._save_and_begin(job)))
        return job

    async def admit_job(self, request: Request, state: RunState) -> BackgroundJob:
        """Check the request and pass the gate; nothing is stored yet."""
        if not request.store:
            message = "a background response must be stored to be found again; leave out `store: false`"
            raise SpecError(invalid_param("background", message).with_code("background_needs_store"))
        if self.stopping:
            raise SpecError(SHUTDOWN, 503)
        run = await self._engine.start(request, state)
        job = BackgroundJob(self._engine, run, self._source.owner, self._pace)
        await state.begin()
        return job

    async def _save_and_begin(self, job: BackgroundJob) -> None:
        try:
            await job.save()
        except Exception as error:
            if not await self._is_saved(job, error):
                raise
            log.warning("background response %s was stored, although the store said: %s", job.id, error)
        except BaseException:
            job.state.leave()  # if it is stored, the process that takes it over ends and settles it
            raise
        job.keep_claim()
        if self._source.is_shared:
            job.state.leave()
        else:
            self._spawn_job(job)

    async def _is_saved(self, job: BackgroundJob, error: Exception) -> bool:
        """Has the store a response although saving it raised this? If not, the run has ended."""
        try:
            found = await self._store.get(job.context.tenant, job.id)
        except StoreError:
            self._spawn(self._end_unsaved_later(job, error))
            return False
        if found is None:
            await self._end_unsaved(job, error)
        return found is not None

    async def _end_unsaved(self, job: BackgroundJob, error: Exception) -> None:
        """End a run whose response is not stored; its settlement is stored alone."""
        note_failure(job.state.spent, error)
        await job.state.settle_alone()
        job.state.end()

    async def _end_unsaved_later(self, job: BackgroundJob, error: Exception) -> None:
        """End a run that was refused to its client, as soon as the store tells if it has the response."""
        while not self.stopping:
            with suppress(StoreError):
                found = await self._store.get(job.context.tenant, job.id)
                if found is None:
                    await self._end_unsaved(job, error)
                elif not self._source.is_shared:  # else the queue has it worked on
                    await self._end(found, problem_of(error, job.context.request_id).payload)
                break
            await asyncio.sleep(self._pace.retry)
        job.state.leave()

    async def resume(self, response: StoredResponse) -> BackgroundJob | None:
        """Work on a stored response, whatever its log holds, in the attempt that `response` tells.

        The row must have the owner of this process. The work has begun when this returns, and its job tells
        when it has `ended`. None: the response cannot be gone on with, or must not, and was ended as failed.
        """
        found: Restored | None = None
        refusal = RESTARTED
        try:
            if response.attempt == 0 or self._engine.config.background.on_death == "continue":
                found = await restore_run(self._engine, response)
        except UnreadableJob as error:
            log.error("background response %s cannot continue: %s", response.id, error)
            refusal = UNREADABLE_JOB
        except SpecError as error:
            refusal = error.payload
        if found is None:
            await self._end(response, refusal)
            return None
        logged = Logged(response.attempt, found.last, found.record)
        job = BackgroundJob(self._engine, found.run, self._source.owner, self._pace, logged, found.events)
        if response.cancel_requested:
            job.stop(Composer.cancel)
        if response.attempt:
            log.warning("background response %s continues here, attempt %d", job.id, response.attempt + 1)
        self._spawn_job(job)
        return job

    async def cancel(self, tenant: str, id: str) -> StoredResponse | None:
        """Ask for the end, wait a while for it, and give the response as it is then."""
        with self._store.changes.watch(id) as watch:
            found = await self._store.request_cancel(tenant, id)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.patience):
                    while found is not None and found.status in RUNNING:
                        if (job := self._working(id)) is not None:
                            job.stop(Composer.cancel)
                            await job.ended.wait()
                        elif found.last_event is not None or not await self._cancel_unbegun(found):
                            await watch.wait()
                        watch.mark_read()
                        # Asked again: who has just begun to work on it may not have heard.
                        found = await self._store.request_cancel(tenant, id)
        return found

    async def cancel_for_deletion(self, tenant: str, id: str) -> None:
        """Cancel a response, also where the process that works on it does not hear of it in time."""
        found = await self.cancel(tenant, id)
        if found is not None and found.status in RUNNING:
            with suppress(StoreConflict):
                await self._end_from_log(found, Composer.cancel, found.owner)

    async def _cancel_unbegun(self, response: StoredResponse) -> bool:
        """End a response that no process has begun to work on. False: one has."""
        try:
            return await self._end_from_log(response, Composer.cancel)
        except StoreConflict:
            return False

    async def events(self, tenant: str, id: str, after: int) -> list[LoggedEvent] | None:
        """The next logged events, waited for; none when there are no more, None without such a response."""
        return await self._logs.events(tenant, id, after)

    async def wait_until_idle(self) -> None:
        """Wait until nothing runs any more."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def retire(self) -> None:
        """Take no further work, and leave what runs to those who can go on with it at once."""
        if self._source.is_shared:
            self._is_retired = True
            await self._source.stop()
            for job in self._jobs.values():
                self._dismiss(job)

    async def close(self) -> None:
        """Leave what still runs to another process, or end it as failed, as the configuration says.

        What cannot be written now is taken over once this process has been silent for long enough.
        """
        self.stopping = True
        self._store.changes.notify_all()
        await self._source.stop()
        for job in self._jobs.values():
            self._dismiss(job)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.patience):
                await self.wait_until_idle()
        if late := set(self._tasks):
            for task in late:
                task.cancel()
            await asyncio.wait(late)
        await self._source.close()

    def stop_work(self, id: str) -> None:
        """Cancel a response, if it is made here."""
        if (job := self._working(id)) is not None:
            job.stop(Composer.cancel)

    def resume_in_task(self, orphan: StoredResponse) -> None:
        """Go on with a response whose process is gone, in a task of its own."""
        self._spawn(self.resume_with_retries(orphan))

    async def resume_with_retries(self, orphan: StoredResponse) -> BackgroundJob | None:
        """`resume` as soon as the store lets us. None: the response has ended, or this process stops."""
        work_for(orphan.tenant)
        while not self.is_leaving:
            try:
                return await self.resume(orphan)
            except StoreError as error:
                log.warning("background response %s could not be taken over yet: %s", orphan.id, error)
                await asyncio.sleep(self._pace.retry)
            except Exception:
                log.exception("background response %s could not be taken over", orphan.id)
                await self._end_at_last(orphan.tenant, orphan.id, orphan.attempt)
                break
        return None

    async def _end(self, response: StoredResponse, error: ErrorPayload) -> None:
        """End a response as failed, from its log alone."""
        await self._end_from_log(response, lambda composer: composer.fail(error))
        log.warning("background response %s ended as failed: %s", response.id, error.message)

    async def _end_from_log(self, response: StoredResponse, ending: Ending, owner: str | None = None) -> bool:
        """End a response, and its run, from what is stored. False: it has another owner, or has ended."""
        run = await rejoin_run(self._engine, response)
        try:
            now, owner = int(self._engine.clock()), owner or self._source.owner
            change = await final_change(self._store, response, owner, now, ending)
            run.spent.outcome = "failed" if change.status == "failed" else "cancelled"
            is_ended = await self._store.update(replace(change, settlements=run.settle()))
            if is_ended:
                run.end()
        finally:
            run.leave()  # unless it has ended here
        return is_ended

    async def _end_at_last(self, tenant: str, id: str, attempt: int) -> None:
        """End a response as failed, as soon as the store lets us, if it still runs in this attempt."""
        while not self.stopping:
            with suppress(StoreError):
                found = await self._store.get(tenant, id)
                if found is not None and (found.owner, found.attempt) == (self._source.owner, attempt):
                    await self._end(found, RESTARTED)
                return
            await asyncio.sleep(self._pace.retry)

    def _spawn_job(self, job: BackgroundJob) -> None:
        self._jobs[job.id] = job
        job.task = self._spawn(self._run_job(job))
        self._source.note_work()

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _dismiss(self, job: BackgroundJob) -> None:
        """The process stops, and this job with it."""
        if self._engine.config.background.on_death == "continue":
            job.leave()
        else:
            job.stop(lambda composer: composer.fail(SHUTDOWN))

    def _working(self, id: str) -> BackgroundJob | None:
        """The job of a response that is made here and has not ended."""
        job = self._jobs.get(id)
        return None if job is None or job.ended.is_set() else job

    async def _run_job(self, job: BackgroundJob) -> None:
        if self.is_leaving:
            self._dismiss(job)
        try:
            await job.work()
            if self._report is not None:
                self._report(job)
            if job.is_lost and not self._source.is_shared:  # else the queue gives it to the next attempt
                await self._end_at_last(job.context.tenant, job.id, job.attempt)
        except Exception:
            log.exception("background response %s was dropped", job.id)
            await self._end_at_last(job.context.tenant, job.id, job.attempt)
        finally:
            if self._jobs.get(job.id) is job:
                del self._jobs[job.id]
            self._store.changes.notify(job.id)
