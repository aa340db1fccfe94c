"""One response being made: deltas from a provider, events to whoever listens, the result to the store."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

from antiphon.engine import obfuscation, schema_check
from antiphon.engine.context import Resolved
from antiphon.engine.policy import POLICY, Policy, restricts
from antiphon.engine.schema_pool import SchemaPool
from antiphon.engine.store_errors import store_error
from antiphon.providers.base import UNMET, Provider, Turn, UpstreamError
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.store.base import StoreError
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Failure, Finish

log = logging.getLogger(__name__)

CLOSED = ErrorPayload(
    "server_error", "the upstream closed the connection in the middle of its answer", code="upstream_closed"
)
SHUTDOWN = ErrorPayload(
    "server_error", "the gateway is shutting down; send the request again", code="server_shutdown"
)
INTERNAL = ErrorPayload(
    "server_error", "the gateway failed; its log has the details under this request id", code="internal_error"
)

Save = Callable[["Run"], Awaitable[None]]
Tell = Callable[[list[AnyEvent]], bool]
"""Tells events at once, or says no."""


def _never(events: list[AnyEvent]) -> bool:
    return False


class Rules(Struct):
    """What has to be looked at on the way from the provider to the client."""

    policy: Policy | None
    schemas: SchemaPool | None
    """Where the answer is held to its schema, if that has to be done."""
    obfuscates: bool


def rules_of(provider: Provider, turn: Turn, schemas: SchemaPool) -> Rules | None:
    request = turn.request
    policy = Policy(turn) if restricts(request) else None
    checks_schema = schema_check.needs_check(request) and not provider.capabilities.enforces_schema
    obfuscates = obfuscation.is_wanted(request)
    if not (policy or checks_schema or obfuscates):
        return None
    return Rules(policy, schemas if checks_schema else None, obfuscates)


class Run(Struct, eq=False, weakref=True):
    """`begin`, then iterate `events` once; or just await `result`. The response is saved before it ends."""

    turn: Turn
    composer: Composer
    resolved: Resolved
    _batches: AsyncGenerator[list[AnyDelta], None]
    _save: Save | None = None
    _rules: Rules | None = None
    encoded: bytes | None = None
    """The finished response in JSON, where it had to be encoded for the store."""
    _first: asyncio.Task[list[AnyDelta]] | None = None
    _queued: asyncio.Future[None] | None = None  # done once the turn has to wait
    _committed: bool = False  # the client has been told that there is a response
    _waiting: asyncio.Task[Any] | None = None  # the task that waits for the upstream now
    _stopping: ErrorPayload | None = None
    _tell: Tell = _never
    _held: list[AnyEvent] = []  # was not told at once
    _unjudged: Finish | None = None  # the end of an answer that must be held to its schema first

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def response(self) -> Response:
        return self.composer.response

    @property
    def error(self) -> ErrorPayload | None:
        return self.composer.error

    async def begin(self, patience: float | None) -> None:
        """Wait until the upstream accepts, the turn is queued, or patience ends; raise if it refuses."""
        self._check_stopped()
        self._first = asyncio.ensure_future(self._batches.__anext__())
        self._queued = asyncio.get_running_loop().create_future()
        self.turn.on_queued = self._note_queued
        self._waiting = asyncio.current_task()
        try:
            either: set[asyncio.Future[Any]] = {self._first, self._queued}
            await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if self._first.done():
                # An answer without a word is told like one that breaks off.
                with suppress(StopAsyncIteration):
                    self._first.result()
        except BaseException as error:
            await self.close()
            if isinstance(error, asyncio.CancelledError) and self._stopping is not None:
                self._go_on()
                self._check_stopped()
            raise
        finally:
            self._waiting = None
        self._committed = True

    async def result(self, listener: asyncio.Task[Any] | None = None) -> Response:
        """The response at its end, without an event on the way; `listener` is the task that awaits it."""
        composer = self.composer
        composer.muted = True
        listener = listener or asyncio.current_task()
        try:
            while not composer.finished:
                self._compose(await self._next(listener))
                self._committed = True
                if self._unjudged is not None:
                    await self._judge()
            if self._save is not None:
                try:
                    await self._save(self)
                except Exception as error:
                    self._unsaved(error)
        except asyncio.CancelledError:
            await self._abandon()
            raise
        finally:
            await self.close()
        return composer.response

    async def events(self, tell: Tell | None = None) -> AsyncGenerator[list[AnyEvent], None]:
        """Batches of events, for one task; the terminal one comes last, once the response is stored.

        What the provider says while this waits goes to `tell`, and the task sleeps on; it gets what `tell`
        says no to, and the end.
        """
        composer = self.composer
        if tell is not None:
            self._tell, self.turn.take = tell, self._take
        listener = asyncio.current_task()
        try:
            is_queued = self._queued is not None and self._queued.done()
            yield composer.start(queued=is_queued and self._first is not None and not self._first.done())
            self._queued = None
            while True:
                deltas = await self._next(listener)
                self._committed = True
                events = self._compose(deltas)
                if self._unjudged is not None:
                    events += await self._judge()
                if self._held:
                    events, self._held = self._held + events, []
                if composer.finished:
                    if len(events) > 1:
                        yield events[:-1]
                    yield await self._finished(events[-1:])
                    return
                if events:
                    yield events
        except (GeneratorExit, asyncio.CancelledError):
            await self._abandon()
            raise
        finally:
            await self.close()

    def stop(self, error: ErrorPayload = SHUTDOWN) -> None:
        """End as failed now; the listener still gets its terminal event."""
        self._stopping = error
        if self._waiting is not None:
            self._waiting.cancel()

    def close(self) -> Awaitable[None]:
        turn = self.turn
        if turn.on_queued is not None or turn.take is not None:
            # Both lead back here, and a ring of objects outlives its use.
            turn.on_queued = turn.take = None
        if self._first is not None and not self._first.done():
            return self._give_up(self._first)
        return self._batches.aclose()

    async def _give_up(self, first: asyncio.Task[list[AnyDelta]]) -> None:
        # A generator that is still running cannot be closed.
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await self._batches.aclose()

    async def _next(self, listener: asyncio.Task[Any] | None) -> list[AnyDelta]:
        """The provider's next batch. Whatever goes wrong is a Failure, so that there is always an end."""
        if self._stopping is not None:
            return [Failure(self._stopping)]
        self._waiting = listener
        first = self._first
        try:
            if first is None:
                return await self._batches.__anext__()
            self._first = None
            return await first
        except BaseException as error:
            if (failure := self._failure(error)) is None:
                raise
            return failure
        finally:
            self._waiting = None

    def _failure(self, error: BaseException) -> list[AnyDelta] | None:
        """What went wrong as a Failure; None if it is to be raised."""
        if isinstance(error, StopAsyncIteration):
            return [Failure(CLOSED)]
        if isinstance(error, asyncio.CancelledError) and self._stopping is not None:
            self._go_on()
            return [Failure(self._stopping)]
        payload = INTERNAL
        if isinstance(error, UpstreamError | SpecError):
            payload = error.payload
        elif isinstance(error, Exception):  # a bug of the adapter
            log.exception("request %s: the provider failed", self.turn.request_id)
        else:
            return None
        return [Failure(payload)] if self._committed else None

    def _take(self, deltas: list[AnyDelta]) -> bool:
        """Tell a batch at once, if that is possible, and nothing before it still waits."""
        events = self._compose(deltas)
        try:
            if not (self._held or self.composer.finished or self._unjudged) and self._tell(events):
                return True
        except Exception:  # no fault of the provider: the task tells it again, and answers for it
            log.exception("request %s: a batch could not be told at once", self.turn.request_id)
        self._held += events
        return False

    def _note_queued(self) -> None:
        if self._queued is not None and not self._queued.done():
            self._queued.set_result(None)

    def _check_stopped(self) -> None:
        if self._stopping is not None:
            raise SpecError(self._stopping, 503)

    def _go_on(self) -> None:
        """It was `stop` that cancelled this task, and the task is needed to say so."""
        cast(asyncio.Task[object], asyncio.current_task()).uncancel()

    def _compose(self, deltas: list[AnyDelta]) -> list[AnyEvent]:
        try:
            return self.composer.feed(deltas) if self._rules is None else self._feed(deltas, self._rules)
        except Exception:
            log.exception("request %s: the answer could not be told", self.turn.request_id)
            return self.composer.fail(INTERNAL)

    async def _abandon(self) -> None:
        """Nobody listens any more; what was said so far is kept."""
        if not self.composer.finished:
            self.composer.cancel()
            await asyncio.shield(self._finished([]))

    def _feed(self, deltas: list[AnyDelta], rules: Rules) -> list[AnyEvent]:
        """The slow road: calls are held to the policy, and the end waits until the schema is checked."""
        passed = deltas if rules.policy is None else rules.policy.filter(deltas)
        if rules.schemas is not None and passed and passed[-1] == Finish():
            self._unjudged = Finish()
            passed = passed[:-1]
        events = self.composer.feed(passed)
        if rules.obfuscates:
            obfuscation.obfuscate(events)
        return events

    async def _judge(self) -> list[AnyEvent]:
        """The end of a finished answer, once it has been held to its schema."""
        assert self._rules is not None
        assert self._rules.schemas is not None
        finish, self._unjudged = self._unjudged or Finish(), None
        try:
            return self.composer.feed([await self._judged(finish, self._rules.schemas)])
        except Exception:
            log.exception("request %s: the answer could not be held to its schema", self.turn.request_id)
            return self.composer.fail(INTERNAL)

    async def _judged(self, finish: Finish, schemas: SchemaPool) -> AnyDelta:
        request, tenant = self.turn.request, self.turn.tenant
        try:
            wrong = await schema_check.mismatch(request, self.composer.snapshot(), tenant, schemas)
        except SpecError as error:
            return Failure(error.payload)
        if wrong is None:
            return finish
        if schema_check.is_strict(request):
            message = f"the answer does not fit text.format: {wrong}"
            return Failure(
                ErrorPayload("model_error", message, code="output_schema_mismatch", param="text.format")
            )
        self.turn.receipt(POLICY, "text.format", f"the answer does not fit: {wrong}", UNMET)
        return finish

    async def _finished(self, terminal: list[AnyEvent]) -> list[AnyEvent]:
        if self._save is not None:
            try:
                await self._save(self)
            except Exception as error:
                return self._unsaved(error)
        return terminal

    def _unsaved(self, error: Exception) -> list[AnyEvent]:
        """The end of a response that could not be stored."""
        self.encoded = None
        if not isinstance(error, StoreError):
            log.exception("request %s: the response could not be stored", self.turn.request_id)
            return self.composer.overrule(INTERNAL)
        log.error("request %s: the response could not be stored: %s", self.turn.request_id, error)
        return self.composer.overrule(store_error(error, "the response could not be stored: "))
