"""The state of every target of every route, shared by the workers of one machine.

One worker keeps it in memory of its own. Several map one file in the data folder: the numbers lie there as
they are, and whatever changes more than one of them holds a lock on a second file, which the kernel lets go
when its holder dies. The file means nothing once no worker has it: the first that opens it begins anew.

A target is found there by a digest of its name. So processes may have different targets, and add some while
they run; a place that was taken stays taken, with what is known, until the file is begun anew.
"""

import fcntl
import logging
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from pathlib import Path

from antiphon.config import Target
from antiphon.engine.routing import affinity, breaker, estimates, retry_budget, tenant_breakers
from antiphon.engine.routing.affinity import Affinity
from antiphon.engine.routing.breaker import Breaker
from antiphon.engine.routing.estimates import Estimates
from antiphon.engine.routing.retry_budget import RetryBudget
from antiphon.engine.routing.shared_numbers import CellAttribute, Cells, Changing
from antiphon.engine.routing.tenant_breakers import TenantBreaker, TenantBreakers

log = logging.getLogger(__name__)

FILE = "routes.state"
LOCK = "routes.lock"
LEADER = "routes.leader"
MOST = 256
"""So many targets have a place in a file; more are each process's own."""
_HEAD = 8  # cells at the start of a file; the first says how it is laid out
_BREAKER = 1 + breaker.SIZE
_ESTIMATES = _BREAKER + estimates.SIZE
SIZE = _ESTIMATES + retry_budget.SIZE
_PLACES = _HEAD + MOST  # where the places of targets begin, after the digests of their names
_TENANTS = _PLACES + MOST * SIZE
_CELLS = _TENANTS + tenant_breakers.SIZE
_BYTES = _CELLS * 8 + affinity.BYTES


class TargetState:
    """What is known about one target."""

    __slots__ = ("breaker", "budget", "cells", "estimates", "name", "target")

    errors = CellAttribute(0)

    def __init__(
        self,
        target: Target,
        cells: Cells,
        is_alive: Callable[[int], bool] = bool,
        changing: Changing = nullcontext,
    ) -> None:
        self.target = target
        self.name = str(target)
        self.cells = cells
        self.breaker = Breaker(cells[1:_BREAKER], is_alive)
        self.estimates = Estimates(cells[_BREAKER:_ESTIMATES])
        self.budget = RetryBudget(cells[_ESTIMATES:], changing)

    @classmethod
    def alone(cls, target: Target, is_alive: Callable[[int], bool] = bool) -> "TargetState":
        """One that nothing else shares."""
        return cls(target, [0.0] * SIZE, is_alive)


class States:
    """The targets by name, and which of them each chain was answered by."""

    def __init__(self, targets: Iterable[Target] = (), folder: Path | None = None) -> None:
        """Without a folder the state is this process's own."""
        self.owner = os.getpid()
        self._files: list[int] = []
        self._folder = folder
        self._leading: int | None = None
        self._depth = 0
        self._by_target: dict[Target, TargetState] = {}
        shared = self._map_file(folder) if folder is not None else None
        self._shared = None if shared is None else memoryview(shared)[: _CELLS * 8].cast("d")
        if self._shared is None:
            own = memoryview(bytearray(tenant_breakers.SIZE * 8)).cast("d")
        else:
            own = self._shared[_TENANTS:]
        self._tenants = TenantBreakers(own, self._is_alive)
        table = memoryview(mmap.mmap(-1, affinity.BYTES) if shared is None else shared)
        self.affinity = Affinity(table[-affinity.BYTES :].cast("Q"))
        self.add(targets)

    def __getitem__(self, target: Target) -> TargetState:
        return self._by_target[target]

    def __iter__(self) -> Iterator[TargetState]:
        return iter(self._by_target.values())

    def add(self, targets: Iterable[Target]) -> None:
        """Keep the state of these targets too; what is known of a target stays."""
        for target in targets:
            if target not in self._by_target:
                self._by_target[target] = self._find_state(target)

    def _find_state(self, target: Target) -> TargetState:
        shared = self._shared
        if shared is None:
            self.affinity.name(len(self._by_target), target)
            return TargetState.alone(target, self._is_alive)
        place = self._find_place(shared, str(target))
        if place is None:
            log.warning("%s is one target too many to share what is known of it with other workers", target)
            return TargetState.alone(target, self._is_alive)
        self.affinity.name(place, target)
        start = _PLACES + place * SIZE
        return TargetState(target, shared[start : start + SIZE], self._is_alive, self.changing)

    def _find_place(self, shared: "memoryview[float]", name: str) -> int | None:
        """The place that a target has in the file, or takes there; None if there is no more."""
        digest = float(int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big") or 1)
        with self._hold_lock():
            for place in range(MOST):
                if not shared[_HEAD + place]:
                    shared[_HEAD + place] = digest
                if shared[_HEAD + place] == digest:
                    return place
        return None

    def breaker_of(self, target: Target, tenant: str, now: float) -> TenantBreaker:
        """The breaker of a target as one request of this tenant meets it."""
        state = self._by_target[target]
        return TenantBreaker(state.breaker, state.name, self._tenants, tenant, now)

    def has_tenant_failures(self, now: float) -> bool:
        """Has any request of any tenant failed lately in a way that counts for its tenant alone?"""
        return self._tenants.is_used(now)

    def changing(self) -> AbstractContextManager[None]:
        """Hold this while a breaker or a budget is changed; it is short, and nothing is awaited inside."""
        return self._hold_lock() if self._files else nullcontext()

    def leads(self) -> bool:
        """Is it this process that speaks for the machine? One of all that share the state does."""
        if self._folder is None or not self._files:
            return True
        if self._leading is None:
            file = os.open(self._folder / LEADER, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            self._leading = file
        return True

    def close(self) -> None:
        if self._leading is not None:
            os.close(self._leading)
            self._leading = None
        for file in self._files:
            fcntl.flock(file, fcntl.LOCK_UN)  # the mapping holds it too
            os.close(file)
        self._files = []

    def _map_file(self, folder: Path) -> mmap.mmap | None:
        layout = float(_BYTES)
        file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
        except BlockingIOError:
            pass  # somebody has it, and means something by it
        fcntl.flock(file, fcntl.LOCK_SH)
        self._files = [os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600), file]
        why = "a server of another version uses %s"
        with self._hold_lock():
            if os.fstat(file).st_size == 0 and not _fill(file, _BYTES):
                why = "there is no room for %s"
            elif os.fstat(file).st_size == _BYTES:
                memory = mmap.mmap(file, _BYTES)
                with memoryview(memory)[:8].cast("d") as head:
                    head[0] = head[0] or layout
                    if head[0] == layout:
                        return memory
        log.warning(why + "; this server keeps its own state", folder / FILE)
        self.close()
        return None

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        if not self._depth:
            fcntl.flock(self._files[0], fcntl.LOCK_EX)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                fcntl.flock(self._files[0], fcntl.LOCK_UN)

    def _is_alive(self, process: int) -> bool:
        if process == self.owner or process < 0:  # one below is on another machine, which says if it ends
            return True
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def _fill(file: int, size: int) -> bool:
    """Write as many zeros. A hole that finds no place on the disk kills the process that writes to it."""
    try:
        if os.pwrite(file, bytes(size), 0) == size:
            return True
    except OSError:
        pass
    os.ftruncate(file, 0)
    return False
