"""SQLite passes the suite of every store; and what is its own: files, migrations, locks, a full disk."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from antiphon.store import (
    Append,
    NewResponse,
    SqliteStore,
    StoreBusy,
    StoreConflict,
    StoredConversation,
    StoredItem,
    StoreError,
    StoreFull,
    check,
)
from antiphon.store.sqlite import opening
from antiphon.store.sqlite.backlog import LARGE
from antiphon.store.sqlite.opening import enable_wal
from antiphon.store.sqlite.schema import MIGRATIONS, checksum, migrate
from tests.store.conformance import Conformance
from tests.store.conformance.values import chain, item, response, running, said


class TestSqlite(Conformance):
    pass


async def test_the_files_are_the_users_own(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    store = await SqliteStore.open(folder)
    await store.save(response("r1"))
    modes = {
        re.sub(r"-journal2-.*", "-journal2", file.name): stat.S_IMODE(file.stat().st_mode)
        for file in [folder, *folder.iterdir()]
    }
    await store.close()
    names = ("", "-cell", "-shm", "-wal", "-journal2", "-reserve")
    assert modes == {"data": 0o700} | {f"antiphon.db{name}": 0o600 for name in names}


async def test_the_pragmas_that_durability_rests_on(tmp_path: Path) -> None:
    levels: tuple[tuple[Literal["normal", "full"], int], ...] = (("normal", 1), ("full", 2))
    for synchronous, level in levels:
        store = await SqliteStore.open(tmp_path, synchronous=synchronous)
        db = store._writer._db
        assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        await store.close()


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    await (await SqliteStore.open(tmp_path)).close()
    with sqlite3.connect(tmp_path / "antiphon.db") as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(StoreError, match="newer version of Antiphon") as refused:
        await SqliteStore.open(tmp_path)
    assert "antiphon.db cannot be opened" in str(refused.value)


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "antiphon.db").write_bytes(b"not a database, certainly " * 100)
    with pytest.raises(StoreError, match=r"antiphon\.db cannot be opened.*not a database"):
        await SqliteStore.open(tmp_path)


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file/data cannot be made"):
        await SqliteStore.open(tmp_path / "file" / "data")


async def test_an_older_database_moves_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "r1", "r2")
    await store.close()
    newer = (*MIGRATIONS, ("CREATE TABLE extra (x)", "INSERT INTO extra SELECT count(*) FROM responses"))
    monkeypatch.setattr(migrate, "__defaults__", (newer,))
    for _ in range(2):
        store = await SqliteStore.open(tmp_path)
        assert said(await store.context("acme", "r2")) == ["r1_in", "r1_out", "r2_in", "r2_out"]
        assert store._writer._db.execute("SELECT x FROM extra").fetchall() == [(2,)]
        await store.close()


@pytest.mark.parametrize(("version", "made_with"), [(1, 0), (len(MIGRATIONS) + 10, 0), (1, checksum() ^ 1)])
async def test_a_database_of_a_development_version_is_refused(
    tmp_path: Path, version: int, made_with: int
) -> None:
    await (await SqliteStore.open(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "antiphon.db")) as db:
        db.execute(f"PRAGMA user_version = {version}")
        db.execute(f"PRAGMA application_id = {made_with}")
    with pytest.raises(StoreError, match="development version of Antiphon") as refused:
        await SqliteStore.open(tmp_path)
    assert "move the file away, or configure another data folder" in str(refused.value)
    (problem,) = check(tmp_path).problems
    assert "development version of Antiphon" in problem


async def test_a_new_database_that_another_just_makes_is_waited_for(tmp_path: Path) -> None:
    one, other = [
        sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False) for _ in range(2)
    ]
    with closing(one), closing(other):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            enable_wal(one, time.monotonic())
        waiting = asyncio.create_task(asyncio.to_thread(enable_wal, one, time.monotonic() + 30))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        other.execute("ROLLBACK")
        await waiting
        assert not done
        assert one.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_who_stops_waiting_for_a_store_leaves_nothing_open(tmp_path: Path) -> None:
    opening = asyncio.create_task(SqliteStore.open(tmp_path))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    # The last to close a database takes its log away, and a journal in use stays.
    assert set(os.listdir(tmp_path)) == {"antiphon.db", "antiphon.db-cell", "antiphon.db-reserve"}


async def test_opening_a_store_again_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """Closing any descriptor of a file ends all locks that the process has on it."""
    first = await SqliteStore.open(tmp_path)
    before = _locks(tmp_path / "antiphon.db")
    again = await SqliteStore.open(tmp_path)
    assert before
    assert _locks(tmp_path / "antiphon.db") >= before
    await again.close()
    await first.close()


def _locks(file: Path) -> set[str]:
    """The locks on a file that this process holds, as the system lists them."""
    inode, pid = str(file.stat().st_ino), str(os.getpid())
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return {" ".join(line[1:]) for line in lines if line[5].endswith(f":{inode}") and line[4] == pid}


def test_a_migration_is_all_or_nothing() -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    broken = (*MIGRATIONS, ("CREATE TABLE extra (x)", "INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(db, broken)
    assert db.execute("PRAGMA user_version").fetchone() == (0,)
    assert db.execute("SELECT * FROM sqlite_master").fetchall() == []
    migrate(db)
    assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    db.close()


async def test_a_locked_database_is_busy_and_can_still_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "BUSY_TIMEOUT", 0.05)
    store = await SqliteStore.open(tmp_path)
    await store.save(response("r1"))
    await store.size()
    other = sqlite3.connect(tmp_path / "antiphon.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    large = item("large", "x" * LARGE)
    saves = [store.save(response(f"x{n}", input=(large,))) for n in range(5)]
    writes = [store.heartbeat("w1", 1), store.delete("acme", "r1")]
    failures = await asyncio.gather(*saves, *writes, return_exceptions=True)
    assert [type(failure) for failure in failures] == [StoreBusy] * 7
    assert "holds the store's database locked" in str(failures[0])
    assert await store.get("acme", "r1") is not None
    other.execute("ROLLBACK")
    other.close()
    assert await store.get("acme", "x1") is None
    await store.save(response("x1"))
    assert await store.get("acme", "x1") is not None
    await store.close()


async def test_a_full_disk_tears_nothing(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, max_bytes=2_000_000)
    large = item("large", "x" * LARGE)
    kept: list[str] = []

    async def fill() -> None:
        for n in range(1000):
            await store.save(response(f"r{n}", input=(large, item(f"i{n}"))))
            kept.append(f"r{n}")

    with pytest.raises(StoreFull, match="nothing was written"):
        await fill()
    assert 5 < len(kept) < 30
    lost = f"r{len(kept)}"
    again = await SqliteStore.open(tmp_path)
    for reader in (store, again):
        assert await reader.get("acme", lost) is None
        assert await reader.context("acme", lost) is None
        assert await reader.items("acme", [f"i{len(kept)}"]) == {}
        assert all([said(await reader.context("acme", id))[-1] == f"{id}_out" for id in kept])
    for id in kept[:3]:
        await store.delete("acme", id)
    await store.save(response(lost, input=(large,)))
    assert await again.get("acme", lost) is not None
    await store.close()
    await again.close()


async def hold(path: Path) -> sqlite3.Connection:
    """A lock that makes the writer wait, so that what is asked meanwhile forms one batch."""
    other = sqlite3.connect(path / "antiphon.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


async def test_one_bad_write_does_not_fail_its_neighbours(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, max_bytes=500_000)
    await store.create_conversation(StoredConversation("c1", "acme", b"{}", 1), [item("a")])
    await store.save(response("taken"))
    before = store.stats.batches
    other = await hold(tmp_path)
    huge = StoredItem("huge", b'"' + b"x" * 1_000_000 + b'"')
    large = item("large", "x" * LARGE)
    asked = [
        asyncio.ensure_future(work)
        for work in (
            store.save(response("first", input=(large,))),
            store.save(response("good")),
            store.save(response("taken", input=(large,))),
            store.save(response("huge", input=(huge,))),
            store.create_conversation(StoredConversation("c1", "acme", b"{}", 1)),
            store.add_items("acme", Append("c1", [item("a")])),
            store.add_items("acme", Append("c1", [item("b")])),
            store.append_events("nobody", "w1", 0, [b"{}"]),
            store.save(response("also good")),
        )
    ]
    await asyncio.sleep(0)
    other.execute("ROLLBACK")
    other.close()
    results = await asyncio.gather(*asked, return_exceptions=True)
    kinds = [type(result) if isinstance(result, Exception) else result for result in results]
    conflict = StoreConflict
    assert kinds == [None, None, conflict, StoreFull, conflict, conflict, True, False, None]
    assert store.stats.batches - before <= 3
    assert await store.get("acme", "good") is not None
    assert await store.get("acme", "also good") is not None
    assert await store.get("acme", "huge") is None
    await store.close()


async def test_saves_asked_together_are_committed_together(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await asyncio.gather(*[store.save(response(f"r{n}")) for n in range(40)])
    assert store.stats.batches == 0
    assert (await store.size()).responses == 40
    assert store.stats.batches == 1
    await store.close()


async def test_a_write_whose_caller_went_away_is_still_made(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "old")
    other = await hold(tmp_path)
    asked = [
        asyncio.ensure_future(work) for work in (store.save(response("r1")), store.delete("acme", "old"))
    ]
    await asyncio.sleep(0)
    for task in asked:
        task.cancel()
    other.execute("ROLLBACK")
    other.close()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), asyncio.CancelledError]
    await store.save(response("r2"))
    assert await store.get("acme", "r1") is not None
    assert await store.context("acme", "old") is None
    await store.close()


async def test_closing_finishes_what_was_asked(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    saves = [asyncio.ensure_future(store.save(response(f"r{n}"))) for n in range(100)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*saves)
    store = await SqliteStore.open(tmp_path)
    assert (await store.size()).responses == 100
    await store.close()


async def test_a_hot_chain_never_reads_the_database(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    names = [f"r{n}" for n in range(300)]
    context = await chain(store, *names)
    assert said(context) == [id for name in names for id in (f"{name}_in", f"{name}_out")]
    stats = store.stats
    assert (stats.reads, stats.cache_hits, stats.cache_misses) == (0, 300, 0)
    assert said(await store.context("acme", "r200"))[-1] == "r200_out"
    assert store.stats.reads == 1
    await store.close()


async def test_the_cache_is_bounded_and_nothing_depends_on_it(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, cache_bytes=20_000)
    contexts = [response(f"r{n}", input=(item(f"i{n}", "x" * 3000),)) for n in range(20)]
    for new in contexts:
        await store.save(new)
    assert 0 < len(store._contexts) < 4
    assert store._contexts.bytes <= 10_000
    for n in range(20):
        assert said(await store.context("acme", f"r{n}")) == [f"i{n}", f"r{n}_out"]
    none = await SqliteStore.open(tmp_path, cache_bytes=0)
    assert said(await chain(none, "a", "b")) == ["a_in", "a_out", "b_in", "b_out"]
    assert none.stats.cache_hits == 0
    await store.close()
    await none.close()


async def test_a_read_overtaken_by_a_deletion_is_not_cached(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "r1", "r2")
    reading = asyncio.ensure_future(store.context("acme", "r1"))
    await asyncio.sleep(0)
    # What another process does when it deletes, and this one when it next looks.
    store._deletion_mark.renew()
    store._refresh_contexts()
    assert await reading is not None
    assert len(store._contexts) == 0
    await store.context("acme", "r1")
    assert len(store._contexts) == 1
    await store.close()


async def test_a_running_response_is_read_anew(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.save(running("r1"))
    await store.context("acme", "r1")
    await store.context("acme", "r1")
    assert store.stats.cache_hits == 0
    await store.close()


async def test_deleting_leaves_no_rows_behind(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "r1", "r2", "r3")
    root = await store.context("acme", "r1")
    await store.save(response("b1", root))
    await store.save(response("b2", root))
    for id in ("r2", "b1", "r1", "b2", "r3"):
        await store.delete("acme", id)
    db = store._writer._db
    for table in ("responses", "items", "events"):
        assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    await store.close()


async def test_pruning_gives_space_back(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    large = StoredItem(None, b'"' + b"x" * 10_000 + b'"')
    await asyncio.gather(*[store.save(response(f"r{n}", input=(large,), expires_at=1)) for n in range(300)])
    await store.size()
    before = store._writer._db.execute("PRAGMA page_count").fetchone()[0]
    assert await store.prune(2) == 300
    assert store._writer._db.execute("PRAGMA page_count").fetchone()[0] < before / 4
    await store.close()


async def test_a_body_does_not_hold_the_output_twice(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    output = b'{"id":"o","text":"' + b"y" * 5000 + b'"}'
    body = b'{"output":[' + output + b'],"id":"r1"}'
    await store.save(NewResponse("r1", "acme", "completed", "m", 1, body, output=output))
    await store.size()
    assert store._writer._db.execute("SELECT body FROM responses").fetchone() == (b'{"output":[],"id":"r1"}',)
    found = await store.get("acme", "r1")
    assert found is not None
    assert found.body == body
    await store.close()
