"""The part of the SQLite store that keeps files and vector stores."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.file_values import (
    FileChunk,
    FilePage,
    FoundChunk,
    IndexedFile,
    IndexedPage,
    UploadedFile,
    Vectors,
    VectorStore,
    VectorStorePage,
)
from antiphon.store.sqlite import uploads, vector_stores
from antiphon.store.sqlite.access import DatabaseAccess


class SqliteFiles(DatabaseAccess):
    """Files and vector stores."""

    async def add_file(self, file: UploadedFile, quota: int) -> bool:
        return await self._write(lambda db: uploads.add(db, file, quota))

    async def file(self, tenant: str, id: str) -> UploadedFile | None:
        return await self._read(lambda db: uploads.get(db, tenant, id))

    async def files(
        self,
        tenant: str,
        *,
        purpose: str | None = None,
        after: str | None = None,
        limit: int = 20,
        newest_first: bool = True,
    ) -> FilePage:
        return await self._read(lambda db: uploads.page(db, tenant, purpose, after, limit, newest_first))

    async def delete_file(self, tenant: str, id: str) -> bool:
        return await self._remove(lambda db: uploads.delete(db, tenant, id))

    async def used_contents(self, digests: Sequence[str]) -> set[str]:
        # Not on a reader's connection, which may still see the past.
        return await self._write(lambda db: uploads.used(db, digests))

    async def add_vector_store(self, store: VectorStore) -> None:
        await self._write(lambda db: vector_stores.add(db, store))

    async def vector_store(self, tenant: str, id: str) -> VectorStore | None:
        return await self._read(lambda db: vector_stores.get(db, tenant, id))

    async def vector_stores(
        self, tenant: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> VectorStorePage:
        return await self._read(lambda db: vector_stores.page(db, tenant, after, limit, newest_first))

    async def edit_vector_store(self, store: VectorStore) -> bool:
        return await self._write(lambda db: vector_stores.edit(db, store))

    async def touch_vector_store(self, tenant: str, id: str, at: int) -> bool:
        return await self._write(lambda db: vector_stores.touch(db, tenant, id, at))

    async def delete_vector_store(self, tenant: str, id: str) -> bool:
        return await self._remove(lambda db: vector_stores.delete(db, tenant, id))

    async def index_file(
        self, tenant: str, store: str, indexed: IndexedFile, chunks: Sequence[FileChunk]
    ) -> bool:
        return await self._write(lambda db: vector_stores.index(db, tenant, store, indexed, chunks))

    async def indexed_file(self, tenant: str, store: str, file: str) -> IndexedFile | None:
        return await self._read(lambda db: vector_stores.indexed_file(db, tenant, store, file))

    async def indexed_files(
        self,
        tenant: str,
        store: str,
        *,
        status: str | None = None,
        after: str | None = None,
        limit: int = 20,
        newest_first: bool = True,
    ) -> IndexedPage:
        return await self._read(
            lambda db: vector_stores.indexed_page(db, tenant, store, status, after, limit, newest_first)
        )

    async def remove_indexed_file(self, tenant: str, store: str, file: str) -> bool:
        return await self._remove(lambda db: vector_stores.remove(db, tenant, store, file))

    async def file_attributes(self, tenant: str, store: str) -> dict[str, tuple[str, bytes]]:
        return await self._read(lambda db: vector_stores.attributes(db, tenant, store))

    async def match_chunks(
        self, tenant: str, store: str, words: Sequence[str], files: Sequence[str], limit: int
    ) -> list[FoundChunk]:
        return await self._read(lambda db: vector_stores.match(db, tenant, store, words, files, limit))

    async def chunk_vectors(self, tenant: str, store: str, model: str, files: Sequence[str]) -> Vectors:
        return await self._read(lambda db: vector_stores.vectors(db, tenant, store, model, files))

    async def chunks(self, tenant: str, store: str, keys: Sequence[int]) -> list[FoundChunk]:
        return await self._read(lambda db: vector_stores.chunks(db, tenant, store, keys))
