"""One request on its way through the targets of a route: which is asked next, and when none is.

No I/O and no clock: the caller asks the targets, waits, and notes how it went.
"""

from random import Random
from typing import NamedTuple

from msgspec import Struct

from antiphon.config import RouteSettings, Target
from antiphon.engine.routing.breaker import Admission
from antiphon.engine.routing.failure_kinds import AttemptFailure, too_long_for_all
from antiphon.engine.routing.order import Candidate
from antiphon.engine.routing.states import States
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload, SpecError

FIRST_WAIT = 0.5
"""The first retry waits up to so many seconds, each further one up to twice as long."""
LONGEST_WAIT = 8.0
"""A target that asks for a longer pause than this is not waited for."""
UNAVAILABLE = "targets_unavailable"
FOR_LONG = "the context is too long for the others"
"""Why the spare target is asked."""
_SLACK = 0.05
"""A target may be asked again so many seconds too soon: clocks are set right now and then."""

# Asking again does not make a key valid.
_HOPELESS: frozenset[AttemptFailure] = frozenset({"auth"})


class Grant(Struct, eq=False):
    """Leave to ask this target now. Say how it went: here, or to `Dispatch` if it failed."""

    candidate: Candidate
    target: Target
    admission: Admission
    reason: str

    def prove(self, states: States, limit: int) -> None:
        """Its first words have come. A probe has shown then that the target is there; others may follow."""
        if self.admission == "probe":
            with states.changing():
                self.candidate.breaker.confirm(limit)
            self.admission = "ordinary"

    def succeed(self, states: States) -> None:
        breaker = self.candidate.breaker
        if breaker.has_failures or self.admission == "probe":
            with states.changing():
                breaker.note_success(self.admission)

    def release(self, states: States) -> None:
        """The attempt ended, and says nothing about the target."""
        if self.admission == "probe":
            with states.changing():
                self.candidate.breaker.release(self.admission)


class Wait(NamedTuple):
    """Ask no target for so many seconds, and then `next` again."""

    seconds: float


