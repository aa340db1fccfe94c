"""Rows have a version, damage costs the record that it hit and no other, and what cannot be read is kept."""

import logging
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.store import SqliteStore, check
from antiphon.store.sqlite.backlog import _encode
from antiphon.store.sqlite.journal import (
    SET_ASIDE,
    Journal,
    find_abandoned,
    find_journals,
    find_set_aside,
    finish_all,
)
from antiphon.store.sqlite.journal_format import (
    DAMAGED,
    END,
    START,
    VERSION,
    Record,
    encode_header,
    encode_record,
    new_mark,
    read_records,
)
from antiphon.store.sqlite.responses import Row, plan
from tests.store.conformance.values import chain, response

SECRET = "what the user asked in confidence"


def row(id: str) -> Row:
    return plan(response(id)).row


def left_behind(folder: Path, *records: Record, name: str = "-journal2-dead") -> Path:
    """The journal of a process that died."""
    mark = new_mark()
    data = encode_header(mark) + b"".join(
        encode_record(mark, one.data, one.version)[: -len(END)] for one in records
    )
    path = folder / f"antiphon.db{name}"
    path.write_bytes(data + bytes(1000))
    return path


async def found(folder: Path, *ids: str) -> list[str]:
    """Those of the ids that a store opened in this folder has."""
    store = await SqliteStore.open(folder)
    try:
        return [id for id in ids if await store.get("acme", id) is not None]
    finally:
        await store.close()


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_one_flipped_bit_sets_aside_at_most_the_record_that_it_hit(
    records: list[bytes], data: st.DataObject
) -> None:
    mark = new_mark()
    file = bytearray(encode_header(mark))
    ends = [len(file)]
    for record in records:
        file += encode_record(mark, record)[: -len(END)]
        ends.append(len(file))
    # What an earlier round left behind, under its own mark.
    file += END + encode_record(new_mark(), b"of an earlier round")
    bit = data.draw(st.integers(0, 8 * (ends[-1] + len(END)) - 1))
    file[bit // 8] ^= 1 << bit % 8
    hit = [n for n, (start, end) in enumerate(pairwise(ends)) if start <= bit // 8 < end]
    told = list(read_records(bytes(file)))
    assert [one.data for one in told if one.version == VERSION] == [
        record for n, record in enumerate(records) if n not in hit
    ]
    assert [one.version for one in told if one.version != VERSION] == [DAMAGED] * len(hit)


def test_a_flipped_bit_in_any_place_of_a_real_journal(tmp_path: Path) -> None:
    database = tmp_path / "antiphon.db"
    journal = Journal(database)
    journal.append(b"an earlier round, with a longer record than those that follow it")
    journal.empty(journal.switch_files())
    journal.empty(journal.switch_files())
    records = [b"first", b"", b"third"]
    for record in records:
        journal.append(record)
    (restore_body,) = [side.path.read_bytes() for side in journal._sides if side.size > START]
    journal.close()
    for bit in range(8 * (START + sum(len(record) + len(END) for record in records) + len(END))):
        damaged = bytearray(restore_body)
        damaged[bit // 8] ^= 1 << bit % 8
        told = list(read_records(bytes(damaged)))
        lost = [one for one in told if one.version != VERSION]
        assert len(lost) <= 1
        assert [one.data for one in told if one.version == VERSION] in [
            [record for n, record in enumerate(records) if n != without or not lost] for without in range(3)
        ]


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_a_record_inside_a_record_is_never_taken_for_one(before: bytes, after: bytes) -> None:
    """Not even when the length of the record around it is damaged."""
    mark = new_mark()
    forged = before + encode_record(new_mark(), b"forged") + after
    file = bytearray(
        encode_header(mark) + encode_record(mark, forged)[: -len(END)] + encode_record(mark, b"next")
    )
    file[START + 12] ^= 1
    assert [one.version for one in read_records(bytes(file))] == [DAMAGED, VERSION]


async def test_a_damaged_record_stops_neither_the_start_nor_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = [Record(VERSION, _encode(row(id))) for id in ("r1", "r2", "r3")]
    path = left_behind(tmp_path, *records)
    file = bytearray(path.read_bytes())
    file[START + len(END) + len(records[0].data) + len(END) + 5] ^= 4
    path.write_bytes(file)
    assert [len(told) for told in (check(tmp_path).problems, find_journals(tmp_path / "antiphon.db"))] == [
        1,
        1,
    ]
    with caplog.at_level(logging.ERROR):
        assert await found(tmp_path, "r1", "r2", "r3") == ["r1", "r3"]
    (kept,) = find_set_aside(tmp_path / "antiphon.db")
    assert f"is set aside in {kept.name}: " in caplog.text
    at, length = (len(END) + len(record.data) for record in records[:2])
    assert list(read_records(kept.read_bytes())) == [Record(DAMAGED, bytes(file[START + at :][:length]))]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert find_journals(tmp_path / "antiphon.db") == []
    assert "damaged" in check(tmp_path).problems[0]
    assert await found(tmp_path, "r1", "r2", "r3") == ["r1", "r3"]


BAD = {
    "of a newer version": Record(VERSION + 1, _encode(row("bad"))),
    "no MessagePack": Record(VERSION, b"\xc1"),
    "too few columns": Record(VERSION, _encode(row("bad")[:-1])),
    "a column of another type": Record(VERSION, _encode((SECRET, *row("bad")[1:]))),
    "a number that SQLite does not take": Record(VERSION, _encode((2**63 + 1, *row("bad")[1:]))),
    "names that are no list": Record(VERSION, _encode((*row("bad")[:11], '{"a": 1}', *row("bad")[12:]))),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_a_row_that_cannot_be_read_is_set_aside_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: Record
) -> None:
    left_behind(tmp_path, *[Record(VERSION, _encode(row("r1"))), bad, Record(VERSION, _encode(row("r2")))])
    assert await found(tmp_path, "r1", "r2", "bad") == ["r1", "r2"]
    assert caplog.text.count("is set aside in") == 1
    assert SECRET not in caplog.text
    (kept,) = find_set_aside(tmp_path / "antiphon.db")
    assert list(read_records(kept.read_bytes())) == [bad]
    told = check(tmp_path)
    assert (told.responses, told.set_aside, len(told.problems)) == (2, 1, 1)
    assert SECRET not in told.problems[0]


async def test_a_row_of_a_newer_version_is_read_by_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its name is given back, as the documentation says."""
    left_behind(tmp_path, Record(VERSION + 1, _encode(row("r1"))))
    assert await found(tmp_path, "r1") == []
    (kept,) = find_set_aside(tmp_path / "antiphon.db")
    kept.rename(kept.with_name(kept.name.replace(SET_ASIDE, "-journal2-")))
    monkeypatch.setattr("antiphon.store.sqlite.backlog.VERSION", VERSION + 1)
    assert await found(tmp_path, "r1") == ["r1"]


def test_a_journal_is_released_once_and_with_whoever_has_found_it(tmp_path: Path) -> None:
    """A cancelled request kept the lock for ever; a second release closed a file of somebody else."""
    left_behind(tmp_path, Record(VERSION, _encode(row("r1"))))
    found = find_abandoned(tmp_path / "antiphon.db")
    assert find_abandoned(tmp_path / "antiphon.db") == []
    del found
    (held,) = find_abandoned(tmp_path / "antiphon.db")
    held.release()
    with open(os.devnull, "rb") as other:  # which gets the number that is free now
        held.release()
        assert other.read() == b""
    (held,) = find_abandoned(tmp_path / "antiphon.db")
    held.release()


async def test_what_is_set_aside_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_behind(tmp_path, Record(VERSION, b"\xc1"), Record(VERSION, _encode(row("r1"))))
    (held,) = find_abandoned(tmp_path / "antiphon.db")
    held.set_aside(held.records()[0], "bad")
    with monkeypatch.context() as full:
        full.setattr(os, "fdopen", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        finish_all([held])
    (kept,) = find_set_aside(tmp_path / "antiphon.db")
    assert Record(VERSION, b"\xc1") in list(read_records(kept.read_bytes()))
    assert find_journals(tmp_path / "antiphon.db") == []


async def test_check_finds_nothing_wrong_with_what_is_in_use(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "r1", "r2")
    assert check(tmp_path).waiting == 2
    await store._backlog.flush()
    told = check(tmp_path)
    assert (told.responses, told.waiting, told.set_aside, told.problems) == (2, 0, 0, [])
    await store.close()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE responses SET input = x'7b22' WHERE id = 'r2'", "the input of response r2 is not JSON"),
        ("UPDATE responses SET body = NULL WHERE id = 'r2'", "the body of response r2 is not JSON"),
        ("DELETE FROM responses WHERE id = 'r1'", "of responses has a gap"),
        ("INSERT INTO events VALUES (7, 0, 0, x'')", "events are kept of response 7"),
        ("INSERT INTO conversation_items VALUES (7, 0, 'i', x'')", "items are kept of conversation 7"),
    ],
)
async def test_check_tells_what_is_wrong_in_the_database(tmp_path: Path, damage: str, told: str) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, "r1", "r2")
    await store._write(lambda db: db.execute(damage).rowcount)
    await store.close()
    (problem,) = check(tmp_path).problems
    assert told in problem


async def test_check_tells_a_damaged_page(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await chain(store, *[f"r{n}" for n in range(100)])
    await store.close()
    path = tmp_path / "antiphon.db"
    pages = bytearray(path.read_bytes())
    pages[5 * 4096 : 6 * 4096] = b"\xff" * 4096
    path.write_bytes(pages)
    assert check(tmp_path).problems
