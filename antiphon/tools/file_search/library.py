"""Uploaded files: kept, found and removed, for `/v1/files` and for all who need what is in them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.config import FilesSettings
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_request
from antiphon.spec.ids import new_id
from antiphon.store import Store, UploadedFile
from antiphon.tools.file_search.content_folder import ContentFolder, Incoming
from antiphon.tools.file_search.upload_slots import UploadSlot, UploadSlots

FILE = "file-"
_WAIT = 0.01
_AT_ONCE = 500


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
