"""The schema: made once however many come at a time, moved forward, and shared by two versions."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.store import StoreError
from antiphon.store.postgres import schema
from antiphon.store.postgres.connection import execute, rows
from antiphon.store.postgres.schema import MIGRATIONS, SchemaChange, migrate, read_version
from antiphon.store.postgres.store import PostgresStore
from tests.postgres import needs_postgres
from tests.store.conformance.values import chain, response, said

pytestmark = needs_postgres

EXPANSION = SchemaChange(
    "how often a response was read",
    ("ALTER TABLE responses ADD COLUMN reads INTEGER NOT NULL DEFAULT 0", "CREATE TABLE extra (x INTEGER)"),
)


async def test_of_several_who_open_an_empty_database_one_makes_the_schema(empty_postgres_url: str) -> None:
    stores = await asyncio.gather(*[PostgresStore.open(empty_postgres_url, connections=2) for _ in range(4)])
    for n, store in enumerate(stores):
        await store.save(response(f"r{n}"))
    found = await stores[0].database.read(lambda db: rows(db, "SELECT version FROM antiphon_schema"))
    assert found == [(n,) for n in range(1, len(MIGRATIONS) + 1)]
    for store in stores:
        await store.close()


async def test_gateways_of_two_versions_run_side_by_side(postgres_url: str) -> None:
    """The newer one migrates while the older one runs; then both go on, and a further old one may start."""
    older = await PostgresStore.open(postgres_url)
    await chain(older, "r1", "r2")
    newer = await PostgresStore.open(postgres_url)
    done = await newer.database.write(lambda db: migrate(db, (*MIGRATIONS, EXPANSION)))
    assert done == [EXPANSION.name]
    another = await PostgresStore.open(postgres_url)
    for n, store in enumerate((older, newer, another), 3):
        await store.save(response(f"r{n}", await store.context("acme", f"r{n - 1}")))
    for store in (older, newer, another):
        assert len(said(await store.context("acme", "r5"))) == 10
    assert await older.delete("acme", "r5")
    for store in (older, newer, another):
        assert await store.context("acme", "r5") is None
        await store.close()


async def test_a_database_of_a_newer_version_that_is_not_compatible_is_refused(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    gone = SchemaChange("something is gone", ("CREATE TABLE extra (x INTEGER)",), needs=len(MIGRATIONS) + 1)
    await store.database.write(lambda db: migrate(db, (*MIGRATIONS, gone)))
    with pytest.raises(StoreError, match="newer version of Antiphon"):
        await PostgresStore.open(postgres_url)
    await store.close()


async def test_a_database_of_a_development_version_is_refused(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    rename = "UPDATE antiphon_schema SET name = 'the first schema' WHERE version = 1"
    await store.database.write(lambda db: execute(db, rename))
    with pytest.raises(StoreError, match="development version of Antiphon") as refused:
        await PostgresStore.open(postgres_url)
    assert "give [store] url the address of an empty database" in str(refused.value)
    await store.close()


async def test_a_migration_that_fails_leaves_nothing_behind(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    broken = SchemaChange("broken", ("CREATE TABLE extra (x INTEGER)", "SELECT 1 / 0"))
    with pytest.raises(StoreError, match="division by zero"):
        await store.database.write(lambda db: migrate(db, (*MIGRATIONS, broken)))
    assert await store.database.read(read_version) == (len(MIGRATIONS), 0)
    await store.database.write(lambda db: migrate(db, (*MIGRATIONS, EXPANSION)))
    assert schema.list_missing(len(MIGRATIONS)) == []
    assert schema.list_missing(0, (*MIGRATIONS, EXPANSION))[-1] == EXPANSION.name
    await store.close()


async def test_a_schema_that_was_damaged_is_said_to_be(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    await store.database.write(lambda db: execute(db, "DROP TABLE approvals"))
    with pytest.raises(StoreError, match="antiphon store migrate"):
        await store.take_approval("acme", "a", "d")
    await store.close()
