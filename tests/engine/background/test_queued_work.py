"""Background work from the queue of a real PostgreSQL: a response that runs has a job until it has ended."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from antiphon.config import Config, ProviderSettings
from antiphon.config.schema import BackgroundSettings
from antiphon.engine.background.background import Background
from antiphon.engine.background.job import BackgroundJob
from antiphon.engine.background.queued_work import QueuedWork
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.spec.request import Request
from antiphon.store import StoreBusy, StoredResponse, StoreUnavailable
from antiphon.store.postgres.store import PostgresStore
from antiphon.wires.sealing import Seal
from tests.engine.background.owners import DEADLINE, QUICK, Spoken, heard
from tests.postgres import needs_postgres

pytestmark = needs_postgres

REQUEST = Request(model="p/m", input="hi", background=True)


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(postgres_url, connections=4)
    yield store
    await store.close()


@asynccontextmanager
async def opened(store: PostgresStore, provider: Spoken, slots: int) -> AsyncIterator[Background]:
    config = Config(
        providers={"p": ProviderSettings(type="spoken")}, background=BackgroundSettings(work=slots)
    )
    background = Background(Engine(config, {"p": provider}, store, Seal([bytes(32)]), time.time), QUICK)
    await background.open()
    yield background
    await background.close()


async def test_work_that_broke_off_is_not_over_before_its_response_has_ended(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever dies in between leaves a response that runs, and no job for it."""
    get, refused, is_back = store.get, asyncio.Semaphore(0), asyncio.Event()

    async def refuse(tenant: str, id: str) -> StoredResponse | None:
        if is_back.is_set():
            return await get(tenant, id)
        refused.release()
        raise StoreBusy("locked")

    async def fail(job: BackgroundJob) -> None:
        monkeypatch.setattr(store, "get", refuse)
        job.ended.set()
        raise RuntimeError("a mistake")

    monkeypatch.setattr(BackgroundJob, "work", fail)
    async with opened(store, Spoken(), 0) as background, asyncio.timeout(DEADLINE):
        assert isinstance(background._source, QueuedWork)
        job = await background.start(REQUEST, background._engine.new_run(RequestContext()))
        working = asyncio.create_task(background._source.work("", job.id, 0))
        for _ in range(5):
            await refused.acquire()
        assert not working.done()
        is_back.set()
        await working
        found = await get("", job.id)
        assert found is not None
        assert found.status == "failed"


async def test_a_log_that_has_more_than_is_known_is_gone_on_with_in_the_next_attempt(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when PostgreSQL stays away after a COMMIT: what was written is not known, and cannot be repeated."""
    append, lost = store.append_events, asyncio.Event()

    async def forget(
        id: str,
        owner: str,
        first: int,
        events: Sequence[bytes],
        *,
        attempt: int = 0,
        job: bytes | None = None,
    ) -> bool:
        written = await append(id, owner, first, events, attempt=attempt, job=job)
        if b"two" in b"".join(events) and not lost.is_set():
            lost.set()
            raise StoreUnavailable("away")
        return written

    monkeypatch.setattr(store, "append_events", forget)
    provider = Spoken()
    async with opened(store, provider, 2) as background, asyncio.timeout(DEADLINE):
        job = await background.start(REQUEST, background._engine.new_run(RequestContext()))
        provider.words.put_nowait("one")
        after = -1
        while events := await background.events("", job.id, after):
            after = events[-1].sequence
            if b"one" in events[-1].data:  # and not together with what changes the row
                break
        provider.words.put_nowait("two")
        await lost.wait()
        while provider.turns < 2:
            provider.asked.clear()
            await provider.asked.wait()
        for word in ("three", ""):
            provider.words.put_nowait(word)
        lines = await heard(background, job.id)
        found = await store.get("", job.id)
    assert found is not None
    assert (found.status, found.attempt) == ("completed", 1)
    assert [json.loads(line)["sequence_number"] for line in lines] == list(range(len(lines)))
    said = [json.loads(line) for line in lines]
    deltas = [event["delta"] for event in said if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "onetwothree"
