"""Small saves: safe at once, in the database soon, and never lost on the way."""

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.store import SqliteStore, StoreBusy, StoreError, StoreFull
from antiphon.store.sqlite import opening
from antiphon.store.sqlite.backlog import LARGE
from antiphon.store.sqlite.journal import AbandonedJournal, Journal, find_abandoned, find_journals, finish_all
from antiphon.store.sqlite.journal_format import END, START, VERSION, Record
from tests.store.conformance.settlements import settled
from tests.store.conformance.values import chain, item, response, said
from tests.store.sqlite.test_crash import start

DIES = """
import asyncio, os, sys
from pathlib import Path
from antiphon.store import Settlement, SqliteStore
from tests.store.conformance.values import response

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    context = await store.context("acme", "r1")
    for id in ("r2", "r3"):
        await store.save(response(id, context, settlements=[Settlement(id, "charge", "acme", 1.0, b"{}")]))
        context = await store.context("acme", id)
    assert store.stats.batches == 0
    print("saved", flush=True)
    sys.stdin.readline()
    os._exit(1)

asyncio.run(main())
"""


def lock(folder: Path) -> sqlite3.Connection:
    other = sqlite3.connect(folder / "antiphon.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def rows(found: list[AbandonedJournal]) -> list[bytes]:
    """What is whole in some journals."""
    return [one.data for journal in found for one in journal.records() if one.version == VERSION]


async def settle(store: SqliteStore) -> None:
    await store._backlog.flush()


async def test_a_save_is_readable_at_once_and_in_the_database_soon(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, cache_bytes=0)
    await store.save(response("r1"))
    assert store.stats.batches == 0
    assert await store.get("acme", "r1") is not None
    assert store.stats.batches == 1
    await store.close()
    assert find_journals(tmp_path / "antiphon.db") == []


async def test_what_a_dead_process_saved_is_found_by_the_next(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "r1")
    await store.close()
    child = start(DIES, str(tmp_path))
    assert child.stdout is not None
    assert child.stdout.readline() == b"saved\n"
    child.communicate(b"die\n")
    assert len(find_journals(tmp_path / "antiphon.db")) == 2
    store = await SqliteStore.open(tmp_path)
    everything = [f"{id}_{side}" for id in ("r1", "r2", "r3") for side in ("in", "out")]
    assert said(await store.context("acme", "r3")) == everything
    assert [one.run for one in await settled(store)] == ["r2", "r3"]
    await store.close()
    assert find_journals(tmp_path / "antiphon.db") == []


async def test_a_living_process_finds_what_a_dead_one_saved(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "r1")
    await settle(store)
    child = start(DIES, str(tmp_path))
    assert child.stdout is not None
    child.stdout.readline()
    child.communicate(b"die\n")
    assert await store.get("acme", "r3") is not None
    await store.close()


async def test_another_process_sees_a_save_after_a_moment(tmp_path: Path) -> None:
    one, two = [await SqliteStore.open(tmp_path) for _ in range(2)]
    await one.save(response("r1"))
    assert await two.get("acme", "r1") is not None
    await one.save(response("r2"))
    assert await two.delete("acme", "r2") is True
    assert await one.get("acme", "r2") is None
    await one.save(response("r3", input=(item("asked"),)))
    assert (await two.items("acme", ["asked"])).keys() == {"asked"}
    await one.close()
    await two.close()


async def test_a_place_that_was_taken_before_a_crash_becomes_a_branch(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    root = await chain(store, "r1")
    await settle(store)
    child = start(DIES, str(tmp_path))
    assert child.stdout is not None
    child.stdout.readline()
    await store.save(response("quicker", root))
    await settle(store)
    child.communicate(b"die\n")
    assert said(await store.context("acme", "r2")) == ["r1_in", "r1_out", "r2_in", "r2_out"]
    assert said(await store.context("acme", "quicker")) == ["r1_in", "r1_out", "quicker_in", "quicker_out"]
    await store.close()


async def test_a_locked_database_takes_nothing_new_but_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "BUSY_TIMEOUT", 0.05)
    store = await SqliteStore.open(tmp_path)
    await store.save(response("old"))
    await settle(store)
    other = lock(tmp_path)
    await store.save(response("r1"))
    with pytest.raises(StoreBusy):
        await settle(store)
    with pytest.raises(StoreBusy, match="nothing was written"):
        await store.save(response("r2"))
    assert await store.get("acme", "old") is not None
    with pytest.raises(StoreBusy):
        await store.get("acme", "r2")
    assert said(await store.context("acme", "r1")) == ["r1_in", "r1_out"]
    other.execute("ROLLBACK")
    other.close()
    assert await store.get("acme", "r1") is not None
    await store.save(response("r2"))
    assert await store.get("acme", "r2") is not None
    await store.close()


async def test_rows_that_could_not_be_written_wait_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "BUSY_TIMEOUT", 0.05)
    store = await SqliteStore.open(tmp_path)
    other = lock(tmp_path)
    await store.save(response("r1"))
    with pytest.raises(StoreBusy):
        await settle(store)
    await store.close()
    other.execute("ROLLBACK")
    other.close()
    store = await SqliteStore.open(tmp_path)
    assert await store.get("acme", "r1") is not None
    await store.close()


