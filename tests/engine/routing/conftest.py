"""A store for routes that are asked in this process, and retries that do not wait."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.engine.routing import dispatch
from antiphon.store import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "FIRST_WAIT", 0.0)
