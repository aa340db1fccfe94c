"""One running background response: writes the events of its run to the log, many in one write.

No client gets an event before it is logged. So a client that has event N can go on from N anywhere, also
after this process has died. The log has each event as it is spelled for the caller who made the response.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from msgspec import Struct

from antiphon.engine.background.job_record import JobRecord
from antiphon.engine.engine import Engine
from antiphon.engine.failures import Problem, problem_of
from antiphon.engine.run import Run
from antiphon.engine.saving import encode_all, stored
from antiphon.spec.codec import encode
from antiphon.spec.events import AnyEvent, LifecycleEvent
from antiphon.spec.response import Receipt, Response
from antiphon.store.base import (
    Append,
    Change,
    NewResponse,
    Settlement,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from antiphon.stream.composer import Composer
from antiphon.stream.framing import single_line
from antiphon.wires.worker_thread import in_worker_thread

log = logging.getLogger(__name__)

Ending = Callable[[Composer], list[AnyEvent]]

_MOST_PENDING = 10_000
"""With more events than this to be written, the provider has to wait."""
_MOST_PENDING_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen, in seconds."""

    flush: float = 0.1
    """An event waits no longer than this before it is logged."""
    beat: float = 0.25
    """The heartbeat of an owner that has work."""
    sweep: float = 2.5
    """How often the work of dead owners is looked for."""
    stale: float = 10.0
    """An owner silent for longer is dead. A locked database can hold up a heartbeat for 5 seconds."""
    hung: float = 300.0
    """An event loop that has not come round for longer is dead too, although its process lives."""
    retry: float = 1.0
    """The next attempt after the store has refused a write."""
    patience: float = 5.0
    """How long a cancellation or a shutdown waits for what it has ended."""


class Lost(Exception):
    """The row is no longer ours: it was deleted, or another owner took this one for dead.

    Or its log has events that are not known here, so that nothing can be added to it any more.
    """


class Logged(Struct):
    """What a job finds in the log when it begins: nothing, unless it goes on with another's."""

    attempt: int = 0
    last: int = -1
    """The number of the last event."""
    record: JobRecord | None = None


