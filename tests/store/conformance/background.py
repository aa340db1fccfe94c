"""Background responses: changes, the event log, jobs, cancelling."""

from __future__ import annotations

import pytest

from antiphon.store import Change, LoggedEvent, Store, StoreConflict, StoredItem
from tests.store.conformance.values import Open, item, response, running, said


class Background:
    async def test_a_background_response_runs_and_ends(self, store: Store, open_store: Open) -> None:
        await store.save(running("r1"))
        assert said(await store.context("acme", "r1")) == ["r1_in"]
        assert await store.append_events("r1", "w1", 0, [b'{"n":0}', b'{"n":1}'])
        assert await store.update(Change("r1", "w1", "in_progress", b'{"half":true}'))
        done = Change(
            "r1", "w1", "completed", b'{"x":[{"id":"o"}]}', (StoredItem("o", b'{"id":"o"}'),), 2, [b'{"n":2}']
        )
        assert await store.update(done)
        for reader in (store, await open_store()):
            found = await reader.get("acme", "r1")
            assert found is not None
            assert (found.status, found.owner, found.background) == ("completed", None, True)
            assert (found.last_event, found.body) == (2, b'{"x":[{"id":"o"}]}')
            context = await reader.context("acme", "r1")
            assert said(context) == ["r1_in", "o"]
            assert context is not None
            assert context.status == "completed"
            assert set(await reader.items("acme", ["r1_in", "o"])) == {"r1_in", "o"}
            events = await reader.events_after("acme", "r1", -1, 10)
            assert events == [LoggedEvent(n, b'{"n":%d}' % n) for n in range(3)]

    async def test_a_context_read_while_running_is_what_its_continuation_has(
        self, store: Store, open_store: Open
    ) -> None:
        await store.save(running("r1"))
        early = await store.context("acme", "r1")
        await store.update(Change("r1", "w1", "completed", b"{}", (item("o"),)))
        await store.save(response("r2", early))
        await store.save(response("r3", await store.context("acme", "r1")))
        for reader in (store, await open_store()):
            assert said(await reader.context("acme", "r2")) == ["r1_in", "r2_in", "r2_out"]
            assert said(await reader.context("acme", "r3")) == ["r1_in", "o", "r3_in", "r3_out"]

    async def test_a_terminal_response_never_changes(self, store: Store) -> None:
        await store.save(running("r1"))
        assert await store.update(Change("r1", "w1", "cancelled", b"{}"))
        assert not await store.update(Change("r1", "w1", "completed", b"late"))
        assert not await store.append_events("r1", "w1", 0, [b"{}"])
        found = await store.get("acme", "r1")
        assert found is not None
        assert (found.status, found.body) == ("cancelled", b"{}")

    async def test_only_the_owner_writes(self, store: Store) -> None:
        await store.save(running("r1"))
        assert not await store.update(Change("r1", "w2", "completed", b"{}"))
        assert not await store.append_events("r1", "w2", 0, [b"{}"])
        await store.delete("acme", "r1")
        assert not await store.update(Change("r1", "w1", "completed", b"{}"))
        assert await store.get("acme", "r1") is None

    async def test_events_are_read_from_any_number(self, store: Store) -> None:
        await store.save(running("r1"))
        first = 0
        for count in (1, 3, 1, 7, 2):
            await store.append_events(
                "r1", "w1", first, [b'{"n":%d}' % n for n in range(first, first + count)]
            )
            first += count
        everything = [LoggedEvent(n, b'{"n":%d}' % n) for n in range(first)]
        for after in range(-1, first + 1):
            for limit in (1, 2, 5, 100):
                expected = everything[after + 1 :][:limit]
                assert await store.events_after("acme", "r1", after, limit) == expected
        with pytest.raises(StoreConflict, match="already logged"):
            await store.append_events("r1", "w1", 0, [b"{}"])
        with pytest.raises(ValueError, match="one line"):
            await store.append_events("r1", "w1", first, [b"{\n}"])

    async def test_a_cancel_from_anywhere_reaches_the_owner(self, store: Store, open_store: Open) -> None:
        await store.save(running("r1"))
        await store.save(running("r2"))
        other = await open_store()
        asked = await other.request_cancel("acme", "r1")
        assert asked is not None
        assert (asked.status, asked.cancel_requested) == ("in_progress", True)
        for id, is_asked in (("r1", True), ("r2", False)):
            found = await store.get("acme", id)
            assert found is not None
            assert found.cancel_requested == is_asked
        assert await store.update(Change("r1", "w1", "cancelled", b"{}"))
        after = await other.request_cancel("acme", "r1")
        assert after is not None
        assert after.status == "cancelled"

    async def test_the_job_is_kept_while_the_response_runs(self, store: Store, open_store: Open) -> None:
        other = await open_store()
        await store.save(running("r1", job=b"first"))
        await store.save(running("none"))
        assert await other.job("acme", "r1") == b"first"
        assert await other.job("somebody else", "r1") is None
        assert await other.job("acme", "none") is None
        assert await other.job("acme", "r0") is None
        assert await store.append_events("r1", "w1", 0, [b"{}"])
        assert await store.update(Change("r1", "w1", "in_progress", b"{}"))
        assert await other.job("acme", "r1") == b"first"
        assert await store.append_events("r1", "w1", 1, [b"{}"], job=b"second")
        assert await other.job("acme", "r1") == b"second"
        assert await store.append_events("r1", "w1", 2, [], job=b"third")
        assert await other.job("acme", "r1") == b"third"
        assert await store.update(Change("r1", "w1", "in_progress", b"{}", job=b"fourth"))
        assert await other.job("acme", "r1") == b"fourth"
        logged = await store.events_after("acme", "r1", -1, 10)
        assert logged is not None
        assert [event.sequence for event in logged] == [0, 1]

    @pytest.mark.parametrize("status", ["completed", "failed", "incomplete", "cancelled"])
    async def test_the_end_erases_the_job(self, store: Store, open_store: Open, status: str) -> None:
        await store.save(running("r1", job=b"secret"))
        assert await store.update(Change("r1", "w1", status, b"{}", job=b"not this one either"))
        for reader in (store, await open_store()):
            assert await reader.job("acme", "r1") is None

    async def test_a_deleted_response_leaves_no_job(self, store: Store) -> None:
        """Also where a continuation needs what was said in it."""
        await store.save(running("r1", job=b"secret"))
        assert await store.delete("acme", "r1")
        assert await store.job("acme", "r1") is None
