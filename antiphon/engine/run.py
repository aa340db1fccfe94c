"""One running response: a provider puts deltas in, events go to one end, and the result to the store."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from msgspec import Struct

from antiphon.engine import obfuscation
from antiphon.engine.answer_sinks import Checks, finish_stack
from antiphon.engine.askers import Asker
from antiphon.engine.context import Resolved
from antiphon.engine.failures import CLOSED, INTERNAL, SHUTDOWN, Problem, note_failure, problem_of
from antiphon.engine.run_state import RunState
from antiphon.providers.base import TRUNCATED, Sink, Turn, UpstreamError
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.stream import plain_answer
from antiphon.stream.answer_limit import AnswerTooLong
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Failure, Finish
from antiphon.wires.freed_memory import give_back_memory
from antiphon.wires.run_gate import RunStopped
from antiphon.wires.worker_thread import in_worker_thread

log = logging.getLogger(__name__)

_LONG = 1024 * 1024
"""An answer of more bytes takes too long to encode for one turn of the event loop."""

Save = Callable[["Run"], Awaitable[None]]


class End(Protocol):
    """Where the events of a run go: a stream over HTTP, a WebSocket, the log of a background response."""

    def open(self) -> None:
        """There is a response, and its events follow."""

    def put(self, events: list[AnyEvent]) -> bool:
        """Take events. False: they were taken, but put no more before `ready` has returned."""

    async def ready(self) -> None:
        """Wait until more can be put."""

    async def put_long(self, event: AnyEvent) -> None:
        """Take one of the last events of a long answer, and let others have their turn."""

    async def close(self, events: list[AnyEvent]) -> None:
        """Take the last events, unless `put_long` has: the response is stored."""


class Run(Struct, eq=False, weakref=True):
    """Call `deliver(end)` for its events, or `result()` for the whole, once. It is the last sink."""

    state: RunState
    turn: Turn
    composer: Composer
    resolved: Resolved
    asker: Asker
    _save: Save | None = None
    checks: Checks | None = None
    _told_in_stream: frozenset[str] = frozenset()  # codes of errors that begin a response and end it
    encoded: bytes | None = None
    """The finished response in JSON, where it was stored and is wanted whole."""
    _end: End | None = None  # without one, no events are wanted
    _is_broken: bool = False  # the end has raised an exception
    _begun: bool = False  # the upstream has accepted, or the client has been told that there is a response
    _is_open: bool = False  # the end is, and takes events as they are: nothing has to be done to them
    _patience_timer: asyncio.TimerHandle | None = None  # starts the response even if the upstream is silent
    _terminal: list[AnyEvent] = []  # waits until the response is stored
    _closing: list[AnyEvent] = []  # of a long answer: what comes before that, as long as the answer each
    _task: asyncio.Task[Any] | None = None  # the one that awaits the provider now
    _stopping: ErrorPayload | None = None
    _status: int = 0  # of the exception that the response failed with

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def response(self) -> Response:
        return self.composer.response

    @property
    def problem(self) -> Problem | None:
        """Why the response failed, if it did."""
        error = self.composer.error
        return None if error is None else Problem(error, self._status or error.status)

    async def deliver(self, end: End, patience: float = 0.0) -> None:
        """Make the response and put its events; the terminal one comes last, once the response is stored.

        Nothing is put before the upstream accepts, the turn is queued, or `patience` seconds have passed (0:
        without limit). An error before that is raised.
        """
        self._end = end
        if patience:
            self._patience_timer = asyncio.get_running_loop().call_later(patience, self.accepted)
        try:
            await self._answer()
            if self._save is not None:
                await self._store(self._save)
            if self.state.admission is not None:
                await self._settle()
            if self.is_long:
                await self._put_one_by_one(end)
            await end.close(self._terminal)
        except BaseException:
            await self._abandon()
            raise
        finally:
            self._stop_waiting()
            self._end = None
            if not self.state.is_background:
                self.state.end()

    async def result(self, task: asyncio.Task[Any] | None = None) -> Response:
        """The response at its end, without an event on the way.

        `task` is the one that awaits this, where the caller has it at hand: asking for it is a system call.
        """
        self.composer.muted = True
        try:
            await self._answer(task)
            if self._save is not None:
                await self._store(self._save)
            if self.state.admission is not None:
                await self._settle()
        except BaseException:
            await self._abandon()
            raise
        finally:
            self.state.end()
        return self.composer.response

    def stop(self, error: ErrorPayload = SHUTDOWN) -> None:
        """End as failed now; the listener still gets its terminal event."""
        self._stopping = error
        if self._task is not None:
            self._task.cancel()

    # --- the sink -----------------------------------------------------------------------------------------

    def accepted(self) -> None:
        events = self.composer.start()
        if self._end is None:
            self._begun = True
        else:
            self._put_events(self._end, events)

    def queued(self) -> None:
        if self._end is not None:
            self._put_events(self._end, self.composer.start(queued=True))

    def put(self, deltas: list[AnyDelta]) -> bool:
        composer, end = self.composer, self._end
        try:
            if end is None:
                self._begun = True
                if plain_answer.compose(composer, deltas):
                    return True
            events = composer.feed(deltas)
        except Exception:
            log.exception("request %s: the answer could not be composed", self.turn.request_id)
            events = composer.fail(INTERNAL)
        if end is None:
            has_room = True
        elif self._is_open and not composer.finished:
            try:
                return end.put(events) if events else True
            except Exception:
                self._is_broken = True
                raise
        else:
            has_room = self._put_events(end, events)
        if composer.is_too_long:
            raise AnswerTooLong
        return has_room

    async def ready(self) -> None:
        if self._end is not None:
            await self._end.ready()

    # --- within -------------------------------------------------------------------------------------------

    async def _answer(self, task: asyncio.Task[Any] | None = None) -> None:
        """Ask for the answer; whatever goes wrong once the response has begun is the end of it."""
        if self._stopping is not None:
            raise SpecError(self._stopping, 503)
        state, turn = self.state, self.turn
        stack: list[Sink] | None = None
        if self.checks is not None:
            stack = self.checks.build_stack(self, turn, self.composer.snapshot)
        self._task = task or asyncio.current_task()
        try:
            if state.phase == "new":
                if state.services.gate is not None:
                    await state.admit()
                state.open()
            if stack is None:
                await self.asker.ask(turn, self)
            else:
                await self.asker.ask(turn, stack[-1])
                await finish_stack(stack)
            if not self.composer.finished:
                raise UpstreamError(CLOSED, 502)
            if (failure := self.composer.error) is not None:
                state.spent.fail(failure, failure.status)
        except AnswerTooLong as reached:
            self._end_at_limit(reached)
        except RunStopped as stop:
            if self.state.kind == "response":
                self.put([Finish("budget")])
            else:
                self._fail(SpecError(stop.payload, stop.status))
        except BaseException as error:
            self._fail(error)
        finally:
            self._task = None

    def _end_at_limit(self, reached: AnswerTooLong) -> None:
        """End the response as incomplete, unless the composer has: who made it has stopped."""
        if not self.composer.finished:
            self.turn.receipt("gateway", "output", str(reached), TRUNCATED)
            self.put([Finish("length")])

    def _fail(self, error: BaseException) -> None:
        """End the response with this error; raise it if the client has seen nothing yet, or is gone."""
        if isinstance(error, asyncio.CancelledError) and self._stopping is not None:
            # It was `stop` that cancelled this task, and the task is needed to say so.
            cast(asyncio.Task[object], asyncio.current_task()).uncancel()
            error = SpecError(self._stopping, 503)
        if self.composer.is_too_long and isinstance(error, Exception) and not self._is_broken:
            return  # it has ended, and whoever made it was stopped
        note_failure(self.state.spent, error)
        if self._is_broken or not isinstance(error, Exception) or not (self._begun or self._tells(error)):
            raise error
        problem = problem_of(error, self.turn.request_id)
        self._status = problem.status
        self.put([Failure(problem.payload)])

    def _tells(self, error: Exception) -> bool:
        """Is this error told as events, though the client has seen nothing yet?"""
        payload = error.payload if isinstance(error, SpecError | UpstreamError) else None
        return self._end is not None and payload is not None and payload.code in self._told_in_stream

    def _put_events(self, end: End, events: list[AnyEvent]) -> bool:
        try:
            if not self._begun:
                self._begun = True
                self._stop_waiting()
                end.open()
                self._is_open = self.checks is None or not self.checks.obfuscates
            if events and self.composer.finished:
                self._terminal = [events.pop()]
                if self.is_long:
                    self._closing, events = events, []
            if self.checks is not None and self.checks.obfuscates:
                obfuscation.obfuscate(events)
            return not events or end.put(events)
        except Exception:
            self._is_broken = True
            raise

    async def _put_one_by_one(self, end: End) -> None:
        """Let others have their turn between events that take long to encode."""
        if self.checks is not None and self.checks.obfuscates:
            obfuscation.obfuscate(self._closing)
        for event in [*self._closing, *self._terminal]:
            await end.put_long(event)
        self._terminal = []

    @property
    def answer_size(self) -> int:
        """How many bytes the answer has."""
        return self.turn.answer_limit - self.composer.room.bytes

    @property
    def is_long(self) -> bool:
        return self.turn.answer_limit - self.composer.room.bytes > _LONG

    def _stop_waiting(self) -> None:
        if self._patience_timer is not None:
            self._patience_timer.cancel()
            self._patience_timer = None

    async def _abandon(self) -> None:
        """The client is gone; the output so far is stored."""
        if self._begun and not self.composer.finished:
            self.composer.cancel()
            if self._save is not None:
                await asyncio.shield(self._store(self._save))
        if self.state.admission is not None:
            await asyncio.shield(self._settle())

    async def _settle(self) -> None:
        """Store what the gate wants to be stored; a job does so in the write that ends its response."""
        if not self.state.is_background:
            await self.state.settle_alone()

    async def _store(self, save: Save) -> None:
        """A response that cannot be stored fails after all."""
        if self.is_long:
            self.turn.is_large = True  # so that it is encoded apart from the event loop
            await in_worker_thread(give_back_memory)  # its pieces are joined, and many
        try:
            await save(self)
            if self.state.settlements is not None:
                self.state.is_settled = True
        except Exception as error:
            self.encoded = None
            problem = problem_of(error, self.turn.request_id)
            self._status = problem.status
            self.state.spent.fail(problem.payload, problem.status)
            self._terminal = self.composer.overrule(problem.payload)
