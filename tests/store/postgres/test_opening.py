"""What is said of an address, a user or a server with which PostgreSQL cannot be the store."""

import asyncio

import pytest

from antiphon.store import StoreError, StoreUnavailable
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.store import PostgresStore
from tests.postgres import PostgresCluster, needs_postgres

pytestmark = needs_postgres


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://me:geh%zzeim@db.example/it", "percent"),
        ("postgresql://me:geh@eim@db.example/it", "@ too many"),
        ("postgresql://me:geh/eim@db.example/it", "@ too many"),
        ("postgresql://me:geheim@db.example:geheim/it", "port"),
        ("postgresql://me@db.example/it?geheim=1", "query parameter"),
        ("postgresql://me@[geheim/it", "matching"),
    ],
)
def test_an_address_that_cannot_be_read_is_not_shown(url: str, why: str) -> None:
    with pytest.raises(StoreError, match=why) as refused:
        Database(url)
    for secret in ("geh", "eim"):
        assert secret not in str(refused.value)


async def test_a_database_that_takes_no_writes_is_refused(empty_postgres_url: str) -> None:
    read_only = f"{empty_postgres_url}&options=-cdefault_transaction_read_only%3Don"
    with pytest.raises(StoreUnavailable, match="takes no writes: it is a replica"):
        await PostgresStore.open(read_only)
    await (await PostgresStore.open(empty_postgres_url)).close()
    with pytest.raises(StoreUnavailable, match="takes no writes: it is a replica"):
        await PostgresStore.open(read_only)


async def test_a_user_with_too_few_connections_is_told(own_cluster: PostgresCluster) -> None:
    own_cluster.execute("CREATE ROLE few LOGIN")
    own_cluster.execute("CREATE DATABASE it OWNER few")
    url = own_cluster.url("it").replace("antiphon@", "few@")
    for limit in (1, 2):
        own_cluster.execute(f"ALTER ROLE few CONNECTION LIMIT {limit}")
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailable, match="too many connections"):
                await PostgresStore.open(url, connections=2, connection_timeout=1)
    own_cluster.execute("ALTER ROLE few CONNECTION LIMIT 3")
    await (await PostgresStore.open(url, connections=2)).close()
