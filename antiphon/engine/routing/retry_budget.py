"""How often a target may be asked again: a share of what clients sent to it, so that retries never storm."""

from contextlib import nullcontext

from antiphon.engine.routing.shared_numbers import CellAttribute, Cells, Changing

WINDOW = 60
"""Seconds."""
SHARE = 5
"""One retry for so many requests of clients."""
LEAST = 10
"""So many a minute are allowed whatever the clients sent."""

_SLOTS = WINDOW + 1  # with the second that is not over, so that no minute has more than it may
_SECOND, _SENT, _RETRIED = range(3)
_RING = _SLOTS * 3
SIZE = _RING + 2


class RetryBudget:
    """Counts by the second, in a ring.

    Two processes that count at the very same moment may count once; so a little less is allowed, never more.
    """

    __slots__ = ("_changing", "_end", "_slot", "_start", "cells")

    machines = CellAttribute(_RING)
    """How many share what is allowed whatever the clients sent; 0 is one."""
    _earlier = CellAttribute(_RING + 1)
    """How often the target was asked in seconds that the ring has no room for any more."""

    def __init__(self, cells: Cells, changing: Changing = nullcontext) -> None:
        """`changing` keeps other processes out while more than one number changes."""
        self.cells = cells
        self._changing = changing
        self._start = self._end = 0.0  # of the second that was counted last here, and where that is
        self._slot = 0

    @property
    def requests(self) -> int:
        """How often the target was asked in all, for the first time and again."""
        ring = list(self.cells[:_RING])
        return int(self._earlier + sum(ring[_SENT::3]) + sum(ring[_RETRIED::3]))

    def count_sent(self, now: float, kind: int = _SENT) -> None:
        """A client's request goes to this target for the first time; or, by its kind, a retry."""
        if not self._start <= now < self._end:
            with self._changing():
                self._begin_second(int(now))
        self.cells[self._slot + kind] += 1

    def take(self, now: float) -> bool:
        """May it be asked again? Then that is counted."""
        if not self.count_left(now):
            return False
        self.count_sent(now, _RETRIED)
        return True

    def count_left(self, now: float) -> int:
        """How many retries are allowed now."""
        sent = retried = 0.0
        cells, second = self.cells, int(now)
        for slot in range(0, _RING, 3):
            age = second - cells[slot + _SECOND]
            if 0 <= age <= WINDOW:
                retried += cells[slot + _RETRIED]
                sent += cells[slot + _SENT] if age < WINDOW else 0.0
        least = -(-LEAST // int(self.machines or 1))
        return max(0, max(least, int(sent) // SHARE) - int(retried))

    def _begin_second(self, second: int) -> None:
        """Count there from now on; what the slot had counted a minute ago is kept in the sum alone."""
        self._start, self._end = float(second), second + 1.0
        cells, slot = self.cells, second % _SLOTS * 3
        self._slot = slot
        if cells[slot] != second:  # otherwise another process was here first
            self._earlier += cells[slot + _SENT] + cells[slot + _RETRIED]
            cells[slot], cells[slot + _SENT], cells[slot + _RETRIED] = float(second), 0.0, 0.0
