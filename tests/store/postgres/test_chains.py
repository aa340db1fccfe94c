"""Chains with branches, deletions and expiry in PostgreSQL, over two handles."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from hypothesis import HealthCheck, given, settings

from antiphon.store.postgres.connection import execute, rows
from antiphon.store.postgres.schema import TABLE_NAMES
from antiphon.store.postgres.store import PostgresStore
from tests.postgres import needs_postgres
from tests.store.chain_model import ChainModel, steps

pytestmark = needs_postgres

NEEDLESS = """
    SELECT count(*) FROM responses WHERE id IS NULL
    AND chain NOT IN (SELECT chain FROM responses WHERE id IS NOT NULL)
"""


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_contexts_are_what_was_said(postgres_url: str, script: list[tuple[str, int, int]]) -> None:
    async def run() -> None:
        # Every store is closed, also where an example fails: hypothesis then tries hundreds of others.
        async with AsyncExitStack() as stack:

            async def open_store(cache_bytes: int) -> PostgresStore:
                store = await PostgresStore.open(postgres_url, connections=3, cache_bytes=cache_bytes)
                stack.push_async_callback(store.close)
                return store

            stores = [await open_store(4000) for _ in range(2)]
            await stores[0].database.write(lambda db: execute(db, f"TRUNCATE {TABLE_NAMES}"))
            model = ChainModel(stores[0], stores[1])
            for kind, a, b in script:
                await model.step(kind, a, b)
            fresh = await open_store(100_000)
            await model.check(fresh)
            for sql, count in ((NEEDLESS, 0), ("SELECT count(*) FROM items", len(model.own()))):
                assert await fresh.database.read(partial(rows, sql=sql)) == [(count,)]

    asyncio.run(run())
