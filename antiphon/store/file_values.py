"""Uploaded files and vector stores as a store keeps them: the values, and the part of the protocol on them.

The bytes of a file are not here but in a folder, under their digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class UploadedFile:
    id: str
    tenant: str
    filename: str
    purpose: str
    bytes: int
    digest: str
    created_at: int
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class FilePage:
    files: tuple[UploadedFile, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class VectorStore:
    """A collection of files that are searched together; its last three fields are counted by the store."""

    id: str
    tenant: str
    name: str
    metadata: bytes
    created_at: int
    last_active_at: int
    days: int | None = None
    """How many days after its last use it expires."""
    expires_at: int | None = None
    completed: int = 0
    failed: int = 0
    usage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class VectorStorePage:
    stores: tuple[VectorStore, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class FileChunk:
    text: str
    vector: bytes | None = None
    """Numbers of four bytes each, little-endian."""


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file in a vector store: read and cut into chunks, or failed for a reason."""

    file: str
    filename: str
    attributes: bytes
    created_at: int
    chunk_size: int
    overlap: int
    usage_bytes: int = 0
    error_code: str | None = None
    error: str | None = None
    embedding: str | None = None
    """The model that made the vectors."""

    @property
    def status(self) -> str:
        return "completed" if self.error_code is None else "failed"


@dataclass(frozen=True, slots=True)
class IndexedPage:
    files: tuple[IndexedFile, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class FoundChunk:
    key: int
    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Vectors:
    """The keys of chunks, and their vectors one after the other."""

    keys: tuple[int, ...]
    data: bytes


class FileStore(Protocol):
    """Files, vector stores, and what is found in them."""

    async def add_file(self, file: UploadedFile, quota: int) -> bool:
        """False, and nothing is stored, if all files of the tenant would have more bytes than the quota."""
        ...

    async def file(self, tenant: str, id: str) -> UploadedFile | None: ...

    async def files(
        self,
        tenant: str,
        *,
        purpose: str | None = None,
        after: str | None = None,
        limit: int = 20,
        newest_first: bool = True,
    ) -> FilePage: ...

    async def delete_file(self, tenant: str, id: str) -> bool:
        """Removes a file, and takes it out of all vector stores."""
        ...

    async def used_contents(self, digests: Sequence[str]) -> set[str]:
        """Those of the digests that some file of any tenant has."""
        ...

    async def add_vector_store(self, store: VectorStore) -> None: ...

    async def vector_store(self, tenant: str, id: str) -> VectorStore | None: ...

    async def vector_stores(
        self, tenant: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> VectorStorePage: ...

    async def edit_vector_store(self, store: VectorStore) -> bool:
        """Name, metadata, last use and expiry become these."""
        ...

    async def touch_vector_store(self, tenant: str, id: str, at: int) -> bool:
        """It is used at this time, from which it lives on."""
        ...

    async def delete_vector_store(self, tenant: str, id: str) -> bool: ...

    async def index_file(
        self, tenant: str, store: str, indexed: IndexedFile, chunks: Sequence[FileChunk]
    ) -> bool:
        """Puts a file with its chunks into a vector store, in place of what it had there of it.

        False if the tenant has no such store or no such file.
        """
        ...

    async def indexed_file(self, tenant: str, store: str, file: str) -> IndexedFile | None: ...

    async def indexed_files(
        self,
        tenant: str,
        store: str,
        *,
        status: str | None = None,
        after: str | None = None,
        limit: int = 20,
        newest_first: bool = True,
    ) -> IndexedPage: ...

    async def remove_indexed_file(self, tenant: str, store: str, file: str) -> bool: ...

    async def file_attributes(self, tenant: str, store: str) -> dict[str, tuple[str, bytes]]:
        """Of each file in a vector store that was read: its name and its attributes."""
        ...

    async def match_chunks(
        self, tenant: str, store: str, words: Sequence[str], files: Sequence[str], limit: int
    ) -> list[FoundChunk]:
        """Chunks of these files with any of the words, the most relevant first (BM25)."""
        ...

    async def chunk_vectors(self, tenant: str, store: str, model: str, files: Sequence[str]) -> Vectors:
        """The vectors of these files that this model has made."""
        ...

    async def chunks(self, tenant: str, store: str, keys: Sequence[int]) -> list[FoundChunk]:
        """The chunks with these keys, in this order; those that are gone are left out."""
        ...
