"""One background response at work: events from its run, in batches, to the log.

An event is told to nobody before it is logged. So whoever heard of event N can go on from N anywhere, also
after this process has died. The log has each event as it is spelled for the caller who made the response.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from antiphon.engine.engine import Caller, Engine, encode_all, stored
from antiphon.engine.run import INTERNAL, Run
from antiphon.providers.apart import apart
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import SpecError
from antiphon.spec.events import AnyEvent, LifecycleEvent
from antiphon.spec.opaque import encode
from antiphon.spec.response import Response
from antiphon.store.base import Append, Change, NewResponse, StoreError
from antiphon.stream.composer import Composer
from antiphon.stream.framing import single_line

log = logging.getLogger(__name__)

Ending = Callable[[Composer], list[AnyEvent]]
Batches = AsyncGenerator[list[AnyEvent], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen, in seconds."""

    flush: float = 0.1
    """An event waits no longer than this before it is logged."""
    poll: float = 0.1
    """How often the log of another process is looked at."""
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
    """The row is no longer ours: it was deleted, or another owner took this one for dead."""


class Job:
    """`save`, then `work` to its end; anyone may `stop` it, or wait until it has got `beyond` an event."""

    def __init__(self, engine: Engine, run: Run, caller: Caller, owner: str, pace: Pace) -> None:
        self.id = run.response.id
        self.written = -1
        self.ended = asyncio.Event()
        self._engine = engine
        self._run = run
        self.caller = caller
        self._owner = owner
        self._pace = pace
        self._dialect = caller.dialect.for_response(run.response)
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[Ending] = self._loop.create_future()
        self._news = asyncio.Event()
        self._pending: list[bytes] = []
        self._last = -1  # the number of the newest event, logged or not
        self._state: Response | None = None  # how the row must change with the next write
        self._over = False  # the terminal event is known; it may still have to be written
        self._due = 0.0
        self._batches = self._produce()
        self._pull: asyncio.Future[list[AnyEvent]] | None = None
        self._note(run.composer.start(queued=True))
        self.created = run.composer.snapshot()

    async def save(self) -> None:
        """The row comes first: what is not stored does not begin."""
        new = await apart(self._record) if self._run.turn.is_large else self._record()
        await self._engine.store.save(new)

    def _record(self) -> NewResponse:
        response, resolved = self.created, self._run.resolved
        return NewResponse(
            id=self.id,
            tenant=self.caller.tenant,
            status=response.status,
            model=response.model,
            created_at=response.created_at,
            body=encode(response),
            input=encode_all(resolved.input),
            names=[item.id for item in resolved.input if item.id],
            previous=resolved.previous,
            expires_at=self._engine.expires_at(response.created_at),
            background=True,
            owner=self._owner,
            dialect=self.caller.dialect.name,
        )

    def stop(self, ending: Ending) -> None:
        """End now, as the composer is told to; the first who says so decides."""
        if not self._ending.done():
            self._ending.set_result(ending)

    async def beyond(self, number: int) -> None:
        """Wait until an event after this one is logged, or until there will be none."""
        while self.written <= number and not self.ended.is_set():
            await self._news.wait()

    async def work(self) -> None:
        try:
            while self._pending or not self._over:
                wait = self._due - self._loop.time() if self._pending else None
                if self._over:
                    await asyncio.sleep(max(wait or 0.0, 0.0))
                else:
                    await self._listen(wait)
                if self._pending and self._loop.time() >= self._due:
                    await self._flush()
        except Lost:
            log.info("background response %s is no longer ours; its work is dropped", self.id)
        finally:
            self.ended.set()
            self._tell()
            await self._close()

    async def _listen(self, wait: float | None) -> None:
        """Take the next batch, or the word to stop, whichever comes first."""
        if self._pull is None:
            self._pull = asyncio.ensure_future(anext(self._batches))
        composer = self._run.composer
        first: set[asyncio.Future[Any]] = {self._pull}
        if not composer.finished:
            first.add(self._ending)
        limit = None if wait is None else max(wait, 0.0)
        await asyncio.wait(first, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if self._pull.done():
            batch, self._pull = self._pull.result(), None
            self._note(batch)
        elif self._ending.done() and not composer.finished:
            # The composer ends first, so that the cancelled run finds nothing left to say.
            self._note(self._ending.result()(composer))
            self._pull.cancel()

    async def _produce(self) -> Batches:
        """The run's batches. One that its upstream refuses is a failed response, for its caller is gone."""
        run = self._run
        try:
            provider, _ = self._engine.target(run.turn.request, self.caller)
            run.turn.items = await self._engine.fitted(provider, run.turn, run.turn.items)
            await run.begin(self._engine.config.server.created_after or None)
            async with aclosing(run.events()) as batches:
                async for events in batches:
                    yield events
        except (UpstreamError, SpecError) as error:
            yield run.composer.fail(error.payload)
        except Exception:
            if run.composer.finished:
                return
            log.exception("background response %s failed", self.id)
            yield run.composer.fail(INTERNAL)

    def _note(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            self._pending.append(single_line(self._dialect.encode(event)))
            self._last = event.sequence_number
            if isinstance(event, LifecycleEvent) and event.response.status != "queued":
                self._state = event.response
            if event.is_terminal:
                self._over = True
                self._due = self._loop.time()

    async def _flush(self) -> None:
        """One write: the events, and the row with them when its state has changed."""
        events, state, first = self._pending, self._state, self._last - len(self._pending) + 1
        store = self._engine.store
        try:
            if state is None:
                ours = await store.append_events(self.id, self._owner, first, events)
            else:
                ours = await store.update(self._change(state, first, events))
        except StoreError as error:
            log.error("background response %s could not be written, trying again: %s", self.id, error)
            self._due = self._loop.time() + self._pace.retry
            return
        if not ours:
            raise Lost
        self._pending, self._state = [], None
        self._due = self._loop.time() + self._pace.flush
        self.written = self._last
        self._tell()

    def _change(self, response: Response, first: int, events: list[bytes]) -> Change:
        output = append = None
        if response.is_terminal:
            output = stored(response.output)
            conversation = self._run.turn.request.conversation
            if conversation:
                items = [*stored(self._run.resolved.input), *output]
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
        )

    def _tell(self) -> None:
        """Wake everyone who waits now; who comes later looks at `written` first."""
        self._news.set()
        self._news.clear()

    async def _close(self) -> None:
        if self._pull is not None:
            self._pull.cancel()
            await asyncio.wait({self._pull})
        await self._batches.aclose()
        await self._run.close()
