"""Approvals: used up once, by the tenant whom they were asked of, for just what was asked."""

from __future__ import annotations

import asyncio

from antiphon.store import Approval, Store
from tests.store.conformance.values import Open

ONE = Approval("alice", "mcpr_1", "digest-1", 100)


class Approvals:
    async def test_an_approval_is_taken_once(self, store: Store, open_store: Open) -> None:
        await store.add_approval(ONE)
        other = await open_store()
        assert await other.take_approval("alice", "mcpr_1", "digest-1")
        assert not await store.take_approval("alice", "mcpr_1", "digest-1")

    async def test_of_many_who_answer_at_once_one_takes_it(self, store: Store, open_store: Open) -> None:
        await store.add_approval(ONE)
        stores = [store, await open_store()] * 5
        taken = await asyncio.gather(*(one.take_approval("alice", "mcpr_1", "digest-1") for one in stores))
        assert sum(taken) == 1

    async def test_an_approval_is_for_one_tenant_and_one_call(self, store: Store) -> None:
        await store.add_approval(ONE)
        assert not await store.take_approval("bob", "mcpr_1", "digest-1")
        assert not await store.take_approval("alice", "mcpr_2", "digest-1")
        assert not await store.take_approval("alice", "mcpr_1", "digest-2")
        assert await store.take_approval("alice", "mcpr_1", "digest-1")

    async def test_an_approval_that_has_expired_is_pruned(self, store: Store) -> None:
        await store.add_approval(ONE)
        assert await store.prune(99) == 0
        assert await store.prune(100) == 1
        assert not await store.take_approval("alice", "mcpr_1", "digest-1")
