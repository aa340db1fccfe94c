"""Background work without HTTP: owners and heartbeats, a store that fails, and the end of everything."""

import asyncio
import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.config import Config
from antiphon.engine.background.background import Background
from antiphon.engine.background.job import BackgroundJob
from antiphon.engine.background.owned_rows import LateLoop
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.summary import trigger
from antiphon.providers.base import UpstreamError
from antiphon.spec.content import InputText
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Item, Message
from antiphon.spec.request import Request
from antiphon.store import SqliteStore, StoreBusy, StoredResponse
from antiphon.wires.sealing import Seal
from tests.engine.background.owners import (
    DEADLINE,
    HASTY,
    QUICK,
    Busy,
    Forgetful,
    Narrow,
    Owner,
    Spoken,
    asked,
    begin,
    die,
    end_of,
    heard,
    rows_of,
    until_logged,
)


async def test_the_living_take_over_from_the_dead_and_leave_each_other_alone(
    owner: Owner, store: Forgetful, provider: Spoken
) -> None:
    here, there, dead = [await owner() for _ in range(3)]
    mine, theirs, lost = [await begin(one) for one in (here, there, dead)]
    await until_logged(dead, lost, 2)
    die(dead)
    await asked(provider, 4)
    for job, attempt in ((mine, 0), (theirs, 0), (lost, 1)):
        running = await store.get("", job.id)
        assert running is not None
        assert running.owner in (here._source.owner, there._source.owner)
        assert running.attempt == attempt
        provider.words.put_nowait("")
    assert {(await end_of(store, job.id)).status for job in (mine, theirs, lost)} == {"completed"}
    assert provider.turns == 4


async def test_processes_that_are_stopped_do_not_count_as_dead(
    owner: Owner, store: Forgetful, provider: Spoken
) -> None:
    """A response that outlives many restarts is not the cause of them; after five it was ended as failed."""
    background = await owner()
    job = await begin(background)
    for restarts in range(1, 8):
        await asked(provider, restarts)
        await background.close()
        background = await owner()
    await asked(provider, 8)
    provider.words.put_nowait("")
    found = await end_of(store, job.id)
    assert (found.status, found.attempt) == ("completed", 7)


async def test_one_that_was_taken_for_dead_drops_its_work(
    owner: Owner, store: Forgetful, provider: Spoken
) -> None:
    sleeper, other = await owner(), await owner()
    job = await begin(sleeper)
    keeper = rows_of(sleeper)._keeper
    assert keeper is not None
    keeper.cancel()
    await asked(provider, 2)
    provider.words.put_nowait("too late")  # for the sleeper, which has waited longer
    async with asyncio.timeout(DEADLINE):
        await job.ended.wait()
        await provider.closed.wait()
    for word in ("in time", ""):
        provider.words.put_nowait(word)
    found = await end_of(store, job.id)
    assert (found.status, found.attempt) == ("completed", 1)
    logged = b"".join(await heard(other, job.id))
    assert b"in time" in logged
    assert b"too late" not in logged


async def test_what_the_store_refuses_is_written_later(
    owner: Owner, store: Forgetful, provider: Spoken, caplog: pytest.LogCaptureFixture
) -> None:
    background = await owner()
    job = await begin(background)
    await until_logged(background, job, 2)
    store.failures = 5
    for word in ("one", "two", ""):
        provider.words.put_nowait(word)
    found = await end_of(store, job.id)
    assert found.status == "completed"
    assert b"onetwo" in found.body
    lines = await heard(background, job.id)
    assert len(lines) == (found.last_event or 0) + 1
    assert caplog.text.count("could not be written") == 5


async def test_a_log_that_has_more_than_is_known_ends_the_work_and_the_response(
    owner: Owner, store: Forgetful, provider: Spoken, caplog: pytest.LogCaptureFixture
) -> None:
    background = await owner()
    job = await begin(background)
    provider.words.put_nowait("one")
    await until_logged(background, job, 5)
    store.lost_answers = 1
    provider.words.put_nowait("two")
    found = await end_of(store, job.id)
    assert found.status == "failed"
    lines = await heard(background, job.id)
    assert [json.loads(line)["sequence_number"] for line in lines] == list(range(len(lines)))
    assert b"onetwo" in found.body
    await background.wait_until_idle()
    assert caplog.text.count("can no longer be written here: An event numbered") == 1


