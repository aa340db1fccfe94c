"""Conversations: items added, taken out, paged, and joined by responses."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.store import Append, Change, Store, StoreConflict, StoredConversation, UnknownCursor
from tests.store.conformance.values import Open, ids, item, response, running, said


class Conversations:
    async def talk(self, store: Store, *names: str, **fields: Any) -> None:
        await store.create_conversation(
            StoredConversation("c1", "acme", b'{"topic":"x"}', 1000, **fields), [item(name) for name in names]
        )

    async def test_a_conversation_is_kept(self, store: Store) -> None:
        await self.talk(store, "a", "b")
        assert await store.conversation("acme", "c1") == StoredConversation(
            "c1", "acme", b'{"topic":"x"}', 1000
        )
        with pytest.raises(StoreConflict, match="already stored"):
            await self.talk(store)
        assert await store.set_metadata("acme", "c1", b"{}")
        assert await store.conversation("acme", "c1") == StoredConversation("c1", "acme", b"{}", 1000)
        assert await store.conversation_item("acme", "c1", "b") == item("b").data
        assert await store.items("acme", ["a"]) == {"a": item("a").data}
        assert await store.delete_conversation("acme", "c1")
        assert not await store.delete_conversation("acme", "c1")
        assert await store.conversation("acme", "c1") is None
        assert await store.items("acme", ["a"]) == {}

    async def test_items_are_added_taken_out_and_read(self, store: Store, open_store: Open) -> None:
        await self.talk(store, "a")
        other = await open_store()
        assert ids(await store.conversation_context("acme", "c1")) == ["a"]
        assert await other.add_items("acme", Append("c1", [item("b"), item("c")]))
        assert ids(await store.conversation_context("acme", "c1")) == ["a", "b", "c"]
        assert await other.delete_conversation_item("acme", "c1", "c")
        assert not await other.delete_conversation_item("acme", "c1", "c")
        await other.add_items("acme", Append("c1", [item("d")]))
        for reader in (store, other):
            assert ids(await reader.conversation_context("acme", "c1")) == ["a", "b", "d"]
        await other.delete_conversation("acme", "c1")
        assert await store.conversation_context("acme", "c1") is None
        await self.talk(store)
        assert await other.conversation_context("acme", "c1") == b"[]"

    async def test_an_id_is_in_a_conversation_once(self, store: Store) -> None:
        await self.talk(store, "a")
        with pytest.raises(StoreConflict, match="already in the conversation"):
            await store.add_items("acme", Append("c1", [item("b"), item("a")]))
        assert ids(await store.conversation_context("acme", "c1")) == ["a"]

    async def test_pages(self, store: Store) -> None:
        names = [f"i{n:03}" for n in range(450)]
        await self.talk(store, *names)
        for newest_first, expected in ((False, names), (True, names[::-1])):
            seen: list[str | None] = []
            after = None
            more = True
            while more:
                page = await store.conversation_page(
                    "acme", "c1", after=after, limit=90, newest_first=newest_first
                )
                assert page is not None
                seen += [entry.id for entry in page.items]
                after, more = page.items[-1].id, page.more
            assert seen == expected
        with pytest.raises(UnknownCursor, match="'nope'"):
            await store.conversation_page("acme", "c1", after="nope")
        assert await store.conversation_page("acme", "c2") is None

    async def test_a_response_joins_its_conversation(self, store: Store, open_store: Open) -> None:
        await self.talk(store, "a")
        turn = (item("a"), item("r1_in"), item("r1_out"))
        await store.save(response("r1", append=Append("c1", turn)))
        assert ids(await store.conversation_context("acme", "c1")) == ["a", "r1_in", "r1_out"]
        await store.add_items("acme", Append("c1", [item("later")]))
        context = await store.context("acme", "r1")
        assert said(context) == ["a", "r1_in", "r1_out"]
        await store.save(response("r2", context))
        await store.delete_conversation("acme", "c1")
        for reader in (store, await open_store()):
            assert said(await reader.context("acme", "r1")) == ["r1_in", "r1_out"]
            assert said(await reader.context("acme", "r2")) == ["a", "r1_in", "r1_out", "r2_in", "r2_out"]

    async def test_a_background_response_joins_when_it_ends(self, store: Store) -> None:
        await self.talk(store, "a")
        await store.save(running("r1"))
        said_last = (item("r1_in"), item("o"))
        await store.update(
            Change("r1", "w1", "completed", b"{}", (item("o"),), append=Append("c1", said_last))
        )
        assert ids(await store.conversation_context("acme", "c1")) == ["a", "r1_in", "o"]
        assert said(await store.context("acme", "r1")) == ["a", "r1_in", "o"]

    async def test_a_response_outlives_a_conversation_deleted_meanwhile(self, store: Store) -> None:
        await store.save(response("r1", append=Append("gone", (item("x"),))))
        assert said(await store.context("acme", "r1")) == ["r1_in", "r1_out"]

    async def test_another_tenant_finds_no_conversation(self, store: Store) -> None:
        await self.talk(store, "a")
        assert await store.conversation("evil", "c1") is None
        assert await store.conversation_context("acme", "c1") is not None
        assert await store.conversation_context("evil", "c1") is None
        assert await store.conversation_page("evil", "c1") is None
        assert await store.conversation_item("evil", "c1", "a") is None
        assert await store.items("evil", ["a"]) == {}
        assert not await store.set_metadata("evil", "c1", b"{}")
        assert not await store.add_items("evil", Append("c1", [item("b")]))
        assert not await store.delete_conversation_item("evil", "c1", "a")
        assert not await store.delete_conversation("evil", "c1")
        await store.save(response("r1", tenant="evil", append=Append("c1", (item("b"),))))
        assert ids(await store.conversation_context("acme", "c1")) == ["a"]
