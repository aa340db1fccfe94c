"""Idempotency keys: one request has a key, until it is done with it, its lease ends, or it expires."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from antiphon.store import KeyClaim, Store, TakenKey
from tests.store.conformance.values import Open, response, running

LEASE, KEPT = 10.0, 86_400.0


def claimed(holder: str = "h1", **fields: Any) -> KeyClaim:
    values: dict[str, Any] = {"tenant": "acme", "key": "k", "body": "b", "expires_at": LEASE} | fields
    return KeyClaim(holder=holder, **values)


class IdempotencyKeys:
    async def test_a_key_is_held_until_it_is_released(self, store: Store, open_store: Open) -> None:
        other, mine = await open_store(), claimed()
        assert await store.claim_key(mine, 0) is None
        assert await other.claim_key(claimed("h2"), 1) == TakenKey("b", None, LEASE)
        assert await store.release_key(mine)
        assert not await store.release_key(mine)
        assert await other.claim_key(claimed("h2"), 2) is None

    async def test_of_many_who_claim_at_once_one_has_it(self, store: Store, open_store: Open) -> None:
        stores = [store, await open_store(), await open_store()] * 10
        claims = [one.claim_key(claimed(f"h{n}"), 0) for n, one in enumerate(stores)]
        assert (await asyncio.gather(*claims)).count(None) == 1

    async def test_keys_of_tenants_are_apart(self, store: Store) -> None:
        assert await store.claim_key(claimed(), 0) is None
        assert await store.claim_key(claimed("h2", tenant="other"), 0) is None
        assert await store.claim_key(claimed("h3", key="k2"), 0) is None
        assert not await store.release_key(claimed(tenant="other"))

    async def test_a_lease_that_ended_is_taken_over(self, store: Store, open_store: Open) -> None:
        dead, heir = claimed(), claimed("h2", body="c", expires_at=30.0)
        assert await store.claim_key(dead, 0) is None
        assert await store.claim_key(heir, LEASE - 0.1) is not None
        other = await open_store()
        assert await other.claim_key(heir, LEASE) is None
        assert not await store.release_key(dead)
        await store.save(response("late", claim=replace(dead, expires_at=KEPT)))
        assert await store.get("acme", "late") is not None
        assert await store.claim_key(claimed("h3"), 11) == TakenKey("c", None, 30.0)

    async def test_a_lease_is_renewed(self, store: Store) -> None:
        assert await store.claim_key(claimed(), 0) is None
        assert await store.claim_key(claimed("h2", key="k2"), 0) is None
        await store.renew_keys(["h1", "nobody"], 20.0)
        assert await store.claim_key(claimed("h3"), 15) == TakenKey("b", None, 20.0)
        assert await store.claim_key(claimed("h3", key="k2"), 15) is None

    async def test_a_response_keeps_its_key(self, store: Store, open_store: Open) -> None:
        other, mine = await open_store(), claimed()
        assert await store.claim_key(mine, 0) is None
        await store.save(response("r1", claim=replace(mine, expires_at=KEPT)))
        assert await other.claim_key(claimed("h2"), LEASE + 1) == TakenKey("b", "r1", KEPT)
        assert not await store.release_key(mine)
        await store.renew_keys(["h1"], 1.0)
        assert await other.claim_key(claimed("h2"), LEASE + 1) == TakenKey("b", "r1", KEPT)
        assert await other.claim_key(claimed("h2", expires_at=KEPT + LEASE), KEPT) is None

    async def test_a_background_response_keeps_its_key_while_it_runs(self, store: Store) -> None:
        mine = claimed()
        assert await store.claim_key(mine, 0) is None
        await store.save(running("r1", claim=replace(mine, expires_at=KEPT)))
        assert await store.claim_key(claimed("h2"), 1) == TakenKey("b", "r1", KEPT)

    async def test_a_deleted_response_leaves_its_key(self, store: Store) -> None:
        mine = claimed()
        assert await store.claim_key(mine, 0) is None
        await store.save(response("r1", claim=replace(mine, expires_at=KEPT)))
        assert await store.delete("acme", "r1")
        assert await store.claim_key(claimed("h2"), 1) is None

    async def test_keys_that_have_expired_are_pruned(self, store: Store) -> None:
        mine = claimed()
        assert await store.claim_key(mine, 0) is None
        await store.save(response("r1", claim=replace(mine, expires_at=KEPT)))
        assert await store.claim_key(claimed("h2", key="k2"), 0) is None
        assert await store.prune(LEASE - 1) == 0
        assert await store.prune(LEASE) == 1
        assert await store.prune(KEPT) == 1
        assert await store.prune(KEPT) == 0
