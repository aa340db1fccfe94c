"""Who may have a process to work in now: so many at once, and no tenant at the cost of the others."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class FairSlots:
    """A number of slots. A tenant has half of them at most, and a free one goes to whoever has the fewest.

    So one who sends any number of calls makes another wait for one of them to end, and not for all.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._most = max(1, slots // 2)
        self._running: Counter[str] = Counter()
        self._served: dict[str, int] = {}
        self._turns = count(1)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def taken(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a slot, and have it for as long as this lasts."""
        await self._take(tenant)
        try:
            yield
        finally:
            self._give_back(tenant)

    async def _take(self, tenant: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        self._hand_out()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._give_back(tenant)
            raise

    def _give_back(self, tenant: str) -> None:
        self._free += 1
        self._running[tenant] -= 1
        self._hand_out()
        if not self._running[tenant] and tenant not in self._waiting:
            del self._running[tenant]
            self._served.pop(tenant, None)

    def _hand_out(self) -> None:
        while self._free and (tenant := self._next()) is not None:
            waiting = self._waiting[tenant]
            waiter = waiting.popleft()
            if not waiting:
                del self._waiting[tenant]
            if not waiter.cancelled():
                self._free -= 1
                self._running[tenant] += 1
                self._served[tenant] = next(self._turns)
                waiter.set_result(None)

    def _next(self) -> str | None:
        """The tenant with the fewest; of those, the one whose last turn was longest ago."""
        able = [tenant for tenant in self._waiting if self._running[tenant] < self._most]
        return min(able, key=lambda one: (self._running[one], self._served.get(one, 0)), default=None)
