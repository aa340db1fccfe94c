"""One timer for many deadlines: it checks all of them when the first may have passed."""

import asyncio
from asyncio import TimerHandle
from math import inf
from typing import Protocol

GRAIN = 0.1
"""How many seconds pass at least between two checks."""


class Timed(Protocol):
    def check(self, now: float) -> float:
        """End itself if it has taken too long; else say when to look again."""


class DeadlineTimer:
    __slots__ = ("_grain", "_timed", "_timer", "next", "remove")

    def __init__(self, grain: float = GRAIN) -> None:
        self._grain = grain
        self._timed: set[Timed] = set()
        self.remove = self._timed.discard
        self._timer: TimerHandle | None = None
        self.next = inf
        """When it checks next; `look_at` moves that to an earlier time."""

    def add(self, one: Timed, due: float = inf) -> None:
        self._timed.add(one)
        if due < self.next:
            self.look_at(due)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.next = inf

    def look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.next = when
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        self.next = inf
        now = asyncio.get_running_loop().time()
        due = min([one.check(now) for one in self._timed], default=inf)
        if due < inf:
            self.look_at(max(due, now + self._grain))
