"""What expired long ago is removed in portions, so that a person can notice a mistake."""

import logging

import pytest

from antiphon.store.records.retention import HOUR, PORTION, prune_portion

NOW = 1_000_000.0


class Rows:
    """Rows by the time at which they expire, removed fifty at a time."""

    def __init__(self, expiring: list[float]) -> None:
        self.left = expiring

    async def remove(self, since: float, until: float) -> int:
        doomed = [one for one in self.left if since < one <= until][:50]
        for one in doomed:
            self.left.remove(one)
        return len(doomed)


async def test_what_expired_in_the_last_hour_goes_at_once() -> None:
    rows = Rows([NOW - 60.0] * 1000)
    assert await prune_portion(rows.remove, NOW, 1000) == 1000


async def test_what_expired_long_ago_goes_in_portions_that_the_log_tells(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = Rows([NOW - 2 * HOUR] * 1000 + [NOW + 1.0])
    with caplog.at_level(logging.WARNING):
        assert await prune_portion(rows.remove, NOW, 1001) == PORTION
    assert "removed 200 things that had expired more than an hour ago" in caplog.text
    for _ in range(5):
        await prune_portion(rows.remove, NOW, 1001)
    assert rows.left == [NOW + 1.0]


async def test_a_portion_of_a_large_store_is_a_hundredth() -> None:
    rows = Rows([1.0] * 1000)
    assert await prune_portion(rows.remove, NOW, 50_000) == 500
