"""The table of retries: what is tried again, and after how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client.errors import AntiphonError, ConnectionFailed, StatusError, TimedOut, UnexpectedAnswer
from antiphon.client.settings import Retries
from antiphon.client.transport.retry import pause_before_next

FEW = Retries(times=3)


def refused(status: int, type: str = "", code: str = "", after: float | None = None) -> StatusError:
    return StatusError(status, "no", type=type, code=code, retry_after=after)


@pytest.mark.parametrize(
    ("error", "create", "read"),
    [
        (refused(400, "invalid_request"), False, False),
        (refused(404, "not_found"), False, False),
        (refused(401, "authentication_error"), False, False),
        (refused(409), False, False),
        (refused(429, "too_many_requests"), True, True),
        (refused(429, "too_many_requests", "insufficient_quota"), False, False),
        (refused(500, "server_error"), True, True),
        (refused(502), True, True),
        (refused(503), True, True),
        (refused(501), False, False),
        (ConnectionFailed("refused", sent=False), True, True),
        (ConnectionFailed("broke", sent=True), False, True),
        (TimedOut("connect", 1), True, True),
        (TimedOut("read", 1), False, True),
        (TimedOut("total", 1), False, False),
        (UnexpectedAnswer("html"), False, False),
    ],
    ids=str,
)
def test_what_is_tried_again(error: AntiphonError, create: bool, read: bool) -> None:
    assert (pause_before_next(error, 0, FEW, repeatable=False) is not None) == create
    assert (pause_before_next(error, 0, FEW, repeatable=True) is not None) == read


def test_a_model_error_gets_one_more_try() -> None:
    error = refused(500, "model_error")
    pauses = [pause_before_next(error, attempt, FEW, repeatable=False) for attempt in range(3)]
    assert [pause is not None for pause in pauses] == [True, False, False]


@given(
    attempt=st.integers(0, 50),
    chance=st.floats(0, 1, exclude_max=True),
    base=st.floats(0.001, 10),
    cap=st.floats(0.001, 10),
)
def test_the_pause_doubles_up_to_its_cap_and_never_below_half(
    attempt: int, chance: float, base: float, cap: float
) -> None:
    retries = Retries(times=51, base=base, cap=cap)
    pause = pause_before_next(refused(500), attempt, retries, repeatable=False, draw=lambda: chance)
    due = min(cap, base * 2**attempt)
    assert pause is not None
    assert due / 2 <= pause <= due


@given(st.floats(0, 60), st.floats(0, 1))
def test_a_server_that_asks_for_a_pause_gets_it(asked: float, chance: float) -> None:
    pause = pause_before_next(refused(429, after=asked), 0, FEW, repeatable=False, draw=lambda: chance)
    assert pause is not None
    assert asked <= pause <= asked + FEW.base


def test_a_pause_that_is_too_long_is_left_to_the_caller() -> None:
    assert pause_before_next(refused(429, after=61), 0, FEW, repeatable=False) is None
    assert pause_before_next(refused(429, after=5), 0, FEW, repeatable=False, remaining=3) is None
    assert pause_before_next(refused(500), 3, FEW, repeatable=False) is None