async def test_work_that_breaks_ends_its_response_once_the_store_is_back(
    owner: Owner, store: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = await owner()
    reads = iter([StoreBusy("locked"), StoreBusy("locked")])
    get = store.get

    async def refuse_two(tenant: str, id: str) -> StoredResponse | None:
        if (error := next(reads, None)) is not None:
            raise error
        return await get(tenant, id)

    async def fail(job: BackgroundJob) -> None:
        monkeypatch.setattr(store, "get", refuse_two)
        raise RuntimeError("a mistake")

    monkeypatch.setattr(BackgroundJob, "work", fail)
    job = await begin(background)
    await background.wait_until_idle()
    found = await get("", job.id)
    assert found is not None
    assert found.status == "failed"
    assert next(reads, None) is None


async def test_what_comes_while_the_store_writes_is_written_next(
    owner: Owner, store: Forgetful, provider: Spoken
) -> None:
    background = await owner()
    job = await begin(background)
    await until_logged(background, job, 2)
    provider.words.put_nowait("one")
    await until_logged(background, job, 5)
    store.writing, store.written = asyncio.Event(), asyncio.Event()
    provider.words.put_nowait("two")
    await asyncio.wait_for(store.writing.wait(), DEADLINE)
    for word in ("three", ""):
        provider.words.put_nowait(word)
    await asyncio.wait_for(provider.closed.wait(), DEADLINE)
    store.written.set()
    found = await end_of(store, job.id)
    assert b"onetwothree" in found.body
    lines = await heard(background, job.id)
    numbers = [json.loads(line)["sequence_number"] for line in lines]
    assert numbers == [*range((found.last_event or 0) + 1)]


async def test_nobody_hears_what_is_not_logged(owner: Owner, store: Forgetful, provider: Spoken) -> None:
    background = await owner()
    job = await begin(background)
    await until_logged(background, job, 2)
    store.failures = 10**9
    provider.words.put_nowait("secret")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await background.events("", job.id, 2)
    store.failures = 0
    assert await background.events("", job.id, 2)


async def test_the_end_comes_although_the_store_fails(
    owner: Owner, store: Forgetful, provider: Spoken
) -> None:
    """A store that never recovers holds up the shutdown no longer than allowed; the next owner goes on."""
    background = await owner(HASTY)
    job = await begin(background)
    await until_logged(background, job, 2)
    store.failures = 10**9
    await asyncio.wait_for(background.close(), DEADLINE)
    store.failures = 0
    await owner()
    await asked(provider, 2)
    provider.words.put_nowait("")
    assert (await end_of(store, job.id)).status == "completed"


async def test_a_provider_that_breaks_fails_the_response(
    owner: Owner, store: Forgetful, provider: Spoken
) -> None:
    background = await owner()
    cut, bug = await begin(background), await begin(background)
    payload = ErrorPayload("server_error", "cut off", code="upstream_closed")
    provider.words.put_nowait(UpstreamError(payload, 502))
    provider.words.put_nowait(ZeroDivisionError())
    bodies = [(await end_of(store, job.id)).body for job in (cut, bug)]
    assert sorted(b"upstream_closed" in body for body in bodies) == [False, True]
    assert sorted(b"internal_error" in body for body in bodies) == [False, True]


async def test_cancel_requests_come_with_the_heartbeat(
    owner: Owner, store: Forgetful, provider: Spoken
) -> None:
    here, there = await owner(), await owner()
    job = await begin(here)
    found = await there.cancel("", job.id)
    assert found is not None
    assert found.status == "incomplete"
    await asyncio.wait_for(provider.closed.wait(), DEADLINE)
    assert await there.cancel("", "resp_none") is None
    assert await there.cancel("somebody else", job.id) is None


async def test_work_goes_on_after_its_event_loop_was_late(
    owner: Owner, store: Forgetful, provider: Spoken, tmp_path: Path
) -> None:
    here = await owner()
    job = await begin(here)

    async def other_process() -> None:
        opened = await SqliteStore.open(tmp_path / "data")
        engine = Engine(Config(), {}, opened, Seal([bytes(32)]), time.time)
        other = Background(engine, QUICK)
        await other.open()
        await asyncio.sleep(3 * QUICK.stale)
        await other.close()
        await opened.close()

    elsewhere = threading.Thread(target=lambda: asyncio.run(other_process()))
    elsewhere.start()
    elsewhere.join(DEADLINE)  # all this time the loop of `here` does nothing
    found = await store.get("", job.id)
    assert found is not None
    assert found.owner == here._source.owner
    provider.words.put_nowait("")
    assert (await end_of(store, job.id)).status == "completed"


async def test_a_loop_that_never_comes_round_is_dead() -> None:
    beats: list[bool] = []
    thread = LateLoop(lambda: beats.append(True), replace(QUICK, stale=0.05, hung=0.1))
    thread.start()
    threading.Event().wait(0.5)  # meanwhile the loop does nothing
    said = len(beats)
    threading.Event().wait(0.5)
    assert 0 < said == len(beats)
    thread.stop()
    thread.join(DEADLINE)


async def test_an_owner_that_overslept_gives_the_others_time(owner: Owner, store: Forgetful) -> None:
    """After a suspended machine wakes up, every heartbeat is old, and none of their owners is dead."""
    here, there = await owner(), await owner()
    job = await begin(there)
    await store.heartbeat(there._source.owner, time.time() - 100)
    rows_of(here)._beaten -= 100
    rows_of(here)._sweep_at = 0.0
    await rows_of(here)._beat()
    found = await store.get("", job.id)
    assert found is not None
    assert found.owner == there._source.owner


async def test_the_answer_does_not_wait_for_a_model_that_is_busy(
    owner: Owner, store: Forgetful, busy: Busy
) -> None:
    background = await owner()
    request = Request(model="busy/m", input="word " * 500, background=True)
    job = await asyncio.wait_for(
        background.start(request, background._engine.new_run(RequestContext())), DEADLINE
    )
    assert job.created.status == "queued"
    busy.free.set()
    found = await end_of(store, job.id)
    assert found.status == "failed"
    assert b"context_length_exceeded" in found.body
    assert busy.turns == 0


async def test_a_summary_of_what_does_not_fit_is_made_of_its_newer_half(
    owner: Owner, store: Forgetful, narrow: Narrow
) -> None:
    """In the background such a request was refused as too long before anybody was asked for the summary."""
    background = await owner()
    said: list[Item] = [Message(role="user", content=[InputText(f"word {n} " * 50)]) for n in range(4)]
    request = Request(model="narrow/m", input=[*said, trigger()], background=True)
    job = await background.start(request, background._engine.new_run(RequestContext(receipts=True)))
    found = await end_of(store, job.id)
    assert found.status == "completed", found.body
    body = json.loads(found.body)
    assert [item["type"] for item in body["output"]] == ["compaction"]
    assert [one["action"] for one in body["antiphon:receipts"]] == ["truncated"]
    assert narrow.turns == 1


async def test_a_process_that_leaves_during_a_write_writes_what_came_meanwhile(
    store: Forgetful, provider: Spoken, owner: Owner
) -> None:
    """It left right after the write that was under way, and the next process did not know of the rest."""
    background = await owner()
    store.writing, store.written = asyncio.Event(), asyncio.Event()
    job = await begin(background)
    await store.writing.wait()
    provider.words.put_nowait("Well")
    async with asyncio.timeout(DEADLINE):
        while not any(b"Well" in line for line in job._pending):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    job.leave()
    store.writing = None
    store.written.set()
    await background.close()
    logged = await store.events_after("", job.id, -1, 100)
    assert logged is not None
    assert any(b"Well" in line.data for line in logged)
