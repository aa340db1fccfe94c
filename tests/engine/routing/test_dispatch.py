"""Who is asked next, step by step, without I/O."""

import pytest

from antiphon.config import RouteSettings, Target
from antiphon.engine.routing import dispatch as module
from antiphon.engine.routing.dispatch import Ask, Dispatch, Wait
from antiphon.engine.routing.order import Candidate
from antiphon.engine.routing.states import States

A, B = Target("a", "m"), Target("b", "m")


class Fixed:
    """A random number that is known."""

    def random(self) -> float:
        return 0.5


def dispatching(*targets: Target, states: States | None = None, **settings: object) -> Dispatch:
    known = states or States([A, B])
    candidates = [Candidate(target, known[target]) for target in targets]
    return Dispatch(RouteSettings(**settings), known, candidates, random=Fixed())  # type: ignore[arg-type]


def ask(dispatch: Dispatch, now: float) -> Ask:
    step = dispatch.next(now)
    assert isinstance(step, Ask)
    return step


def test_a_retry_waits_for_as_long_as_the_target_asks_and_a_little_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.5)
    one = dispatching(A, retries=5)
    one.failed(ask(one, 100), "overloaded", 100, retry_after=3)
    assert one.next(100) == Wait(3.25)
    assert ask(one, 103.25).reason == "again after overloaded of a/m"
    one = dispatching(A, retries=5)
    one.failed(ask(one, 100), "overloaded", 100, retry_after=60)
    assert one.next(100) is None


def test_the_pause_before_a_retry_grows_and_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.5)
    one, now, waits = dispatching(A, retries=8, failures=100), 100.0, []
    for _ in range(7):
        one.failed(ask(one, now), "timeout", now)
        step = one.next(now)
        assert isinstance(step, Wait)
        waits.append(step.seconds)
        now += step.seconds
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_a_target_whose_budget_is_used_up_is_not_asked_again() -> None:
    states = States([A, B])
    while states[A].budget.take(100):
        pass
    one = dispatching(A, states=states)
    one.failed(ask(one, 100), "timeout", 100)
    assert one.next(100) is None


def test_another_target_is_asked_at_once_and_that_is_no_retry() -> None:
    states = States([A, B])
    while states[B].budget.take(100):
        pass
    one = dispatching(A, B, states=states)
    one.failed(ask(one, 100), "timeout", 100)
    assert ask(one, 100).target == B


def test_a_rate_limit_that_is_short_is_waited_for() -> None:
    one = dispatching(A)
    one.failed(ask(one, 100), "rate_limit", 100, retry_after=2)
    step = one.next(100)
    assert isinstance(step, Wait)
    assert step.seconds >= 2
    assert ask(one, 100 + step.seconds).admission == "probe"
