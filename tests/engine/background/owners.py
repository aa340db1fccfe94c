"""Processes that own background responses, a provider that says what a test wants, a store that fails."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

from antiphon.engine.background.background import Background
from antiphon.engine.background.job import BackgroundJob, Pace
from antiphon.engine.background.owned_rows import OwnedRows
from antiphon.engine.request_context import RequestContext
from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn, UpstreamError, answer_from
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.request import Request
from antiphon.store import Change, SqliteStore, StoreBusy, StoredResponse, StoreUnavailable
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta

DEADLINE = 60.0
QUICK = Pace(flush=0.01, beat=0.02, sweep=0.05, stale=0.5, retry=0.01, patience=DEADLINE)
HASTY = replace(QUICK, patience=0.3)


class Spoken(AnsweringProvider):
    """A provider that says what the test puts in; an exception is raised, None is silence for ever."""

    name = "spoken"
    capabilities = Capabilities(frozenset())

    def __init__(self) -> None:
        self.words: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.asked = asyncio.Event()
        self.turns = 0

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await answer_from(self._batches(turn), sink)

    async def _batches(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        self.turns += 1
        self.asked.set()
        try:
            yield []
            while word := await self.words.get():
                if isinstance(word, Exception):
                    raise word
                yield [TextDelta(word)]
            yield [Finish()]
        finally:
            self.closed.set()


class Busy(Spoken):
    """A model that counts tokens when it has time to, and always finds too many."""

    capabilities = Capabilities(frozenset(), counts_tokens=True, context_window=64)

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()

    async def count_tokens(self, turn: Turn) -> int | None:
        await self.free.wait()
        return 1000


class Narrow(Busy):
    """A model that counts too many tokens, and refuses more than three items."""

    def __init__(self) -> None:
        super().__init__()
        self.free.set()
        self.words.put_nowait("A summary.")
        self.words.put_nowait("")

    async def answer(self, turn: Turn, sink: Sink) -> None:
        if len(turn.items) > 3:
            raise UpstreamError(ErrorPayload("invalid_request", "too long", "context_length_exceeded"), 400)
        await super().answer(turn, sink)


class Forgetful(SqliteStore):
    """A store whose next writes fail, as those of a locked database do; or take their time."""

    failures = 0
    lost_answers = 0
    """So many batches of events are written, and then said not to be."""
    writing: asyncio.Event | None = None
    """Set when a write has begun, which then waits for `written`."""
    written: asyncio.Event

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreBusy("locked")

    async def append_events(
        self,
        id: str,
        owner: str,
        first: int,
        events: Sequence[bytes],
        *,
        attempt: int = 0,
        job: bytes | None = None,
    ) -> bool:
        self._fail()
        if self.writing is not None:
            self.writing.set()
            await self.written.wait()
        written = await super().append_events(id, owner, first, events, attempt=attempt, job=job)
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreUnavailable("away")
        return written

    async def update(self, change: Change) -> bool:
        self._fail()
        return await super().update(change)


Owner = Callable[..., Awaitable[Background]]


async def begin(background: Background) -> BackgroundJob:
    run = background._engine.new_run(RequestContext())
    return await background.start(Request(model="p/m", input="hi", background=True), run)


async def end_of(store: SqliteStore, id: str) -> StoredResponse:
    async with asyncio.timeout(DEADLINE):
        while True:
            found = await store.get("", id)
            assert found is not None
            if found.owner is None:
                return found
            await asyncio.sleep(0.01)


async def heard(background: Background, id: str) -> list[bytes]:
    lines: list[bytes] = []
    async with asyncio.timeout(DEADLINE):
        while events := await background.events("", id, len(lines) - 1):
            lines += [event.data for event in events]
    return lines


async def until_logged(background: Background, job: BackgroundJob, number: int) -> None:
    """Wait until the log of a job has the event of this number."""
    async with asyncio.timeout(DEADLINE):
        assert await background.events("", job.id, number - 1)


async def asked(provider: Spoken, times: int) -> None:
    """Wait until the provider has been asked so often."""
    async with asyncio.timeout(DEADLINE):
        while provider.turns < times:
            provider.asked.clear()
            await provider.asked.wait()


def rows_of(background: Background) -> OwnedRows:
    assert isinstance(background._source, OwnedRows)
    return background._source


def die(background: Background) -> None:
    """What kill -9 does: nothing of this owner ever runs again."""
    keeper = rows_of(background)._keeper
    assert keeper is not None
    keeper.cancel()
    for task in background._tasks:
        task.cancel()
