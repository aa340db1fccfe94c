"""Uploaded files: kept, found and removed, for `/v1/files` and for all who need what is in them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.config import FilesSettings
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_request
from antiphon.spec.ids import new_id
from antiphon.store import Store, UploadedFile
from antiphon.tools.file_search.content_folder import ContentFolder, Incoming

UPLOADS = 32
"""At once, half of them for one tenant."""
STALLED = 15.0
"""An upload that has brought nothing for so many seconds makes room for another."""
TOO_MANY = "too_many_uploads"

FILE = "file-"
_WAIT = 0.01
_AT_ONCE = 500


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
    """Bounds how many uploads run at once: no tenant keeps others out, and a stalled one makes room."""

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


class Library:
    def __init__(self, store: Store, folder: Path, settings: FilesSettings) -> None:
        self.limit = settings.limit
        self._quota = settings.quota
        self._store = store
        self._contents = ContentFolder(folder / "files")
        self._uploads = UploadSlots()

    @asynccontextmanager
    async def receiving(self, tenant: str) -> AsyncIterator[tuple[Incoming, UploadSlot]]:
        """A place for an upload, which is removed afterwards unless it was kept."""
        async with self._uploads.reserve(tenant) as slot:
            incoming = await asyncio.to_thread(self._contents.begin)
            try:
                yield incoming, slot
            finally:
                await asyncio.shield(asyncio.to_thread(incoming.discard))

    async def keep(
        self, incoming: Incoming, tenant: str, filename: str, purpose: str, now: float, seconds: int | None
    ) -> UploadedFile:
        """Make a file of an upload; it lives for so many seconds, or until it is deleted."""
        digest = await asyncio.to_thread(incoming.finish)
        expires_at = None if seconds is None else int(now) + seconds
        size, id = incoming.size, new_id(FILE)
        file = UploadedFile(id, tenant, safe_name(filename), purpose, size, digest, int(now), expires_at)
        while True:
            with self._contents.lock(alone=False) as is_locked:
                if is_locked:
                    # The bytes come first: a sweep removes unused bytes, but no file may lack its own.
                    self._contents.keep(incoming, digest)
                    if await self._store.add_file(file, self._quota):
                        return file
                    break
            await asyncio.sleep(_WAIT)
        await self._remove_unused([digest])
        raise self._full()

    async def find(self, tenant: str, id: str, now: float) -> UploadedFile | None:
        file = await self._store.file(tenant, id)
        return None if file is None or has_expired(file.expires_at, now) else file

    def path(self, file: UploadedFile) -> Path:
        return self._contents.path(file.digest)

    async def delete(self, tenant: str, id: str) -> bool:
        file = await self._store.file(tenant, id)
        if file is None or not await self._store.delete_file(tenant, id):
            return False
        await self._remove_unused([file.digest])
        return True

    async def sweep(self, now: float) -> None:
        """Remove bytes that no file uses any more, because their files have expired."""
        digests = await asyncio.to_thread(lambda: list(self._contents.digests()))
        for n in range(0, len(digests), _AT_ONCE):
            await self._remove_unused(digests[n : n + _AT_ONCE])
        await asyncio.to_thread(self._contents.drop_abandoned, now)

    async def _remove_unused(self, digests: list[str]) -> None:
        used = await self._store.used_contents(digests)
        if used.issuperset(digests):
            return
        with self._contents.lock(alone=True) as is_locked:
            if not is_locked:
                return  # the next sweep finds them
            used = await self._store.used_contents(digests)
            for digest in set(digests) - used:
                self._contents.remove(digest)

    def _full(self) -> SpecError:
        message = f"your files would take more than {self._quota:,} bytes in all; delete some first"
        return SpecError(invalid_request(message).with_code("quota_exceeded"), 413)


def safe_name(name: str) -> str:
    """The name of a file; `file` where it would name a folder, or nothing."""
    return "file" if name.strip() in ("", ".", "..") else name


def has_expired(expires_at: int | None, now: float) -> bool:
    """Has it expired? Then requests do not find it any more, though it is removed only some time later."""
    return expires_at is not None and expires_at <= now


def missing_content(id: str, param: str | None = None) -> SpecError:
    """The store knows the file, but it was deleted a moment ago, or its bytes lie on another machine."""
    message = (
        f"the content of the file {id[:100]!r} is not on this machine; gateways that share a store need one "
        "folder for files, too"
    )
    return SpecError(ErrorPayload("not_found", message, "file_not_found", param))


def missing_file(id: str, param: str | None = None) -> SpecError:
    message = f"the file {id[:100]!r} does not exist"
    return SpecError(ErrorPayload("not_found", message, "file_not_found", param))
