"""Background work by rows, owners and heartbeats, where the processes of one machine share a store.

An owner is one process. It works on what it has stored itself; with its heartbeat it hears of cancellations
from other processes, and it takes over what silent ones left behind.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from antiphon.engine.background.job import Pace
from antiphon.spec import ids
from antiphon.store.base import StoredResponse, StoreError
from antiphon.store.store import OwnedRowStore

log = logging.getLogger(__name__)


class JobRunner(Protocol):
    """What works on responses in this process."""

    @property
    def is_busy(self) -> bool: ...

    def stop_work(self, id: str) -> None:
        """Cancel this response: a client has asked for it."""
        ...

    def resume_in_task(self, orphan: StoredResponse) -> None:
        """Go on with a response that was claimed, without being waited for."""
        ...


class OwnedRows:
    """Beats for this process while it works, and looks for the work of dead owners."""

    is_shared = False
    """Do other processes go on at once with what this one leaves? They are found by their silence."""

    def __init__(
        self, store: OwnedRowStore, clock: Callable[[], float], pace: Pace, runner: JobRunner
    ) -> None:
        self.owner = ids.new_id("owner_")
        self._store = store
        self._clock = clock
        self._pace = pace
        self._runner = runner
        self._keeper: asyncio.Task[None] | None = None
        self._late_loop: LateLoop | None = None
        self._wake = asyncio.Event()
        self._beaten = 0.0
        self._sweep_at = 0.0

    async def open(self) -> None:
        self._beaten = self._clock()
        await self._store.heartbeat(self.owner, self._beaten)
        self._wake.set()
        self._keeper = asyncio.create_task(self._keep())
        self._late_loop = LateLoop(self._beat_late, self._pace)
        self._late_loop.start()

    def note_work(self) -> None:
        """There is work, so the heart has to beat faster."""
        self._wake.set()

    async def stop(self) -> None:
        """Nothing comes by itself once the process stops."""

    async def close(self) -> None:
        """Stop, and let others claim at once what is left."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        if self._late_loop is not None:
            self._late_loop.stop()
            self._late_loop = None
            with suppress(StoreError):
                await self._store.release(self.owner)

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.beat if self._runner.is_busy else self._pace.sweep):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._beat()
            except StoreError as error:
                log.warning("the heartbeat of background work failed: %s", error)
            except Exception:
                log.exception("the check of background work failed")

    def _beat_late(self) -> None:
        """From a thread: the event loop is late, and its work is not abandoned."""
        if self._runner.is_busy:
            self._store.beat(self.owner, self._clock())

    async def _beat(self) -> None:
        now, time = self._clock(), asyncio.get_running_loop().time()
        # A machine that slept wakes all owners at once, and each must be heard before it is taken for dead.
        slept = now - self._beaten > self._pace.stale / 2
        self._beaten = now
        if time < self._sweep_at or slept:
            for id in await self._store.heartbeat(self.owner, now):
                self._runner.stop_work(id)
        else:
            self._sweep_at = time + self._pace.sweep
            for orphan in await self._store.claim_orphans(self.owner, now, now - self._pace.stale):
                self._runner.resume_in_task(orphan)


class LateLoop(threading.Thread):
    """A thread that asks the event loop for a sign, and calls `beat` while none comes.

    The event loop sends the heartbeats itself. While it is busy with one long piece of work none come, and
    another process would take its responses for those of a dead one.
    """

    def __init__(self, beat: Callable[[], None], pace: Pace) -> None:
        super().__init__(name="antiphon-late-loop", daemon=True)
        self._beat = beat
        self._late = pace.stale / 5
        self._hung = pace.hung
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(self._late):
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # it is closed
                return
            ends = time.monotonic() + self._hung
            while not answered.wait(self._late) and not self._stopped.is_set():
                if time.monotonic() < ends:
                    self._beat()

    def stop(self) -> None:
        self._stopped.set()
