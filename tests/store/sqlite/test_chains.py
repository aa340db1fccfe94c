"""Chains with branches, deletions and expiry against a model that keeps every context in a plain list."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings

from antiphon.store import SqliteStore
from tests.store.chain_model import ChainModel, steps
from tests.store.conformance.values import response


def check_rows(model: ChainModel, fresh: SqliteStore) -> None:
    """Nothing is left that nobody needs."""
    db = fresh._writer._db
    rows = "SELECT count(*) FROM responses WHERE id IS NULL AND chain NOT IN "
    needed = "(SELECT chain FROM responses WHERE id IS NOT NULL)"
    assert db.execute(rows + needed).fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM items").fetchone() == (len(model.own()),)


@settings(max_examples=60)
@given(steps)
def test_contexts_are_what_was_said(script: list[tuple[str, int, int]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            stores = [await SqliteStore.open(Path(folder), cache_bytes=4000) for _ in range(2)]
            model = ChainModel(stores[0], stores[1])
            for kind, a, b in script:
                await model.step(kind, a, b)
            stores.append(await SqliteStore.open(Path(folder)))
            await model.check(stores[2])
            check_rows(model, stores[2])
            for store in stores:
                await store.close()

    asyncio.run(run())


async def test_a_late_turn_takes_the_database_no_more_steps_than_an_early_one(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    database = store._writer._db
    steps: list[int] = [0]

    def step() -> int:
        steps[-1] += 1
        return 0

    async def turn(n: int) -> None:
        await store.save(response(f"r{n:04}", await store.context("acme", f"r{n - 1:04}")))

    for n in range(1, 1001):
        if n in (10, 1000):
            await store.get("acme", f"r{n - 1:04}")  # the database has all that came before
            database.set_progress_handler(step, 1)
            await turn(n)
            await store.get("acme", f"r{n:04}")
            database.set_progress_handler(None, 1)
            steps.append(0)
        else:
            await turn(n)
    early, late, _ = steps
    assert early == late > 0
    assert store.stats.cache_misses == 1  # only the first turn has to look
    await store.close()
