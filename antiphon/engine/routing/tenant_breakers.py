"""What one tenant's requests have met at a target, so that they shut no other tenant out.

A refusal (4xx) or an HTTP 500 may be due to what was sent: it counts for this tenant at this target alone, in
a breaker of the same kind. Those breakers lie in a table of fixed size that the workers of a machine share;
each is found by a digest, so that nothing of a tenant stands in it, and the one that failed longest ago makes
room.
"""

from collections.abc import Callable
from hashlib import blake2b

from antiphon.engine.routing import breaker
from antiphon.engine.routing.breaker import Admission, Breaker, BreakerState

_GROUPS = 512
_WAYS = 4
_KEY, _SEEN, _CELLS = range(3)
_ENTRY = _CELLS + breaker.SIZE
_LAST = 0  # when something failed last, in any entry
SIZE = 1 + _GROUPS * _WAYS * _ENTRY
"""In cells."""
FORGOTTEN = 3600.0
"""After so many seconds a failure of a tenant counts no more."""


def key_of(tenant: str, target: str) -> float:
    digest = blake2b(f"{tenant}\0{target}".encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return float(int.from_bytes(digest, "big") or 1)


class TenantBreakers:
    """The table, over the memory that it is given. What changes it holds the lock of the states."""

    def __init__(self, cells: "memoryview[float]", is_alive: Callable[[int], bool]) -> None:
        self._cells = cells
        self._is_alive = is_alive

    def is_used(self, now: float) -> bool:
        """Has anything failed lately? Otherwise nothing has to be looked for."""
        return now - self._cells[_LAST] < FORGOTTEN

    def find(self, key: float, now: float) -> Breaker | None:
        cells = self._cells
        for at in self._entries(key):
            if cells[at + _KEY] == key and now - cells[at + _SEEN] < FORGOTTEN:
                return self._breaker(at)
        return None

    def make(self, key: float, now: float) -> Breaker:
        """The breaker of this key, in which something has failed now."""
        cells, entries = self._cells, self._entries(key)
        found = next((at for at in entries if cells[at + _KEY] == key), None)
        at = min(entries, key=lambda entry: cells[entry + _SEEN]) if found is None else found
        if found is None or now - cells[at + _SEEN] >= FORGOTTEN:
            for n in range(at, at + _ENTRY):
                cells[n] = 0.0
        cells[at + _KEY] = key
        cells[at + _SEEN] = cells[_LAST] = now
        return self._breaker(at)

    def forget(self, key: float) -> None:
        for at in self._entries(key):
            if self._cells[at + _KEY] == key:
                self._cells[at + _KEY] = self._cells[at + _SEEN] = 0.0

    def _breaker(self, at: int) -> Breaker:
        return Breaker(self._cells[at + _CELLS : at + _ENTRY], self._is_alive)

    def _entries(self, key: float) -> range:
        first = 1 + int(key) % _GROUPS * _WAYS * _ENTRY
        return range(first, first + _WAYS * _ENTRY, _ENTRY)


class TenantBreaker:
    """The breaker of a target as one request of a tenant meets it: both the target's and the tenant's own.

    It has the methods of a `Breaker`, and `note_failure_of_tenant` for what may be due to what was sent.
    """

    __slots__ = ("_admission", "_key", "_name", "_now", "_own_admission", "_table", "_target", "_tenant")

    def __init__(self, target: Breaker, name: str, table: TenantBreakers, tenant: str, now: float) -> None:
        self._target = target
        self._name = name
        self._table = table
        self._tenant = tenant
        self._now = now
        self._key = 0.0
        self._admission: Admission = "ordinary"
        self._own_admission: Admission = "ordinary"

    @property
    def _own(self) -> Breaker | None:
        if not self._table.is_used(self._now):
            return None
        return self._table.find(self._find_key(), self._now)

    @property
    def is_closed(self) -> bool:
        return self._target.is_closed and ((own := self._own) is None or own.is_closed)

    @property
    def has_failures(self) -> bool:
        return self._target.has_failures or ((own := self._own) is not None and own.has_failures)

    @property
    def reopens_at(self) -> float:
        return max(one.reopens_at for one in self._both())

    def state(self, now: float) -> BreakerState:
        states = [one.state(now) for one in self._both()]
        return next((state for state in states if state != "closed"), "closed")

    def admits(self, now: float) -> bool:
        return all(one.admits(now) for one in self._both())

    def wait(self, now: float) -> float:
        return max(one.wait(now) for one in self._both())

    def admit(self, now: float, owner: int) -> Admission | None:
        return self._admit(self._target.admit(now, owner), lambda own: own.admit(now, owner))

    def admit_early(self, now: float, owner: int) -> Admission | None:
        return self._admit(self._target.admit_early(now, owner), lambda own: own.admit_early(now, owner))

    def confirm(self, limit: int) -> None:
        if self._admission == "probe":
            self._target.confirm(limit)
        if self._own_admission == "probe" and (own := self._own) is not None:
            own.confirm(limit)
        self._begin_anew()

    def note_success(self, admission: Admission) -> None:
        self._target.note_success(self._admission)
        if (own := self._own) is not None:
            own.note_success(self._own_admission)
            if not own.has_failures:
                self._table.forget(self._find_key())
        self._begin_anew()

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
        """The target has failed in a way that every tenant would meet."""
        self._target.note_failure(
            now,
            self._admission,
            limit=limit,
            cooldown=cooldown,
            retry_after=retry_after,
            is_limited=is_limited,
        )
        if (own := self._own) is not None:
            own.release(self._own_admission)
        self._begin_anew()

    def note_failure_of_tenant(
        self, now: float, *, limit: int, cooldown: float, retry_after: float | None = None
    ) -> None:
        """It has failed in a way that may be due to what this tenant sent, and says nothing to the others."""
        own = self._table.make(self._find_key(), now)
        self._now = now
        own.note_failure(now, self._own_admission, limit=limit, cooldown=cooldown, retry_after=retry_after)
        self._target.release(self._admission)
        self._begin_anew()

    def release(self, admission: Admission) -> None:
        self._target.release(self._admission)
        if (own := self._own) is not None:
            own.release(self._own_admission)
        self._begin_anew()

    def _both(self) -> tuple[Breaker, ...]:
        return (self._target,) if (own := self._own) is None else (self._target, own)

    def _admit(
        self, admission: Admission | None, admit: Callable[[Breaker], Admission | None]
    ) -> Admission | None:
        """As the target admits it, and as the tenant's own breaker does."""
        if admission is None:
            return None
        own = self._own
        mine = "ordinary" if own is None else admit(own)
        if mine is None:
            self._target.release(admission)
            return None
        self._admission, self._own_admission = admission, mine
        return "probe" if "probe" in (admission, mine) else "ordinary"

    def _begin_anew(self) -> None:
        self._admission = self._own_admission = "ordinary"

    def _find_key(self) -> float:
        self._key = self._key or key_of(self._tenant, self._name)
        return self._key
