"""Settlements: rows about a run, which are stored with its response or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.store import Append, Change, Settlement, Store, StoreConflict, StoredConversation
from antiphon.store.statements import Steps, rows
from tests.store.conformance.values import item, response, running

CHARGE = Settlement("r1", "charge", "acme", 5.0, b'{"tokens":7}')


def found() -> Steps[list[tuple[Any, ...]]]:
    return (yield from rows("SELECT run, kind, tenant, settled_at, data FROM settlements ORDER BY run, kind"))


async def settled(store: Store) -> list[Settlement]:
    """All that there are. Asked as a write, so that nothing is still on its way."""
    return [Settlement(*row) for row in await store._carry_out(found, "write")]


class Settlements:
    async def test_settlements_are_stored_with_their_response(self, store: Store) -> None:
        small, large = replace(CHARGE, kind="a"), replace(CHARGE, run="r2")
        await store.save(response("r1", settlements=[small, CHARGE]))
        await store.save(response("r2", input=(item("large", "." * 100_000),), settlements=[large]))
        assert await settled(store) == [small, CHARGE, large]

    async def test_those_of_many_responses_at_once(self, store: Store, open_store: Any) -> None:
        stores = [store, await open_store()]
        rows = [replace(CHARGE, run=f"r{n:03}") for n in range(150)]
        saves = [
            stores[n % 2].save(response(one.run, settlements=[one] if n % 3 else ()))
            for n, one in enumerate(rows)
        ]
        await asyncio.gather(*saves)
        assert [*await settled(stores[0]), *await settled(stores[1])]
        assert await settled(store) == [one for n, one in enumerate(rows) if n % 3]

    async def test_a_response_that_is_not_stored_leaves_no_settlement(self, store: Store) -> None:
        await store.save(running("r1"))
        with pytest.raises(StoreConflict):
            await store.save(running("r1", settlements=[CHARGE]))
        assert await settled(store) == []

    async def test_a_settlement_that_is_not_stored_leaves_no_response(self, store: Store) -> None:
        bad = replace(CHARGE, data=None)
        await store.create_conversation(StoredConversation("conv", "acme", b"{}", 0), [])
        with pytest.raises(Exception, match=r"(?i)null"):
            await store.save(response("r1", append=Append("conv", [item("m1")]), settlements=[CHARGE, bad]))
        assert await store.get("acme", "r1") is None
        assert await settled(store) == []

    async def test_a_run_that_ends_is_settled_in_the_same_write(self, store: Store) -> None:
        await store.save(running("r1"))
        change = Change("r1", running("r1").owner or "", "completed", b"{}", settlements=[CHARGE])
        lost = Change("r1", "another", "completed", b"{}", settlements=[replace(CHARGE, kind="lost")])
        assert not await store.update(lost)
        assert await settled(store) == []
        assert await store.update(change)
        assert not await store.update(change)
        assert await settled(store) == [CHARGE]

    async def test_a_run_that_cannot_end_is_not_settled(self, store: Store) -> None:
        await store.save(running("r1"))
        bad = replace(CHARGE, data=None)
        change = Change("r1", running("r1").owner or "", "completed", b"{}", settlements=[CHARGE, bad])
        with pytest.raises(Exception, match=r"(?i)null"):
            await store.update(change)
        found = await store.get("acme", "r1")
        assert found is not None
        assert found.status == running("r1").status
        assert await settled(store) == []

    async def test_settlements_alone_are_written_once(self, store: Store) -> None:
        more = [replace(CHARGE, run=f"run_{n:03}") for n in range(250)]
        await store.settle(more)
        await store.settle([replace(more[0], data=b"{}"), CHARGE])
        assert await settled(store) == [CHARGE, *more]