class BackgroundJob:
    """`save`, then `work` to its end; anyone may `stop` it. It is the end that its run puts events into."""

    def __init__(
        self,
        engine: Engine,
        run: Run,
        owner: str,
        pace: Pace,
        logged: Logged | None = None,
        events: Sequence[AnyEvent] = (),
    ) -> None:
        """`logged` is what another process left of it, and `events` are the first to be written here."""
        logged = logged or Logged()
        self.id = run.response.id
        self.attempt = logged.attempt
        self.ended = asyncio.Event()
        self.is_lost = False
        """Was the work dropped? Whoever takes the response goes on where its log ends."""
        self.task: asyncio.Task[None] | None = None
        """Carries it out, and sees to a response whose work broke off: it is done after the job has ended."""
        self.began = time.perf_counter()
        self._engine = engine
        self._run = run
        self.state = run.state
        self.context = context = run.state.context
        self._owner = owner
        self._pace = pace
        self._dialect = context.dialect.for_response(run.response)
        self._loop = asyncio.get_running_loop()
        self._flushed = asyncio.Event()  # set for a moment after each write, for those who wait for one
        self._wake_writer = asyncio.Event()  # there is something to write, or it has become urgent
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._last = logged.last  # the number of the newest event, logged or not
        self._unwritten_state: Response | None = None  # what the row shall tell from the next write on
        self._over = False  # the terminal event is known; it may still have to be written
        self._due = 0.0
        self._producing: asyncio.Task[None] | None = None
        self._record = logged.record or JobRecord.of(run.turn.request, context)
        self._progress_changes = 0  # of hosted tools; and how many of them are written
        self._progress_written = 0
        self._leaving = False  # another process is to go on with it
        self._record.hosted = run.asker.keep_progress(self)
        self._enqueue(events or run.composer.start(queued=True))
        self.created = run.composer.snapshot()

    @property
    def problem(self) -> Problem | None:
        """Why the response failed, if it did."""
        return self._run.problem

    @property
    def receipts(self) -> list[Receipt]:
        """The receipts that are known by now."""
        return self._run.turn.receipts

    async def save(self) -> None:
        """The row comes first: what is not stored does not begin."""
        new = await in_worker_thread(self._new_row) if self._run.turn.is_large else self._new_row()
        await self._engine.store.save(new)

    def keep_claim(self) -> None:
        """The response is stored, so a request with the same idempotency key gets it."""
        if self.context.claim is not None:
            self.context.claim.is_kept = True

    def _new_row(self) -> NewResponse:
        response, resolved = self.created, self._run.resolved
        claim = self.context.claim
        return NewResponse(
            id=self.id,
            tenant=self.context.tenant,
            status=response.status,
            model=response.model,
            created_at=response.created_at,
            body=encode(response),
            input=encode_all(resolved.input, self._run.turn.is_large),
            names=[item.id for item in resolved.input if item.id],
            previous=resolved.previous,
            expires_at=self._engine.expires_at(response.created_at),
            background=True,
            owner=self._owner,
            dialect=self.context.dialect.name,
            chat=self._engine.joining(self._run.turn.request),
            claim=None if claim is None else claim.for_response(self._engine.clock()),
            job=self._seal_record(),
            conversation=self._run.turn.request.conversation,
        )

    def _seal_record(self) -> bytes:
        self._record.spent = self.state.spent
        return self._record.seal(self._engine.seal, self.context.tenant, self.id)

    def stop(self, ending: Ending) -> None:
        """End now, by this call on the composer; the first call decides."""
        composer = self._run.composer
        if not composer.finished:
            # The composer ends first, so that the cancelled run finds nothing left to say.
            self._enqueue(ending(composer))
            if self._producing is not None:
                self._producing.cancel()

    def leave(self) -> None:
        """Write what there is and stop: another process goes on with the response."""
        if self._run.composer.finished:
            return  # the end is about to be written
        self._leaving = True
        self.state.leave()
        self._due = self._loop.time()
        self._record.handovers += 1
        self.progress_changed()
        if self._producing is not None:
            self._producing.cancel()

    async def work(self) -> None:
        if not self._over and not self._leaving:
            self._producing = asyncio.create_task(self._produce())
            self._producing.add_done_callback(lambda _: self._wake_writer.set())
        try:
            while self._pending or not self._over:
                await self._until_due()
                is_last_write = self._leaving  # else this may not write all that there is
                if self._producing is not None and (self._leaving or self._is_to_be_settled()):
                    await asyncio.wait({self._producing})  # what its last attempt took is written, too
                if self._has_unwritten():
                    await self._flush()
                if is_last_write and not self._over:
                    break
        except Lost:
            self.is_lost = True
            log.info(
                "another process has taken background response %s over; its work here is dropped", self.id
            )
        finally:
            self.ended.set()
            self._wake_waiting()
            if self._producing is not None:
                self._producing.cancel()
                await asyncio.wait({self._producing})
        if self._over and not self.is_lost:
            self.state.end()
        else:
            self.state.leave()

    def _is_to_be_settled(self) -> bool:
        """Does the gate want to know what the run took, before its end is written?"""
        return self._over and self.state.admission is not None

    # --- for the run --------------------------------------------------------------------------------------

    def open(self) -> None:
        """`response.created` and `response.queued` are logged already."""

    def put(self, events: list[AnyEvent]) -> bool:
        self._enqueue(events)
        return not self._has_many_pending()

    async def ready(self) -> None:
        # What is pending at the end is written once all of the end is there.
        while self._has_many_pending() and not (self.ended.is_set() or self._run.composer.finished):
            await self._flushed.wait()

    def _has_many_pending(self) -> bool:
        return len(self._pending) >= _MOST_PENDING or self._pending_bytes >= _MOST_PENDING_BYTES

    async def put_long(self, event: AnyEvent) -> None:
        if not self.put([event]):
            await self.ready()
        await asyncio.sleep(0)

    async def close(self, events: list[AnyEvent]) -> None:
        self._enqueue(events)

    # --- for hosted tools ---------------------------------------------------------------------------------

    def progress_changed(self) -> None:
        self._progress_changes += 1
        self._wake_writer.set()

    async def commit(self) -> None:
        self._due = self._loop.time()
        self.progress_changed()
        mark = self._progress_changes
        while self._progress_written < mark:  # for ever in a job that is lost: its run is cancelled
            await self._flushed.wait()

    # --- within -------------------------------------------------------------------------------------------

    def _has_unwritten(self) -> bool:
        """Is there something to write? The end is written at once, with all that belongs to it."""
        is_ending = self._run.composer.finished and not self._over and not self._leaving
        return not is_ending and (bool(self._pending) or self._progress_changes > self._progress_written)

    async def _until_due(self) -> None:
        """Wait until there is something to write, and until it is time to write it."""
        while not self._has_unwritten() or self._due > self._loop.time():
            self._wake_writer.clear()
            if self._leaving and not self._has_unwritten():
                return
            if self._producing is not None and self._producing.done() and not self._over:
                if self._leaving:
                    return
                raise RuntimeError("the run ended without its last event") from self._producing.exception()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due if self._has_unwritten() else None):
                    await self._wake_writer.wait()

    async def _produce(self) -> None:
        """Let the run make the response. One that is refused is a failed response, for its caller is gone."""
        run = self._run
        try:
            await run.deliver(self, self._engine.config.server.created_after)
        except Exception as error:
            problem = problem_of(error, run.turn.request_id)
            self._enqueue(run.composer.fail(problem.payload))

    def _enqueue(self, events: Sequence[AnyEvent]) -> None:
        if not self._pending:
            self._wake_writer.set()
        for event in events:
            line = single_line(self._dialect.encode(event))
            self._pending.append(line)
            self._pending_bytes += len(line)
            self._last = event.sequence_number
            if isinstance(event, LifecycleEvent) and event.response.status != "queued":
                self._unwritten_state = event.response
            if event.is_terminal:
                self._over = True
                self._due = self._loop.time()
                self._wake_writer.set()

    async def _flush(self) -> None:
        """One write: the events, and the row with them when its state has changed."""
        events, state = self._pending, self._unwritten_state
        last, changes = self._last, self._progress_changes
        # Empty again for what comes while this is written.
        self._pending, self._pending_bytes, self._unwritten_state = [], 0, None
        first = last - len(events) + 1
        store = self._engine.store
        job = self._seal_record() if changes > self._progress_written else None
        try:
            if state is None:
                ours = await store.append_events(
                    self.id, self._owner, first, events, attempt=self.attempt, job=job
                )
            else:
                # A gate is called on the event loop alone, so before a large change is made in a thread.
                is_large, given = self._run.turn.is_large, (state, first, events, job, self._settle(state))
                change = (
                    await in_worker_thread(self._row_change, *given) if is_large else self._row_change(*given)
                )
                ours = await store.update(change)
        except StoreConflict as error:
            log.error("background response %s can no longer be written here: %s", self.id, error)
            raise Lost from error
        except StoreError as error:
            # A store that is away says so itself, once for all who wait for it.
            level = logging.INFO if isinstance(error, StoreUnavailable) else logging.ERROR
            log.log(level, "background response %s could not be written, trying again: %s", self.id, error)
            self._write_later(events, state)
            return
        if not ours:
            raise Lost
        self._due = 0.0 if self._over else self._loop.time() + self._pace.flush
        self._progress_written = changes
        self._wake_waiting()

    def _write_later(self, events: list[bytes], state: Response | None) -> None:
        self._pending = events + self._pending
        self._pending_bytes += sum(map(len, events))
        self._unwritten_state = self._unwritten_state or state
        self._due = self._loop.time() + self._pace.retry

    def _settle(self, response: Response) -> Sequence[Settlement]:
        """What the gate wants to be stored with this state of the response."""
        if (problem := self.problem) is not None:
            self.state.spent.fail(problem.payload, problem.status)
        return self.state.settle() if response.is_terminal else ()

    def _row_change(
        self,
        response: Response,
        first: int,
        events: list[bytes],
        job: bytes | None,
        settlements: Sequence[Settlement],
    ) -> Change:
        output = append = None
        if response.is_terminal:
            output = stored(response.output)
            conversation = self._run.turn.request.conversation
            if conversation:
                items = [*stored(self._run.resolved.input, self._run.turn.is_large), *output]
                append = Append(conversation, items, self._engine.expires_at(response.created_at))
        return Change(
            id=self.id,
            owner=self._owner,
            status=response.status,
            body=encode(response),
            output=output,
            first_event=first,
            events=events,
            append=append,
            at=self._engine.clock(),
            attempt=self.attempt,
            job=job,
            settlements=settlements,
        )

    def _wake_waiting(self) -> None:
        """Wake everyone who waits now; who comes later looks first whether there is something to wait for."""
        self._flushed.set()
        self._flushed.clear()
