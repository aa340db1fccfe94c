"""The breaker of one target: when it opens, who may try it, and what closes it."""

import pytest

from antiphon.engine.routing.breaker import FIRST_PROBE, LONGEST_PROBE, LONGEST_REST, SIZE, Breaker


@pytest.fixture
def living() -> set[int]:
    return {1, 2}


@pytest.fixture
def breaker(living: set[int]) -> Breaker:
    return Breaker(memoryview(bytearray(SIZE * 8)).cast("d"), living.__contains__)


def opened(breaker: Breaker, now: float = 0.0) -> Breaker:
    for _ in range(3):
        breaker.note_failure(now, "ordinary", limit=3, cooldown=60.0)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row(breaker: Breaker) -> None:
    for _ in range(2):
        breaker.note_failure(0, "ordinary", limit=3, cooldown=60)
    breaker.note_success("ordinary")
    for _ in range(2):
        assert breaker.state(0) == "closed"
        breaker.note_failure(0, "ordinary", limit=3, cooldown=60)
    assert breaker.admit(0, 1) == "ordinary"
    breaker.note_failure(0, "ordinary", limit=3, cooldown=60)
    assert breaker.state(59.9) == "open"
    assert breaker.admit(59.9, 1) is None
    assert breaker.wait(20) == 40


def test_one_probe_decides_after_the_cooldown(breaker: Breaker) -> None:
    opened(breaker)
    assert breaker.state(60) == "half_open"
    assert breaker.admit(60, 1) == "probe"
    assert not breaker.admits(61)
    assert breaker.admit(61, 2) is None
    breaker.note_failure(62, "probe", limit=3, cooldown=60)
    assert breaker.admit(121, 1) is None
    assert breaker.admit(122, 2) == "probe"
    breaker.note_success("probe")
    assert breaker.state(122) == "closed"
    assert breaker.failures == 0


def test_a_probe_that_is_being_answered_lets_others_through_and_may_still_fail(breaker: Breaker) -> None:
    opened(breaker)
    assert breaker.admit(60, 1) == "probe"
    breaker.confirm(3)
    assert breaker.admit(60, 2) == "ordinary"
    breaker.note_failure(61, "ordinary", limit=3, cooldown=60)
    assert breaker.state(61) == "open"


def test_a_probe_ends_with_its_process_and_never_lasts_for_ever(breaker: Breaker, living: set[int]) -> None:
    opened(breaker)
    assert breaker.admit(60, 2) == "probe"
    assert breaker.admit(61, 1) is None
    living.remove(2)
    assert breaker.admit(61, 1) == "probe"
    assert breaker.admit(61 + LONGEST_PROBE, 1) == "probe"
    breaker.release("probe")
    assert breaker.admit(62, 1) == "probe"


def test_too_many_requests_open_it_at_once_for_as_long_as_it_says(breaker: Breaker) -> None:
    breaker.note_failure(0, "ordinary", limit=3, cooldown=60, retry_after=7, is_limited=True)
    assert breaker.state(6.9) == "open"
    assert breaker.admit_early(6.9, 1) is None
    assert breaker.admit(7, 1) == "probe"
    breaker.note_failure(7, "probe", limit=3, cooldown=60, is_limited=True)
    assert breaker.wait(7) == 60
    assert breaker.admit_early(8, 1) is None


def test_what_was_sent_before_it_opened_neither_closes_it_nor_keeps_it_open(breaker: Breaker) -> None:
    opened(breaker)
    breaker.note_success("ordinary")
    assert breaker.state(1) == "open"
    breaker.note_failure(50, "ordinary", limit=3, cooldown=60)
    assert breaker.state(60) == "half_open"


def test_one_early_probe_goes_out_until_the_cooldown_is_over(breaker: Breaker) -> None:
    breaker.note_failure(0, "ordinary", limit=3, cooldown=60, is_limited=True)
    assert breaker.admit_early(1, 1) == "probe"
    breaker.note_failure(2, "probe", limit=3, cooldown=60)
    assert breaker.admit_early(61, 1) is None
    assert breaker.admit(62, 1) == "probe"


def test_a_target_rests_for_two_minutes_at_most_whatever_it_says(breaker: Breaker) -> None:
    breaker.note_failure(0, "ordinary", limit=3, cooldown=60, retry_after=86400, is_limited=True)
    assert breaker.state(LONGEST_REST - 1) == "open"
    assert LONGEST_REST == 120
    assert breaker.admit(LONGEST_REST, 1) == "probe"


def test_a_target_that_asks_for_a_long_rest_is_probed_early_where_all_rest(breaker: Breaker) -> None:
    breaker.note_failure(0, "ordinary", limit=3, cooldown=60, retry_after=86400, is_limited=True)
    assert breaker.admit_early(FIRST_PROBE - 1, 1) is None
    assert breaker.admit_early(FIRST_PROBE, 1) == "probe"
    breaker.note_failure(FIRST_PROBE, "probe", limit=3, cooldown=60, retry_after=86400, is_limited=True)
    assert breaker.admit_early(FIRST_PROBE + LONGEST_REST - 1, 1) is None
    assert breaker.admit(FIRST_PROBE + LONGEST_REST, 1) == "probe"


@pytest.mark.parametrize(("retry_after", "rest"), [(None, 60), (0, 60), (7, 60), (90, 90), (3600, 120)])
def test_another_failure_opens_it_for_the_cooldown_at_least(
    breaker: Breaker, retry_after: float | None, rest: float
) -> None:
    """A dead upstream that says `Retry-After: 0` each time would never rest."""
    for at in (0, 1, 2):
        breaker.note_failure(at, "ordinary", limit=3, cooldown=60, retry_after=retry_after)
    assert breaker.wait(2) == rest
    assert breaker.state(2 + rest - 0.1) == "open"
    assert breaker.admit(2 + rest, 1) == "probe"
    breaker.note_failure(2 + rest, "probe", limit=3, cooldown=60, retry_after=retry_after)
    assert breaker.wait(2 + rest) == rest


def test_a_failure_that_does_not_open_it_is_waited_for_as_long_as_it_says(breaker: Breaker) -> None:
    breaker.note_failure(0, "ordinary", limit=3, cooldown=60, retry_after=7)
    assert (breaker.state(0), breaker.wait(0)) == ("closed", 7)
