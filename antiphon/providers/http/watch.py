"""One timer for many things that take time: it looks at each when the first may have run out of it."""

import asyncio
from asyncio import TimerHandle
from math import inf
from typing import Protocol

GRAIN = 0.1
"""However many exchanges there are, they are not looked at more often than this."""


class Timed(Protocol):
    def check(self, now: float) -> float:
        """End itself if it has taken too long; else say when to look again."""


class Watch:
    __slots__ = ("_grain", "_next", "_open", "_timer")

    def __init__(self, grain: float = GRAIN) -> None:
        self._grain = grain
        self._open: set[Timed] = set()
        self._timer: TimerHandle | None = None
        self._next = inf

    def add(self, exchange: Timed, due: float) -> None:
        self._open.add(exchange)
        if due < self._next:
            self._look_at(due)

    def remove(self, exchange: Timed) -> None:
        self._open.discard(exchange)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._next = inf

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = when
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        self._next = inf
        now = asyncio.get_running_loop().time()
        due = min([exchange.check(now) for exchange in self._open], default=inf)
        if due < inf:
            self._look_at(max(due, now + self._grain))
