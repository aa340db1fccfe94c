"""The values of uploaded files and vector stores.

The store does not have the bytes of a file: they are in a folder, under their digest.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """A collection of files that are searched together; the store computes the last three fields."""

    id: str
    tenant: str
    name: str
    metadata: bytes
    created_at: int
    last_active_at: int
    days: int | None = None
    """The number of days after its last use at which it expires."""
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
    """A file in a vector store, which was either cut into chunks or failed with an error."""

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
