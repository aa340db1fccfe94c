"""The budget for retries: a fifth of what clients sent within a minute, and ten at least."""

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.routing.retry_budget import LEAST, SHARE, SIZE, RetryBudget


def budget() -> RetryBudget:
    return RetryBudget([0.0] * SIZE)


def test_ten_a_minute_are_allowed_without_any_traffic() -> None:
    one = budget()
    assert [one.take(100.0) for _ in range(11)] == [True] * 10 + [False]
    assert not one.take(159.9)
    assert one.count_left(161.0) == 10


def test_a_fifth_of_the_traffic_is_allowed_when_that_is_more() -> None:
    one = budget()
    for n in range(200):
        one.count_sent(1000 + n / 10)
    assert one.count_left(1020) == 40
    assert one.count_left(1085) == 10


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=400))
def test_no_minute_has_more_retries_than_it_may(steps: list[tuple[bool, float]]) -> None:
    one, now = budget(), 1000.0
    sent: list[float] = []
    retried: list[float] = []
    for is_retry, wait in steps:
        now += wait
        if not is_retry:
            one.count_sent(now)
            sent.append(now)
        elif one.take(now):
            retried.append(now)
            within = sum(1 for at in retried if at > now - 60)
            traffic = sum(1 for at in sent if at > now - 60)
            assert within <= max(LEAST, traffic // SHARE)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(-1, 90)), max_size=200))
def test_everything_that_was_ever_sent_stays_counted(steps: list[tuple[bool, bool, float]]) -> None:
    """Also after the ring has gone round, by two processes, and where the clock goes back a little."""
    cells = memoryview(bytearray(SIZE * 8)).cast("d")
    both, now, counted = (RetryBudget(cells), RetryBudget(cells)), 1000.0, 0
    for by_other, is_retry, wait in steps:
        one, now = both[by_other], now + wait
        if is_retry:
            counted += one.take(now)
        else:
            one.count_sent(now)
            counted += 1
        assert both[not by_other].requests == counted


def test_a_second_begins_while_no_other_process_counts() -> None:
    held, cells = [], [0.0] * SIZE

    @contextmanager
    def changing() -> Iterator[None]:
        before = list(cells)
        yield
        held.append(before != cells)

    one = RetryBudget(cells, changing)
    for now in (100.0, 100.5, 101.0, 101.9, 103.0):
        one.count_sent(now)
    assert held == [True] * 3
