"""PostgreSQL passes the suite of every store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon.store import Store
from antiphon.store.postgres.store import PostgresStore
from tests.postgres import needs_postgres
from tests.store.conformance import Conformance
from tests.store.conformance.values import Open

pytestmark = needs_postgres


@pytest.fixture
async def open_store(postgres_url: str) -> AsyncIterator[Open]:
    opened: list[PostgresStore] = []

    async def open_another() -> Store:
        opened.append(await PostgresStore.open(postgres_url, connections=4))
        return opened[-1]

    yield open_another
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: Open) -> Store:
    return await open_store()


class TestPostgres(Conformance):
    pass
