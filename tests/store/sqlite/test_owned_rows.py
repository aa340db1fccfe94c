"""Running responses belong to processes: heartbeats, what is cancelled with them, and takeovers."""

import asyncio
from dataclasses import replace

from antiphon.store import Change, LoggedEvent, SqliteStore
from antiphon.store.store import OwnedRowStore
from tests.store.conformance.values import item, running
from tests.store.sqlite.conftest import Open


async def test_the_store_is_one_of_owned_rows(store: SqliteStore) -> None:
    owned: OwnedRowStore = store
    assert isinstance(owned, OwnedRowStore)
    assert store.work_queue is None


async def test_an_owner_hears_with_its_heartbeat_what_it_is_to_cancel(
    store: SqliteStore, open_store: Open
) -> None:
    await store.heartbeat("w1", 0)
    for id in ("r1", "r2"):
        await store.save(running(id))
    other = await open_store()
    await other.request_cancel("acme", "r1")
    await other.request_cancel("evil", "r2")
    assert await store.heartbeat("w1", 10) == ["r1"]
    assert await store.update(Change("r1", "w1", "cancelled", b"{}"))
    assert await store.heartbeat("w1", 11) == []


async def test_a_beat_from_a_thread_keeps_an_owner(store: SqliteStore) -> None:
    await store.heartbeat("w1", 100)
    await store.save(running("r1"))
    await asyncio.to_thread(store.beat, "w1", 200)
    assert await store.claim_orphans("w2", 201, 150) == []


async def test_a_deleted_response_is_not_claimed(store: SqliteStore) -> None:
    await store.save(running("r1", job=b"secret"))
    assert await store.delete("acme", "r1")
    assert await store.claim_orphans("w2", 1000, 999) == []


async def test_orphans_go_to_one_claimer(store: SqliteStore, open_store: Open) -> None:
    await store.heartbeat("dead", 100)
    await store.heartbeat("alive", 200)
    for n in range(10):
        await store.save(running(f"r{n}", "dead"))
    await store.append_events("r3", "dead", 0, [b"{}", b"{}"])
    await store.save(running("mine", "alive"))
    handles = [store, await open_store(), await open_store()]
    claims = await asyncio.gather(
        *[handle.claim_orphans(f"w{n}", 210, 150) for n, handle in enumerate(handles)]
    )
    claimed = sorted(orphan.id for claim in claims for orphan in claim)
    assert claimed == [f"r{n}" for n in range(10)]
    winner = next(n for n, claim in enumerate(claims) if claim)
    orphan = next(orphan for orphan in claims[winner] if orphan.id == "r3")
    assert (orphan.tenant, orphan.status, orphan.owner) == ("acme", "in_progress", f"w{winner}")
    assert orphan.last_event == 1
    assert orphan.attempt == 1
    assert not await store.update(Change("r3", "dead", "completed", b"{}"))
    assert await store.update(Change("r3", f"w{winner}", "failed", b"{}", attempt=1))


async def test_a_claimer_that_dies_is_replaced(store: SqliteStore) -> None:
    await store.heartbeat("w1", 100)
    await store.save(running("r1", "w1"))
    assert [orphan.id for orphan in await store.claim_orphans("w2", 200, 150)] == ["r1"]
    assert await store.claim_orphans("w3", 210, 150) == []
    assert [orphan.id for orphan in await store.claim_orphans("w3", 300, 250)] == ["r1"]


async def test_each_takeover_is_an_attempt_and_only_the_newest_is_written(
    store: SqliteStore, open_store: Open
) -> None:
    other = await open_store()
    await store.heartbeat("w0", 0)
    await store.save(running("r1", "w0", job=b"what to do"))
    first = await store.get("acme", "r1")
    assert first is not None
    assert first.attempt == 0
    assert await store.append_events("r1", "w0", 0, [b'{"n":0}'])
    for attempt in (1, 2, 3):
        # An owner can get back what it lost, with an old write still on its way.
        owner, now = f"w{attempt % 2}", 200 * attempt
        (claimed,) = await other.claim_orphans(owner, now, now - 50)
        assert (claimed.attempt, claimed.owner) == (attempt, owner)
        found = await store.get("acme", "r1")
        assert found is not None
        assert found.attempt == attempt
        assert await other.job("acme", "r1") == b"what to do"
        for wrong in (*range(attempt), attempt + 1):
            change = Change("r1", owner, "completed", b"late", (item("late"),), attempt, [b"{}"])
            assert not await store.update(replace(change, attempt=wrong, job=b"late"))
            assert not await store.append_events("r1", owner, attempt, [b"{}"], attempt=wrong, job=b"x")
        event = b'{"n":%d}' % attempt
        assert await store.append_events("r1", owner, attempt, [event], attempt=attempt)
    assert await store.events_after("acme", "r1", -1, 10) == [
        LoggedEvent(n, b'{"n":%d}' % n) for n in range(4)
    ]
    assert await store.update(Change("r1", "w1", "completed", b"{}", attempt=3))
    found = await other.get("acme", "r1")
    assert found is not None
    assert (found.status, found.attempt) == ("completed", 3)


async def test_what_its_owner_releases_is_claimed_at_once(store: SqliteStore, open_store: Open) -> None:
    other = await open_store()
    for owner in ("w1", "w2"):
        await store.heartbeat(owner, 100)
        await store.save(running(f"r_{owner}", owner, job=b"job"))
    await other.heartbeat("w3", 100)
    assert await other.claim_orphans("w3", 101, 50) == []
    await store.release("w1")
    (claimed,) = await other.claim_orphans("w3", 102, 50)
    assert (claimed.id, claimed.owner, claimed.attempt) == ("r_w1", "w3", 1)
    assert not await store.append_events("r_w1", "w1", 0, [b"{}"])
    assert await store.append_events("r_w2", "w2", 0, [b"{}"])
    await store.release("nobody")


async def test_a_cancellation_outlives_the_takeover(store: SqliteStore) -> None:
    await store.heartbeat("w1", 100)
    await store.save(running("r1", job=b"job"))
    await store.request_cancel("acme", "r1")
    (claimed,) = await store.claim_orphans("w2", 200, 150)
    assert claimed.cancel_requested
    assert await store.heartbeat("w2", 201) == ["r1"]
