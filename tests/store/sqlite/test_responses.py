"""Rows go in many together, whatever their number, with few different statements."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from antiphon.store import Context
from antiphon.store.sqlite.responses import MOST, SIZES, Plan, insert_plain, plan
from antiphon.store.sqlite.schema import migrate
from tests.store.conformance.values import response


class Listening(sqlite3.Connection):
    """Remembers every statement that it was given."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.heard: set[str] = set()

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self.heard.add(sql)
        return super().execute(sql, *values)


@pytest.fixture
def db() -> Iterator[Listening]:
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=Listening)) as db:
        migrate(db)
        yield db


def group(name: str, previous: list[Context | None]) -> list[Plan]:
    return [plan(response(f"{name}-{n}", one)) for n, one in enumerate(previous)]


def context(plan: Plan) -> Context:
    new = plan.response
    return Context(new.id, new.status, (), new.input, new.output, plan.wanted_place)


def test_groups_of_any_size_are_stored_with_their_names_and_nothing_else(db: Listening) -> None:
    plans: list[Plan] = []
    for count in range(1, MOST + 1):
        begun = group(f"a{count}", [None] * count)
        continued = group(f"b{count}", [context(plan) for plan in begun])
        assert insert_plain(db, begun) == insert_plain(db, continued) == []
        plans += begun + continued

    stored = db.execute("SELECT id, chain, position, input, output FROM responses").fetchall()
    new = [(p.response, p.wanted_place) for p in plans]
    wanted = [(one.id, place.chain, place.position, one.input, one.output) for one, place in new]
    assert sorted(stored) == sorted(wanted)
    named = db.execute("SELECT id, response FROM items").fetchall()
    assert sorted(named) == sorted((name, p.row[0]) for p in plans for name in p.response.names)


def test_of_a_group_only_those_whose_place_is_taken_are_left(db: Listening) -> None:
    first, second = group("a", [None, None])
    assert insert_plain(db, [first, second]) == []
    assert insert_plain(db, group("b", [context(first)])) == []

    again = group("c", [context(first), context(second), None])

    assert insert_plain(db, again) == again[:1]
    ids = {id for (id,) in db.execute("SELECT id FROM responses")}
    assert ids == {"a-0", "a-1", "b-0", "c-1", "c-2"}


def test_groups_of_many_sizes_need_few_statements(db: Listening) -> None:
    """A connection keeps each of them, with the last values bound to it: that would be 11 MB."""
    db.heard.clear()
    for count in range(1, MOST + 1):
        assert insert_plain(db, group(f"{count}", [None] * count)) == []

    assert len(db.heard) <= 2 * len(SIZES)
