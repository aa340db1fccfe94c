"""Chains with branches, deletions and expiry in PostgreSQL, over two handles."""

from __future__ import annotations

import asyncio
from functools import partial

from hypothesis import HealthCheck, given, settings

from antiphon.store.postgres.connection import execute, rows
from antiphon.store.postgres.retention import TABLES
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
        stores = [await PostgresStore.open(postgres_url, connections=3, cache_bytes=4000) for _ in range(2)]
        await stores[0].database.write(lambda db: execute(db, f"TRUNCATE {TABLES}"))
        model = ChainModel(stores[0], stores[1])
        for kind, a, b in script:
            await model.step(kind, a, b)
        stores.append(await PostgresStore.open(postgres_url, connections=3))
        await model.check(stores[2])
        for sql, count in ((NEEDLESS, 0), ("SELECT count(*) FROM items", len(model.own()))):
            assert await stores[2].database.read(partial(rows, sql=sql)) == [(count,)]
        for store in stores:
            await store.close()

    asyncio.run(run())
