"""Who is asked next, step by step, without I/O."""

import pytest

from antiphon.config import RouteSettings, Target
from antiphon.engine.routing import dispatch as module
from antiphon.engine.routing.dispatch import Dispatch, Grant, Wait
from antiphon.engine.routing.order import Candidate
from antiphon.engine.routing.states import States

A, B, C = (Target(name, "m") for name in "abc")


class Fixed:
    """A random number that is known."""

    def random(self) -> float:
        return 0.5


def dispatching(
    *targets: Target, states: States | None = None, spare: Target | None = None, **settings: object
) -> Dispatch:
    known = states or States([A, B, C])
    candidates = [Candidate(target, known[target]) for target in targets]
    last = Candidate(spare, known[spare]) if spare is not None else None
    return Dispatch(RouteSettings(**settings), known, candidates, last, Fixed())  # type: ignore[arg-type]


def ask(dispatch: Dispatch, now: float) -> Grant:
    step = dispatch.next(now)
    assert isinstance(step, Grant)
    return step


def test_a_retry_waits_for_as_long_as_the_target_asks_and_a_little_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.5)
    one = dispatching(A, retries=5)
    one.note_failure(ask(one, 100), "overloaded", 100, retry_after=3)
    assert one.next(100) == Wait(3.25)
    assert ask(one, 103.25).reason == "again after overloaded of a/m"
    one = dispatching(A, retries=5)
    one.note_failure(ask(one, 100), "overloaded", 100, retry_after=60)
    assert one.next(100) is None


def test_the_pause_before_a_retry_grows_and_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.5)
    one, now, waits = dispatching(A, retries=8, failures=100), 100.0, []
    for _ in range(7):
        one.note_failure(ask(one, now), "timeout", now)
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
    one.note_failure(ask(one, 100), "timeout", 100)
    assert one.next(100) is None


def test_another_target_is_asked_at_once_and_that_is_no_retry() -> None:
    states = States([A, B])
    while states[B].budget.take(100):
        pass
    one = dispatching(A, B, states=states)
    one.note_failure(ask(one, 100), "timeout", 100)
    assert ask(one, 100).target == B


def test_a_rate_limit_that_is_short_is_waited_for() -> None:
    one = dispatching(A)
    one.note_failure(ask(one, 100), "rate_limit", 100, retry_after=2)
    step = one.next(100)
    assert isinstance(step, Wait)
    assert step.seconds >= 2
    assert ask(one, 100 + step.seconds).admission == "probe"


def test_a_target_that_asked_for_a_pause_is_not_asked_again_before_one_that_did_not() -> None:
    one = dispatching(A, B, retries=5)
    one.note_failure(ask(one, 100), "overloaded", 100, retry_after=6)
    one.note_failure(ask(one, 100), "overloaded", 100)
    step = one.next(100)
    assert isinstance(step, Wait)
    assert step.seconds < 1
    assert ask(one, 100 + step.seconds).target == B


def test_a_clock_that_was_set_back_a_little_does_not_end_the_waiting() -> None:
    one = dispatching(A, retries=5)
    one.note_failure(ask(one, 100), "rate_limit", 100, retry_after=2)
    assert isinstance(one.next(100), Wait)
    assert ask(one, 101.99).target == A


@pytest.mark.parametrize("retries", [0, 2])
def test_a_context_that_is_too_long_goes_to_the_spare_target_whatever_is_left_of_the_retries(
    retries: int,
) -> None:
    one = dispatching(*(A, B)[: retries or 1], spare=C, retries=retries)
    if retries:
        one.note_failure(ask(one, 100), "timeout", 100)
        one.attempts += 1
    assert one.note_failure(ask(one, 100), "too_long", 100)
    last = ask(one, 100)
    assert (last.target, last.reason) == (C, "the context is too long for the others")
    assert not one.note_failure(last, "too_long", 100)
    assert one.next(100) is None


@pytest.mark.parametrize("then", ["timeout", "unsupported"])
def test_the_spare_target_is_asked_after_others_that_could_not_help(then: str) -> None:
    """One target is known to be too small; what the next one says does not change that."""
    one = dispatching(A, B, spare=C, retries=1)
    one.note_refusal(ask(one, 100), "too_long")
    second = ask(one, 100)
    assert (second.target, second.reason) == (B, "a/m cannot take this request")
    if then == "timeout":
        one.note_failure(second, "timeout", 100)
    else:
        one.note_refusal(second)
    last = ask(one, 100)
    assert (last.target, last.reason) == (C, "the context is too long for the others")


def test_the_spare_target_is_left_alone_when_nothing_was_too_long() -> None:
    one = dispatching(A, spare=C, retries=5)
    one.note_refusal(ask(one, 100))
    assert one.next(100) is None


def test_what_was_not_sent_is_no_attempt_and_no_probe() -> None:
    states = States([A, B, C])
    states[A].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    one = dispatching(A, B, states=states, retries=0)
    probe = ask(one, 100)
    assert probe.admission == "probe"
    one.note_refusal(probe)
    assert not states[A].breaker.is_probed(100)
    assert ask(one, 100).target == B


def test_when_all_are_open_the_one_that_reopens_soonest_is_probed() -> None:
    states = States([A, B, C])
    for target, cooldown in ((A, 60), (B, 20), (C, 40)):
        states[target].breaker.note_failure(100, "ordinary", limit=1, cooldown=cooldown)
    one = dispatching(A, B, C, states=states)
    first = ask(one, 101)
    assert (first.target, first.admission) == (B, "probe")
    other = dispatching(A, B, C, states=states)
    assert other.next(101) is None
    assert other.retry_after(101) == 19


def test_nobody_is_probed_early_while_one_that_failed_can_be_asked_again() -> None:
    states = States([A, B, C])
    states[B].breaker.note_failure(100, "ordinary", limit=1, cooldown=60)
    one = dispatching(A, B, states=states, retries=3, failures=5)
    one.note_failure(ask(one, 100), "timeout", 100)
    step = one.next(100)
    assert isinstance(step, Wait)
    assert ask(one, 100 + step.seconds).target == A


def test_a_mistake_of_the_client_shows_that_the_target_is_well() -> None:
    states = States([A, B, C])
    one = dispatching(A, states=states)
    one.note_failure(ask(one, 100), "timeout", 100)
    assert states[A].breaker.failures == 1
    assert isinstance(one.next(100), Wait)
    assert not one.note_failure(ask(one, 110), "request", 110)
    assert states[A].breaker.failures == 0


def test_a_spare_target_that_has_said_no_itself_is_not_asked_again() -> None:
    one = dispatching(A, B, spare=A, retries=5)
    assert not one.note_failure(ask(one, 100), "too_long", 100)
    assert one.next(100) is None
    one = dispatching(A, B, spare=B, retries=5)
    one.note_refusal(ask(one, 100), "too_long")
    one.note_refusal(ask(one, 100), "too_long")
    assert one.next(100) is None


def test_a_target_that_is_back_during_a_pause_does_not_end_the_pause() -> None:
    states = States([A, B, C])
    states[B].breaker.note_failure(99, "ordinary", limit=1, cooldown=60, retry_after=1.2, is_limited=True)
    one = dispatching(A, B, states=states, retries=5, failures=5)
    one.note_failure(ask(one, 100), "overloaded", 100, retry_after=1)
    step = one.next(100)
    assert isinstance(step, Wait)
    probe = ask(one, 100 + step.seconds)
    assert (probe.target, probe.admission) == (B, "probe")
    one.note_failure(probe, "overloaded", 100 + step.seconds)
    assert isinstance(one.next(100 + step.seconds), Wait)
