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


class _Rules(Struct):
    """What has to be looked at on the way from the provider to the client."""

    policy: Policy | None
    checks_schema: bool
    obfuscates: bool


def _rules(provider: Provider, turn: Turn) -> _Rules | None:
    request = turn.request
    policy = Policy(turn) if restricts(request) else None
    checks_schema = schema_check.needs_check(request) and not provider.capabilities.enforces_schema
    obfuscates = obfuscation.is_wanted(request)
    return _Rules(policy, checks_schema, obfuscates) if policy or checks_schema or obfuscates else None


class Run:
    """`begin`, then iterate `events` once; or just await `result`. The response is saved before it ends."""

    __slots__ = (
        "__weakref__",
        "_batches",
        "_committed",
        "_first",
        "_held",
        "_is_waiting",
        "_listener",
        "_queued",
        "_rules",
        "_save",
        "_stopping",
        "_tell",
        "composer",
        "encoded",
        "resolved",
        "turn",
    )

    def __init__(
        self, provider: Provider, turn: Turn, composer: Composer, resolved: Resolved, save: Save | None
    ) -> None:
        self.turn = turn
        self.composer = composer
        self.resolved = resolved
        self.encoded: bytes | None = None
        """The finished response in JSON, where it had to be encoded for the store."""
        self._save = save
        self._rules = None if turn.bare else _rules(provider, turn)
        self._batches = cast(AsyncGenerator[list[AnyDelta], None], provider.stream(turn))
        self._first: asyncio.Task[list[AnyDelta]] | None = None
        self._queued: asyncio.Future[None] | None = None  # done once the turn has to wait
        self._committed = False  # the client has been told that there is a response
        self._listener: asyncio.Task[object] | None = None  # the task that begins it, or follows it
        self._is_waiting = False  # it waits for the upstream now
        self._stopping: ErrorPayload | None = None
        self._tell: Tell | None = None
        self._held: list[AnyEvent] = []  # was not told at once

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
        self._listener, self._is_waiting = asyncio.current_task(), True
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
            self._is_waiting = False
        self._committed = True

    async def result(self) -> Response:
        """The response at its end, without an event on the way."""
        composer = self.composer
        composer.mute()
        self._listener = asyncio.current_task()
        try:
            while not composer.finished:
                deltas = await self._next()
                if self._rules is not None or not composer.compose(deltas):
                    self._compose(deltas)
            if self._save is not None:
                await self._finished([])
        except asyncio.CancelledError:
            await self._abandon()
            raise
        finally:
            await self.close()
        return self.response

    async def events(self, tell: Tell | None = None) -> AsyncGenerator[list[AnyEvent], None]:
        """Batches of events, for one task; the terminal one comes last, once the response is stored.

        What the provider says while this waits goes to `tell`, and the task sleeps on; it gets what `tell`
        says no to, and the end.
        """
        composer = self.composer
        if tell is not None:
            self._tell, self.turn.take = tell, self._take
        self._listener = asyncio.current_task()
        try:
            is_queued = self._queued is not None and self._queued.done()
            yield composer.start(queued=is_queued and self._first is not None and not self._first.done())
            self._queued = None
            while True:
                events = self._compose(await self._next())
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
        if self._is_waiting and self._listener is not None:
            self._listener.cancel()

    async def close(self) -> None:
        # Both lead back here, and a ring of objects outlives its use.
        self.turn.on_queued = self.turn.take = self._listener = None
        if self._first is not None and not self._first.done():
            # A generator that is still running cannot be closed.
            self._first.cancel()
            await asyncio.gather(self._first, return_exceptions=True)
        await self._batches.aclose()

    async def _next(self) -> list[AnyDelta]:
        """The provider's next batch. Whatever goes wrong is a Failure, so that there is always an end."""
        stopped = self._stopping
        if stopped is not None:
            return [Failure(stopped)]
        self._is_waiting = True
        try:
            if self._first is not None:
                deltas = await self._first
                self._first = None
            else:
                deltas = await self._batches.__anext__()
                self._committed = True
        except StopAsyncIteration:
            return [Failure(CLOSED)]
        except (UpstreamError, SpecError) as error:
            if not self._committed:
                raise
            return [Failure(error.payload)]
        except asyncio.CancelledError:
            if self._stopping is None:
                raise
            self._go_on()
            return [Failure(self._stopping)]
        except Exception:  # an adapter's bug must not leave a client without a terminal event
            log.exception("request %s: the provider failed", self.turn.request_id)
            if not self._committed:
                raise
            return [Failure(INTERNAL)]
        finally:
            self._is_waiting = False
        return deltas

    def _take(self, deltas: list[AnyDelta]) -> bool:
        """Tell a batch at once, if that is possible, and nothing before it still waits."""
        events = self._compose(deltas)
        try:
            if not (self._held or self.composer.finished) and self._tell is not None and self._tell(events):
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

    def _feed(self, deltas: list[AnyDelta], rules: _Rules) -> list[AnyEvent]:
        """The slow road: calls are held to the policy, and the finished answer to its schema."""
        passed = deltas if rules.policy is None else rules.policy.filter(deltas)
        if rules.checks_schema and passed and passed[-1] == Finish():
            events = self.composer.feed(passed[:-1])
            events += self.composer.feed([self._judged(passed[-1])])
        else:
            events = self.composer.feed(passed)
        if rules.obfuscates:
            obfuscation.obfuscate(events)
        return events

    def _judged(self, finish: AnyDelta) -> AnyDelta:
        request = self.turn.request
        wrong = schema_check.mismatch(request, self.composer.snapshot())
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
            except StoreError as error:
                self.encoded = None
                log.error("request %s: the response could not be stored: %s", self.turn.request_id, error)
                message = f"the response could not be stored: {error}"
                terminal = self.composer.overrule(ErrorPayload("server_error", message, code="store_failed"))
            except Exception:
                self.encoded = None
                log.exception("request %s: the response could not be stored", self.turn.request_id)
                terminal = self.composer.overrule(INTERNAL)
        return terminal
