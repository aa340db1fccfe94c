"""A data folder from before there were files opens, keeps what it had, and takes files."""

import sqlite3
from contextlib import closing
from pathlib import Path

from antiphon.store import SqliteStore
from antiphon.store.sqlite.schema import MIGRATIONS, migrate
from tests.store.conformance.files import filled

BEFORE = 7
"""How many migrations there were."""


async def test_a_data_folder_of_the_schema_before_opens(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "antiphon.db", isolation_level=None)) as db:
        migrate(db, MIGRATIONS[:BEFORE])
        db.execute("INSERT INTO approvals VALUES ('alice', 'mcpr_1', 'digest', 4000000000)")
        db.execute(
            "INSERT INTO conversations (id, tenant, metadata, created_at) VALUES ('c1', 'alice', '{}', 1)"
        )
    store = await SqliteStore.open(tmp_path)
    try:
        assert await store.conversation("alice", "c1") is not None
        name, one = await filled(store)
        assert len(await store.match_chunks("alice", name, ["cat"], [one], 5)) == 2
        assert await store.take_approval("alice", "mcpr_1", "digest")
    finally:
        await store.close()
    with closing(sqlite3.connect(tmp_path / "antiphon.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
