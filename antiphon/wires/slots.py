"""Which tenant may work now, where only so many can at once, and for which tenant a task works."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from itertools import count


class FairSlots:
    """A number of slots, which tenants take in turns.

    A tenant has half of them at most, and the last free one only if it has no other: so two tenants together
    cannot hold all of them, for as long as their calls take, against a third. With `all_for_one`, a tenant
    may have all that no other waits for. The next of the waiting tenants is the one with the fewest slots,
    and then the one that has waited longest since it came, or since it last took or gave back a slot.
    """

    def __init__(self, slots: int, *, all_for_one: bool = False) -> None:
        self._free = slots
        self._most = slots if all_for_one else max(1, slots // 2)
        self._kept = 0 if all_for_one else 1  # for tenants that have none
        self._running: Counter[str] = Counter()
        self._since: dict[str, int] = {}
        self._turns = count(1)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def hold(self, tenant: str, on_wait: Callable[[], None] | None = None) -> AsyncIterator[None]:
        """Wait for a slot, and have it for as long as this lasts; `on_wait` is called if none is free."""
        await self.take(tenant, on_wait)
        try:
            yield
        finally:
            self.give_back(tenant)

    async def take(self, tenant: str, on_wait: Callable[[], None] | None = None) -> None:
        """Wait for a slot, which is held until `give_back`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        self._since.setdefault(tenant, next(self._turns))
        self._hand_out()
        try:
            if on_wait is not None and not waiter.done():
                on_wait()
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give_back(tenant)
            else:
                self._take_out(tenant, waiter)
                self._forget(tenant)
            raise

    def give_back(self, tenant: str) -> None:
        self._free += 1
        self._running[tenant] -= 1
        self._since[tenant] = next(self._turns)
        self._hand_out()
        self._forget(tenant)

    def _forget(self, tenant: str) -> None:
        """Keep nothing of a tenant that neither has a slot nor waits for one."""
        if not self._running[tenant] and tenant not in self._waiting:
            del self._running[tenant]
            self._since.pop(tenant, None)

    def _hand_out(self) -> None:
        while self._free and (tenant := self._next()) is not None:
            waiter = self._waiting[tenant][0]
            self._take_out(tenant, waiter)
            if waiter.cancelled():  # its task has not come to see that yet
                continue
            self._free -= 1
            self._running[tenant] += 1
            self._since[tenant] = next(self._turns)
            waiter.set_result(None)

    def _take_out(self, tenant: str, waiter: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(tenant, deque())
        with suppress(ValueError):
            waiting.remove(waiter)
        if not waiting:
            self._waiting.pop(tenant, None)

    def _next(self) -> str | None:
        able = [
            tenant
            for tenant in self._waiting
            if (running := self._running[tenant]) < self._most and (self._free > self._kept or not running)
        ]
        return min(able, key=lambda one: (self._running[one], self._since[one]), default=None)


_tenant: ContextVar[str] = ContextVar("tenant", default="")


work_for: Callable[[str], object] = _tenant.set
"""Mark this task, and the tasks that it starts, as working for this tenant."""

tenant_at_work: Callable[[], str] = _tenant.get
