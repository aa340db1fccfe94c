"""Stores in one folder, as several processes have them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from antiphon.store import SqliteStore

Open = Callable[[], Awaitable[SqliteStore]]


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[SqliteStore] = []

    async def open_another() -> SqliteStore:
        opened.append(await SqliteStore.open(tmp_path))
        return opened[-1]

    yield open_another
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: Open) -> SqliteStore:
    return await open_store()
