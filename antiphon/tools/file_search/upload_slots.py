"""How many uploads may run at once: no tenant keeps others out, and a stalled upload makes room."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from antiphon.spec.errors import ErrorPayload, SpecError

UPLOADS = 32
"""At once, half of them for one tenant."""
STALLED = 15.0
"""An upload that has brought nothing for so many seconds makes room for another."""
TOO_MANY = "too_many_uploads"


class UploadSlot:
    """The place of one upload, which notes when a piece of the file was last written."""

    def __init__(self, tenant: str, clock: Callable[[], float], timeout: asyncio.Timeout) -> None:
        self.tenant = tenant
        self.moved_at = clock()
        self.is_evicted = False
        self._clock = clock
        self._timeout = timeout

    def note_progress(self) -> None:
        self.moved_at = self._clock()

    def evict(self) -> None:
        """End the upload with an error that tells its client why."""
        self.is_evicted = True
        self._timeout.reschedule(0)


class UploadSlots:
    def __init__(self, count: int = UPLOADS, clock: Callable[[], float] | None = None) -> None:
        """Without a clock it is that of the event loop."""
        self._count = count
        self._clock = clock
        self._taken: list[UploadSlot] = []

    @asynccontextmanager
    async def reserve(self, tenant: str) -> AsyncIterator[UploadSlot]:
        """A slot for as long as this lasts; a `SpecError` if there is none, or once it was lost."""
        clock = self._clock or asyncio.get_running_loop().time
        self._make_room(tenant, clock())
        slot: UploadSlot | None = None
        try:
            async with asyncio.timeout(None) as timeout:
                slot = UploadSlot(tenant, clock, timeout)
                self._taken.append(slot)
                yield slot
        except TimeoutError:
            if slot is None or not slot.is_evicted:
                raise
            message = (
                f"nothing of the file arrived for {STALLED:g} seconds, and other uploads wait; send it again"
            )
            raise SpecError(ErrorPayload("too_many_requests", message, code=TOO_MANY), 429) from None
        finally:
            if slot in self._taken:
                self._taken.remove(slot)

    def _make_room(self, tenant: str, now: float) -> None:
        mine = [slot for slot in self._taken if slot.tenant == tenant]
        most = max(1, self._count // 2)
        if len(mine) >= most:
            self._evict_stalled(mine, now, f"{most} files of yours are being uploaded already")
        elif len(self._taken) >= self._count:
            self._evict_stalled(self._taken, now, f"{self._count} files are being uploaded already")

    def _evict_stalled(self, slots: list[UploadSlot], now: float, message: str) -> None:
        slowest = min(slots, key=lambda slot: slot.moved_at)
        if now - slowest.moved_at < STALLED:
            error = ErrorPayload("too_many_requests", f"{message}; try again in a moment", code=TOO_MANY)
            raise SpecError(error, 429)
        self._taken.remove(slowest)
        slowest.evict()