async def test_a_full_database_takes_nothing_new_but_loses_nothing(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, max_bytes=400_000)
    kept: list[str] = []

    async def fill() -> None:
        for n in range(100):
            await store.save(response(f"r{n}", input=(item("large", "x" * (LARGE // 2)),)))
            kept.append(f"r{n}")
            await settle(store)

    with pytest.raises(StoreFull):
        await fill()
    with pytest.raises(StoreFull):
        await store.save(response("later"))
    await store.close()
    store = await SqliteStore.open(tmp_path)
    assert all([await store.get("acme", id) is not None for id in kept])
    assert await store.get("acme", "later") is None
    await store.close()


async def test_a_second_continuation_within_the_moment_becomes_a_branch(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, cache_bytes=0)
    root = await chain(store, "r1")
    for id in ("a", "b"):
        await store.save(response(id, root))
    for id in ("a", "b"):
        assert said(await store.context("acme", id)) == ["r1_in", "r1_out", f"{id}_in", f"{id}_out"]
    await store.close()


async def test_a_long_chain_within_the_moment_keeps_its_order(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    names = [f"r{n}" for n in range(700)]
    await chain(store, *names)
    await store.close()
    store = await SqliteStore.open(tmp_path)
    assert said(await store.context("acme", "r699")) == [f"{n}_{s}" for n in names for s in ("in", "out")]
    (chains,) = store._writer._db.execute("SELECT count(DISTINCT chain) FROM responses").fetchone()
    assert chains == 1
    await store.close()


def test_a_journal_without_room_refuses_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "antiphon.db"
    journal = Journal(database)
    journal.append(b"kept")
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda file, data, at: len(data) // 2)
        with pytest.raises(StoreFull, match="nothing was written"):
            journal.append(b"lost" * 100_000)
    journal.append(b"after")
    journal.close()
    (found,) = find_abandoned(database)
    assert found.records() == [Record(VERSION, b"kept"), Record(VERSION, b"after")]
    finish_all([found])
    assert find_journals(database) == []


def test_a_journal_grows_with_what_it_holds(tmp_path: Path) -> None:
    database = tmp_path / "antiphon.db"
    journal = Journal(database)
    records = [bytes([n]) * 20_000 for n in range(100)]
    for record in records:
        journal.append(record)
    journal.close()
    (found,) = find_abandoned(database)
    assert found.records() == [Record(VERSION, record) for record in records]
    finish_all([found])


@given(st.lists(st.lists(st.binary(max_size=30), max_size=5), min_size=1, max_size=6))
def test_what_a_journal_held_before_it_was_emptied_is_void(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[bytes]]
) -> None:
    database = tmp_path_factory.mktemp("void") / "antiphon.db"
    journal = Journal(database)
    for records in rounds:
        journal.empty(journal.switch_files())
        journal.empty(journal.switch_files())
        for record in records:
            journal.append(record)
    journal.close()
    found = find_abandoned(database)
    assert rows(found) == rounds[-1]
    finish_all(found)


def test_a_journal_in_use_is_nobody_elses(tmp_path: Path) -> None:
    database = tmp_path / "antiphon.db"
    journal = Journal(database)
    journal.append(b"mine")
    assert find_abandoned(database) == []
    other = Journal(database)
    (held,) = other.files_of_others()
    journal.empty(journal.switch_files())
    assert other.files_of_others() == {}
    journal.append(b"again")
    assert other.files_of_others().keys() != {held}
    other.close()
    journal.close()


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_a_torn_journal_gives_every_whole_record_before_the_tear(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], data: st.DataObject
) -> None:
    database = tmp_path_factory.mktemp("torn") / "antiphon.db"
    journal = Journal(database, sync=True)
    ends = [START]
    for record in records:
        journal.append(record)
        ends.append(ends[-1] + len(END) + len(record))
    at = data.draw(st.integers(START, ends[-1]))
    for side in journal._sides:
        side.close()
    os.truncate(journal._sides[0].path, at)
    found = find_abandoned(database)
    restore_body = [record for record, end in zip(records, ends[1:], strict=True) if end <= at]
    assert rows(found) == restore_body
    finish_all(found)


async def test_closing_twice_and_saving_after_is_an_error(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await asyncio.gather(store.close(), store.close())
    with pytest.raises(StoreError, match="closed"):
        await store.save(response("r1"))
