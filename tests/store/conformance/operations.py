"""Operations on records: each is one transaction, and is begun anew when it is carried out again."""

from __future__ import annotations

import pytest

from antiphon.store import BrowserSession, Store, StoreConflict
from antiphon.store.records.short_lived import create_session
from antiphon.store.statements import Steps, execute, get_backend, one, rows

SESSION = BrowserSession("digest", "laptop", "key", 4_000_000_000)


def create_and_fail() -> Steps[None]:
    yield from create_session(SESSION)
    raise StoreConflict("this is not to be kept")


def count() -> Steps[tuple[int, int]]:
    """How many sessions there are, once by a list of values and once by a number of rows."""
    listed = yield from rows("SELECT key_name FROM sessions WHERE digest = ANY(?)", ["digest", "other"])
    row = yield from one("SELECT count(*)::int8 FROM sessions")
    assert row is not None
    return len(listed), row[0]


def nothing() -> Steps[str]:
    yield from get_backend()
    return "asked nothing"


class Operations:
    async def test_an_operation_that_fails_halfway_leaves_nothing(self, store: Store) -> None:
        for way in ("write", "remove"):
            with pytest.raises(StoreConflict, match="not to be kept"):
                await store._carry_out(create_and_fail, way)
            assert await store.session("digest") is None
        await store.create_session(SESSION)
        assert await store.session("digest") == SESSION

    async def test_lists_and_counts_mean_the_same_in_both_databases(self, store: Store) -> None:
        assert await store._carry_out(count, "read") == (0, 0)
        await store.create_session(SESSION)
        assert await store._carry_out(count, "read") == (1, 1)
        changed = "UPDATE sessions SET key_name = ? WHERE digest = ANY(?)"
        assert await store._carry_out(lambda: execute(changed, "desk", ["digest"]), "write") == 1
        assert await store._carry_out(lambda: execute(changed, "desk", []), "write") == 0
        assert await store._carry_out(nothing, "read") == "asked nothing"
