"""A data folder from before responses could be taken over opens, and its running responses are claimed."""

import sqlite3
from contextlib import closing
from pathlib import Path

from antiphon.store import Change, SqliteStore
from antiphon.store.sqlite.schema import MIGRATIONS, migrate

BEFORE = 9
"""How many migrations there were."""
ROW = """
    INSERT INTO responses (id, tenant, chain, position, status, model, created_at, background, owner, items,
                           body, dialect)
    VALUES ('r1', 'alice', 1, 0, 'in_progress', 'm', 1, 1, 'dead', '[]', '{}', 'open-responses')
"""


async def test_a_running_response_of_the_schema_before_is_claimed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "antiphon.db", isolation_level=None)) as db:
        migrate(db, MIGRATIONS[:BEFORE])
        db.execute(ROW)
    store = await SqliteStore.open(tmp_path)
    try:
        (claimed,) = await store.claim_orphans("me", 100.0, 50.0)
        assert (claimed.id, claimed.attempt) == ("r1", 1)
        assert await store.job("alice", "r1") is None
        assert await store.update(Change("r1", "me", "failed", b"{}", attempt=1))
    finally:
        await store.close()
