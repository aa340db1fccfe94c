"""Responses: saved, continued, branched, deleted, and seen by nobody else."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.store import Context, NewResponse, Store, StoreConflict, StoredItem, StoreError
from tests.store.conformance.values import Open, chain, ids, item, response, running, said


class Responses:
    async def test_a_saved_response_is_there(self, store: Store) -> None:
        new = response("r1", expires_at=2000)
        await store.save(new)
        found = await store.get("acme", "r1")
        assert found is not None
        assert (found.id, found.tenant, found.status, found.model) == ("r1", "acme", "completed", "tiny")
        assert (found.created_at, found.expires_at, found.background, found.owner) == (
            1000,
            2000,
            False,
            None,
        )
        assert found.body == new.body

    @pytest.mark.parametrize(
        "body", [b"{}", b"", b'{"output":[]}', b'{"output":[{"id":"x"}]}', b'{"id":"x"}']
    )
    async def test_a_body_comes_back_byte_for_byte(self, store: Store, body: bytes) -> None:
        await store.save(NewResponse("r", "acme", "completed", "m", 1, body, output=b'{"id":"x"}'))
        found = await store.get("acme", "r")
        assert found is not None
        assert found.body == body

    @pytest.mark.parametrize(
        ("output", "body"), [(b"", b'{"output":[],"a":1}'), (b"{}", b'{"output":[{}],"a":1}')]
    )
    async def test_a_body_that_comes_without_its_output_is_stored_with_it(
        self, store: Store, output: bytes, body: bytes
    ) -> None:
        given = b'{"output":[],"a":1}'
        await store.save(
            NewResponse("r", "acme", "completed", "m", 1, given, output=output, lacks_output=True)
        )
        found = await store.get("acme", "r")
        assert found is not None
        assert found.body == body

    async def test_unknown_ids_are_not_found(self, store: Store) -> None:
        assert await store.get("acme", "r1") is None
        assert await store.context("acme", "r1") is None
        assert await store.items("acme", ["r1_in"]) == {}
        assert await store.delete("acme", "r1") is False
        assert await store.events_after("acme", "r1", -1, 10) is None
        assert await store.request_cancel("acme", "r1") is None

    async def test_an_id_is_stored_once(self, store: Store) -> None:
        await store.save(response("r1"))
        with pytest.raises(StoreConflict, match="'r1' is already stored"):
            await store.save(response("r1", input=(item("other"),)))
        assert said(await store.context("acme", "r1")) == ["r1_in", "r1_out"]
        assert await store.items("acme", ["other"]) == {}

    async def test_a_context_is_input_and_output_of_every_turn_in_order(self, store: Store) -> None:
        context = await chain(store, "r1", "r2", "r3")
        assert said(context) == ["r1_in", "r1_out", "r2_in", "r2_out", "r3_in", "r3_out"]
        assert ids(context.input_json()) == ["r1_in", "r1_out", "r2_in", "r2_out", "r3_in"]
        assert said(await store.context("acme", "r2")) == ["r1_in", "r1_out", "r2_in", "r2_out"]

    async def test_a_context_says_who_gave_its_response_and_when(
        self, store: Store, open_store: Open
    ) -> None:
        """Also where it is read by another process, which has nothing of it in its memory."""
        await store.save(response("r1"))
        await store.save(running("r2"))
        for reader in (store, await open_store()):
            for id in ("r1", "r2"):
                context = await reader.context("acme", id)
                assert context is not None
                assert (context.model, context.created_at) == ("tiny", 1000)

    async def test_empty_turns_leave_no_gap(self, store: Store) -> None:
        await store.save(response("r1", input=(), output=()))
        first = await store.context("acme", "r1")
        assert first is not None
        assert first.json() == b"[]"
        await store.save(response("r2", first, input=()))
        await store.save(response("r3", await store.context("acme", "r2"), output=()))
        assert said(await store.context("acme", "r3")) == ["r2_out", "r3_in"]

    async def test_branches_of_an_empty_turn_leave_no_gap(self, store: Store, open_store: Open) -> None:
        await store.save(response("r1", input=(), output=()))
        root = await store.context("acme", "r1")
        for name in ("a", "b"):
            await store.save(response(name, root))
            await store.save(response(f"{name}2", await store.context("acme", name), input=()))
        reader = await open_store()
        for name in ("a", "b"):
            assert said(await reader.context("acme", f"{name}2")) == [
                f"{name}_in",
                f"{name}_out",
                f"{name}2_out",
            ]

    async def test_another_handle_reads_the_same_context(self, store: Store, open_store: Open) -> None:
        await chain(store, "r1", "r2", "r3")
        other = await open_store()
        context = await other.context("acme", "r3")
        assert said(context) == ["r1_in", "r1_out", "r2_in", "r2_out", "r3_in", "r3_out"]
        await other.save(response("r4", context))
        assert said(await store.context("acme", "r4"))[-4:] == ["r3_in", "r3_out", "r4_in", "r4_out"]

    async def test_branches_do_not_see_each_other(self, store: Store, open_store: Open) -> None:
        await chain(store, "r1", "r2", "r3")
        root = await store.context("acme", "r1")
        await asyncio.gather(*[store.save(response(name, root)) for name in ("a", "b", "c")])
        await store.save(response("a2", await store.context("acme", "a")))
        for reader in (store, await open_store()):
            for name in ("a", "b", "c", "r2"):
                assert said(await reader.context("acme", name)) == [
                    "r1_in",
                    "r1_out",
                    f"{name}_in",
                    f"{name}_out",
                ]
            assert said(await reader.context("acme", "a2"))[2:] == ["a_in", "a_out", "a2_in", "a2_out"]

    async def test_continuations_from_several_handles_do_not_collide(
        self, store: Store, open_store: Open
    ) -> None:
        root = await chain(store, "root")
        handles = [store, await open_store(), await open_store()]
        names = [f"r{n}" for n in range(30)]
        await asyncio.gather(*[handles[n % 3].save(response(name, root)) for n, name in enumerate(names)])
        reader = await open_store()
        for name in names:
            assert said(await reader.context("acme", name)) == [
                "root_in",
                "root_out",
                f"{name}_in",
                f"{name}_out",
            ]

    async def test_an_unstored_context_can_be_continued(self, store: Store, open_store: Open) -> None:
        local = Context("local", "completed", (item("a").data,), item("b").data, item("c").data)
        await store.save(response("r1", local))
        await store.save(response("r2", await store.context("acme", "r1")))
        for reader in (store, await open_store()):
            assert said(await reader.context("acme", "r2")) == [
                "a",
                "b",
                "c",
                "r1_in",
                "r1_out",
                "r2_in",
                "r2_out",
            ]

    async def test_items_are_found_by_id(self, store: Store) -> None:
        odd = StoredItem("ø", '{"id":"ø","text":"naïve, \\u0000 [brackets] 漢字"}'.encode())
        await store.save(response("r1", input=(item("a"), StoredItem(None, b'{"id":"hidden"}'), odd)))
        found = await store.items("acme", ["a", "ø", "hidden", "r1_out", "nothing"])
        assert found == {"a": item("a").data, "ø": odd.data, "r1_out": item("r1_out").data}

    async def test_the_newest_item_of_an_id_wins_and_the_older_takes_over(self, store: Store) -> None:
        await store.save(response("r1", input=(item("x", "old"),)))
        await store.save(response("r2", input=(item("x", "new"),)))
        assert await store.items("acme", ["x"]) == {"x": item("x", "new").data}
        await store.delete("acme", "r2")
        assert await store.items("acme", ["x"]) == {"x": item("x", "old").data}

    async def test_a_deleted_response_is_gone_and_its_descendants_are_not(
        self, store: Store, open_store: Open
    ) -> None:
        await chain(store, "r1", "r2", "r3")
        assert await store.delete("acme", "r2") is True
        assert await store.delete("acme", "r2") is False
        for reader in (store, await open_store()):
            assert await reader.get("acme", "r2") is None
            assert await reader.context("acme", "r2") is None
            assert await reader.items("acme", ["r2_in", "r2_out"]) == {}
            context = await reader.context("acme", "r3")
            assert said(context) == ["r1_in", "r1_out", "r2_in", "r2_out", "r3_in", "r3_out"]

    async def test_deleting_is_seen_by_other_handles_at_once(self, store: Store, open_store: Open) -> None:
        await chain(store, "r1", "r2")
        other = await open_store()
        assert await other.context("acme", "r2") is not None
        await store.delete("acme", "r2")
        assert await other.context("acme", "r2") is None

    async def test_a_response_deleted_while_it_was_being_continued(
        self, store: Store, open_store: Open
    ) -> None:
        context = await chain(store, "r1", "r2")
        await store.delete("acme", "r2")
        await store.save(response("other", await store.context("acme", "r1")))
        await store.save(response("r3", context))
        for reader in (store, await open_store()):
            expected = ["r1_in", "r1_out", "r2_in", "r2_out", "r3_in", "r3_out"]
            assert said(await reader.context("acme", "r3")) == expected
            assert said(await reader.context("acme", "other")) == ["r1_in", "r1_out", "other_in", "other_out"]

    async def test_another_tenant_finds_nothing(self, store: Store, open_store: Open) -> None:
        await chain(store, "r1", "r2")
        await store.save(running("bg"))
        for reader in (store, await open_store()):
            assert await reader.get("evil", "r2") is None
            assert await reader.context("evil", "r2") is None
            assert await reader.items("evil", ["r1_in", "r2_out"]) == {}
            assert await reader.delete("evil", "r2") is False
            assert await reader.events_after("evil", "bg", -1, 10) is None
            assert await reader.request_cancel("evil", "bg") is None
            assert [line async for line in reader.export("evil")] == []
        untouched = await store.get("acme", "bg")
        assert untouched is not None
        assert not untouched.cancel_requested
        assert await store.get("acme", "r2") is not None

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await store.close()
        await store.close()
        with pytest.raises(StoreError, match="closed"):
            await store.save(response("r1"))
        with pytest.raises(StoreError, match="closed"):
            await store.get("acme", "r1")

    async def test_a_new_response_without_an_owner_cannot_run(self, store: Store) -> None:
        with pytest.raises(ValueError, match="owner"):
            await store.save(response("r1", status="in_progress"))
        with pytest.raises(ValueError, match="owner"):
            await store.save(response("r1", owner="w1"))
