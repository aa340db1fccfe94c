"""A clock that has jumped forward removes nothing."""

import sqlite3

import pytest

from antiphon.store.sqlite.clock_check import DAY, ClockCheck, ClockJumped
from antiphon.store.sqlite.schema import migrate

START = 1_800_000_000.0


class Clocks:
    """The clock on the wall, which somebody may set, and a steady one."""

    wall = START
    steady = 100.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def db() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    migrate(db)
    return db


def opened(clocks: Clocks) -> ClockCheck:
    return ClockCheck(lambda: clocks.wall, lambda: clocks.steady)


def add(db: sqlite3.Connection, *days: float) -> None:
    """Conversations that were made so many days after the start."""
    for day in days:
        given = (f"conv_{db.total_changes}", int(START + day * DAY))
        db.execute(
            "INSERT INTO conversations (id, tenant, metadata, created_at) VALUES (?, '', '', ?)", given
        )


def jumps(check: ClockCheck, db: sqlite3.Connection, day: float) -> bool:
    try:
        check.check(db, START + day * DAY)
    except ClockJumped:
        return True
    return False


def test_a_store_that_is_used_every_day_is_pruned(db: sqlite3.Connection, clocks: Clocks) -> None:
    check = opened(clocks)
    assert not jumps(check, db, 0)
    for day in range(40):
        add(db, day)
        assert not jumps(check, db, day + 0.1)
        assert not jumps(check, db, day + 0.9)


def test_a_clock_more_than_a_day_after_the_newest_row_is_not_believed(
    db: sqlite3.Connection, clocks: Clocks
) -> None:
    add(db, 0, 0.5, 1, 1.5)
    assert jumps(opened(clocks), db, 41.5)
    assert jumps(opened(clocks), db, 2.6)
    assert not jumps(opened(clocks), db, 2.4)


def test_new_rows_do_not_make_a_wrong_clock_right(db: sqlite3.Connection, clocks: Clocks) -> None:
    add(db, 0, 0.5, 1, 1.5, 41.5, 41.6)
    assert jumps(opened(clocks), db, 41.7)
    assert not jumps(opened(clocks), db, 42.55)


def test_a_gateway_that_has_run_for_a_day_is_believed_though_nothing_is_stored(
    db: sqlite3.Connection, clocks: Clocks
) -> None:
    add(db, -5)
    check = opened(clocks)
    assert jumps(check, db, 0)
    clocks.pass_by(DAY)
    assert not jumps(check, db, 1)
    clocks.wall += 40 * DAY
    assert jumps(check, db, 41)