class Dispatch(Struct, eq=False):
    """Call `next` until it gives None, and do what it says.

    What failed is reported with `note_failure`, or with `note_refusal`.
    """

    settings: RouteSettings
    states: States
    untried: list[Candidate]
    """Who can be asked, in order; it is used up."""
    spare: Candidate | None = None
    """Who is asked when the context is too long for those."""
    random: Random | None = None
    attempts: int = 0
    """How many targets were asked, one of them twice counting twice."""
    _again: list[Candidate] = []  # those that failed in a way which may pass
    _retries: int = 0
    _is_due: bool = False  # the wait before a retry is over
    _is_over: bool = False
    _why: str = ""

    @property
    def has_candidates(self) -> bool:
        """Is there anybody who could be asked, now or later?"""
        return bool(self.untried or self._again)

    def next(self, now: float) -> Grant | Wait | None:
        if self._is_over or self.attempts > self.settings.retries:
            return None
        for candidate in self.untried:
            if candidate.breaker.is_closed:
                return self._ask(candidate, "ordinary", now)
            if candidate.breaker.admits(now):
                with self.states.changing():
                    admission = candidate.breaker.admit(now, self.states.owner)
                if admission is not None:
                    return self._ask(candidate, admission, now)
        return self._probe_early(now) or self._retry(now)

    def retry_after(self, now: float) -> float:
        """In how many seconds a target may be asked, when none can be now."""
        waits = [one.breaker.wait(now) for one in (*self.untried, *self._again)]
        return max(1.0, min(waits, default=1.0))

    def nobody(self, targets: str, now: float) -> UpstreamError | SpecError:
        """Why no target was asked: the context fits none, or all rest; `targets` names them."""
        if not self.has_candidates:
            return too_long_for_all(targets)
        wait = self.retry_after(now)
        message = f"{targets} rests after failures; try again in {wait:.0f} s"
        return UpstreamError(ErrorPayload("server_error", message, UNAVAILABLE, "model"), 503, wait)

    def note_refusal(self, grant: Grant, kind: AttemptFailure = "unsupported") -> None:
        """The failure says nothing about the target: it does not count, not even as an attempt."""
        grant.release(self.states)
        self.attempts -= 1
        self._why = f"{grant.target} cannot take this request"
        self._is_over = kind == "request"
        if kind == "too_long":
            self._turn_to_spare(grant)

    def drop_retries(self) -> None:
        """There is content: other targets may continue it, and none that has failed is asked again."""
        self._again.clear()

    def end(self) -> None:
        """Ask no target any more."""
        self._is_over = True

    def note_failure(
        self,
        grant: Grant,
        kind: AttemptFailure,
        now: float,
        retry_after: float | None = None,
        *,
        is_due_to_target: bool = True,
    ) -> bool:
        """Record the failure of an attempt. True if another may follow.

        What may be due to what was sent counts for the tenant of the request alone.
        """
        candidate, settings = grant.candidate, self.settings
        if kind in ("request", "too_long", "unsupported"):
            grant.succeed(self.states)  # it has said no to this request, and is well
            # The others have no more room, and the spare one is no further attempt at the same.
            self.untried, self.attempts = [], self.attempts - 1
            if kind == "too_long":
                self._turn_to_spare(grant)
            self._again.clear()
            self._is_over = not self.untried
            return not self._is_over
        state = candidate.state
        with self.states.changing():
            state.errors += 1
            limit, cooldown = settings.failures, settings.cooldown
            if is_due_to_target or candidate.own is None:
                candidate.breaker.note_failure(
                    now,
                    grant.admission,
                    limit=limit,
                    cooldown=cooldown,
                    retry_after=retry_after,
                    is_limited=kind == "rate_limit",
                )
            else:
                candidate.own.note_failure_of_tenant(
                    now, limit=limit, cooldown=cooldown, retry_after=retry_after
                )
        self._why = f"after {kind} of {grant.target}"
        self._is_over = kind not in settings.fallback_on
        if kind not in _HOPELESS and candidate not in self._again:
            self._again.append(candidate)
        return not self._is_over

    def _turn_to_spare(self, grant: Grant) -> None:
        """The context is too long for this target: the spare one is asked after the others.

        One that is listed as well has had its turn, or gets it.
        """
        known = {grant.target, *(one.target for one in (*self.untried, *self._again))}
        if self.spare is not None and self.spare.target not in known:
            self.untried.append(self.spare)

    def _ask(self, candidate: Candidate, admission: Admission, now: float) -> Grant:
        self.untried.remove(candidate)
        candidate.state.budget.count_sent(now)
        candidate.state.estimates.note_question(now)
        self._is_due = False
        self.attempts += 1
        why = FOR_LONG if candidate is self.spare else self._why or candidate.reason
        reason = "probe" if admission == "probe" else why
        return Grant(candidate, candidate.target, admission, reason)

    def _probe_early(self, now: float) -> Grant | None:
        """When all are open, the one that reopens soonest gets one probe, if it has not forbidden that."""
        if not self.untried or any(one.breaker.state(now) == "closed" for one in self._again):
            return None
        soonest = min(self.untried, key=lambda one: one.breaker.reopens_at)
        with self.states.changing():
            admission = soonest.breaker.admit_early(now, self.states.owner)
        return None if admission is None else self._ask(soonest, admission, now)

    def _retry(self, now: float) -> Grant | Wait | None:
        """Ask one again that failed, after a pause of random length, and within its budget."""
        if self._is_due:
            self._is_due = False
            for candidate in self._again:
                with self.states.changing():
                    state = candidate.state
                    soon = now + _SLACK
                    if not candidate.breaker.wait(soon) and state.budget.take(now):
                        admission = candidate.breaker.admit(soon, self.states.owner)
                        assert admission is not None
                        self._retries += 1
                        self.attempts += 1
                        return Grant(candidate, candidate.target, admission, f"again {self._why}")
            return None
        waits = [one.breaker.wait(now) for one in self._again if one.state.budget.count_left(now)]
        soonest = min(waits, default=LONGEST_WAIT + 1)
        if soonest > LONGEST_WAIT:
            return None
        self._is_due = True
        jitter = (self.random or Random()).random() * min(LONGEST_WAIT, FIRST_WAIT * 2**self._retries)
        return Wait(soonest + jitter)
