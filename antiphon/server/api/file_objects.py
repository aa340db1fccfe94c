"""The objects of `/v1/files` and `/v1/vector_stores`."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from antiphon.server.api.objects import ListPage
from antiphon.spec.limits import Metadata

FilePurpose = Literal["assistants", "batch", "evals", "fine-tune", "user_data", "vision"]


class FileForm(Struct, kw_only=True):
    """A form (`multipart/form-data`)."""

    file: bytes
    """The file, with its name."""
    purpose: FilePurpose


class FileObject(Struct, kw_only=True):
    """A file that was uploaded."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    """When it is removed; null if it stays until it is deleted."""
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"


class FileList(ListPage[FileObject]):
    """One page of files."""


class DeletedFile(Struct, kw_only=True):
    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class FileCounts(Struct, kw_only=True):
    in_progress: int = 0
    completed: int
    failed: int
    cancelled: int = 0
    total: int


class ExpiresAfter(Struct, kw_only=True):
    anchor: Literal["last_active_at"]
    days: Annotated[int, Meta(ge=1, le=365)]


class VectorStoreObject(Struct, kw_only=True):
    """Files that are searched together."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    usage_bytes: int
    file_counts: FileCounts
    status: Literal["completed"] = "completed"
    expires_after: ExpiresAfter | None
    expires_at: int | None
    last_active_at: int
    metadata: Metadata


class VectorStoreList(ListPage[VectorStoreObject]):
    """One page of vector stores."""


class DeletedVectorStore(Struct, kw_only=True):
    id: str
    object: Literal["vector_store.deleted"] = "vector_store.deleted"
    deleted: bool = True


class VectorStoreBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body that makes a vector store or changes it; what is left out stays as it is."""

    name: Annotated[str, Meta(max_length=256)] | None = None
    description: str | None = None
    """Taken and not kept."""
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None
    file_ids: Annotated[list[str], Meta(max_length=100)] | None = None
    """Files to put into it at once."""
    chunking_strategy: dict[str, Any] | None = None


class VectorStoreFileBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body that puts a file into a vector store."""

    file_id: str
    attributes: dict[str, str | float | bool] | None = None
    """What a search can filter by."""
    chunking_strategy: dict[str, Any] | None = None


class LastError(Struct, kw_only=True):
    code: str
    message: str


class VectorStoreFile(Struct, kw_only=True):
    """A file in a vector store."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    created_at: int
    vector_store_id: str
    usage_bytes: int
    status: str
    """`completed`, or `failed` if it could not be read."""
    last_error: LastError | None
    attributes: dict[str, str | float | bool]
    chunking_strategy: dict[str, Any]


class VectorStoreFileList(ListPage[VectorStoreFile]):
    """One page of the files in a vector store."""


class DeletedVectorStoreFile(Struct, kw_only=True):
    id: str
    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"
    deleted: bool = True


class VectorStoreSearchBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is looked for."""

    query: str | list[str]
    filters: dict[str, Any] | None = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: dict[str, Any] | None = None
    rewrite_query: bool | None = None
    """Taken, and the query is used as it is."""


class FoundText(Struct, kw_only=True):
    type: Literal["text"] = "text"
    text: str


class SearchResult(Struct, kw_only=True):
    """A passage that was found."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | float | bool]
    content: list[FoundText]


class SearchResultPage(Struct, kw_only=True):
    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[SearchResult]
    has_more: bool = False
    next_page: str | None = None


class ContainerBody(Struct, kw_only=True):
    """A container to be made, and the files that it begins with."""

    name: str = ""
    file_ids: list[str] = []


class ContainerObject(Struct, kw_only=True):
    """A folder for the code that a model runs; it goes when it has not been used for a while."""

    id: str
    object: Literal["container"] = "container"
    created_at: int
    status: Literal["running"] = "running"
    name: str


class ContainerFile(Struct, kw_only=True):
    """A file that code left in its container."""

    id: str
    object: Literal["container.file"] = "container.file"
    container_id: str
    created_at: int
    bytes: int
    path: str
    source: Literal["assistant"] = "assistant"


class ContainerFileList(Struct, kw_only=True):
    object: Literal["list"] = "list"
    data: list[ContainerFile]
