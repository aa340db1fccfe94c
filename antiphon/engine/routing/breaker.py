"""A breaker for one target: closed, open for a while after failures, then half open for one probe.

A caller asks `admit` before it sends something to the target, and notes how it went. A probe is one
request that finds out whether the target is back; no other is admitted until its outcome is known. A
process that dies cannot tell the outcome of its probe, so a probe ends with the process that sent it.
"""

from collections.abc import Callable
from typing import Literal

from antiphon.engine.routing.shared_numbers import CellAttribute, Cells

FAILURES, REOPENS_AT, _NOT_BEFORE, _PROBE_OWNER, _PROBE_SINCE = range(5)
"""The cells. Those that every request looks at are read by their number, which is no call."""
SIZE = 5
LONGEST_PROBE = 600.0
"""After so many seconds a probe without an outcome is taken for lost."""
LONGEST_REST = 120.0
"""A target rests for no more seconds because it said so itself: one answer would take it from everybody."""
FIRST_PROBE = 30.0
"""So many seconds after it said that it must rest, it is probed if every other target rests as well."""

ELSEWHERE = -1.0
"""The owner of a probe that another machine has sent."""

Admission = Literal["ordinary", "probe"]
BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """Times are seconds of any clock that never goes back by much; an owner is the id of a process."""

    __slots__ = ("_is_alive", "cells")

    failures = CellAttribute(FAILURES)
    """In a row."""
    reopens_at = CellAttribute(REOPENS_AT)
    """From then on a probe is admitted; 0 while it is closed."""
    not_before = CellAttribute(_NOT_BEFORE)
    """It is not probed before this: the target said so itself, or a probe has failed."""
    probe_owner = CellAttribute(_PROBE_OWNER)
    probe_since = CellAttribute(_PROBE_SINCE)

    def __init__(self, cells: Cells, is_alive: Callable[[int], bool] = bool) -> None:
        self.cells = cells
        self._is_alive = is_alive

    @property
    def is_closed(self) -> bool:
        """Then anybody may be sent, and nothing changes by that."""
        return not self.cells[REOPENS_AT]

    @property
    def has_failures(self) -> bool:
        return bool(self.cells[FAILURES])

    def state(self, now: float) -> BreakerState:
        if not self.reopens_at:
            return "closed"
        return "open" if now < self.reopens_at else "half_open"

    def is_probed(self, now: float) -> bool:
        """Is a probe under way?"""
        owner = int(self.probe_owner)
        return bool(owner) and now - self.probe_since < LONGEST_PROBE and self._is_alive(owner)

    def admits(self, now: float) -> bool:
        """Would `admit` let a request through?"""
        return not self.reopens_at or (now >= self.reopens_at and not self.is_probed(now))

    def admit(self, now: float, owner: int) -> Admission | None:
        """How a request may be sent now, or None if it may not; a probe is under way from then on."""
        if not self.reopens_at:
            return "ordinary"
        if now < self.reopens_at or self.is_probed(now):
            return None
        return self._begin_probe(now, owner)

    def admit_early(self, now: float, owner: int) -> Admission | None:
        """A probe before its time, for when every target is open; just one, and never against its will."""
        if now < self.not_before or self.is_probed(now):
            return None
        return self._begin_probe(now, owner) if self.reopens_at else "ordinary"

    def wait(self, now: float) -> float:
        """How many seconds until it is worth asking again; one more while a probe is under way."""
        return max((self.reopens_at or self.not_before) - now, 1.0 if self.is_probed(now) else 0.0, 0.0)

    def confirm(self, limit: int) -> None:
        """A probe is being answered: the target is there, and one more failure opens it again."""
        self.failures = float(limit - 1)
        self.reopens_at = self.not_before = self.probe_owner = 0.0

    def note_success(self, admission: Admission) -> None:
        """The target has answered. What was sent before it opened does not close it."""
        if admission == "probe":
            self.failures = self.reopens_at = self.not_before = self.probe_owner = 0.0
        elif self.failures and not self.reopens_at:
            self.failures = self.not_before = 0.0

    def note_failure(
        self,
        now: float,
        admission: Admission,
        *,
        limit: int,
        cooldown: float,
        retry_after: float | None = None,
        is_limited: bool = False,
    ) -> None:
        """The target has failed; `is_limited` says that it had too many requests, which opens it at once.

        It then rests for as long as it asks, within `LONGEST_REST`. After any other failure it rests no less
        than the cooldown.
        """
        self.failures += 1
        asked = None if retry_after is None else min(retry_after, LONGEST_REST)
        rest = asked if is_limited and asked is not None else max(cooldown, asked or 0.0)
        if admission == "probe":
            self.probe_owner = 0.0
        # Any other request that was sent before it opened says nothing new about when it is back.
        if is_limited or admission == "probe" or (self.failures >= limit and not self.reopens_at):
            self.reopens_at = max(self.reopens_at, now + rest)
        # Where all targets fail, one early probe after another would be as many as there are requests.
        pause = rest if admission == "probe" else min(asked or 0.0, FIRST_PROBE)
        if pause:
            self.not_before = max(self.not_before, now + pause)

    def release(self, admission: Admission) -> None:
        """What was sent ended without saying anything about the target."""
        if admission == "probe":
            self.probe_owner = 0.0

    def follow(self, reopens_at: float, not_before: float) -> None:
        """Another machine has opened or closed it."""
        self.reopens_at, self.not_before = reopens_at, not_before
        if not reopens_at:
            self.failures = 0.0

    def probed_elsewhere(self, now: float, is_probed: bool) -> None:
        """Another machine has a probe under way, or has none; a probe of this one goes on."""
        if is_probed and not self.is_probed(now):
            self.probe_owner, self.probe_since = ELSEWHERE, now
        elif not is_probed and self.probe_owner == ELSEWHERE:
            self.probe_owner = 0.0

    def _begin_probe(self, now: float, owner: int) -> Admission:
        self.probe_owner, self.probe_since = float(owner), now
        return "probe"
