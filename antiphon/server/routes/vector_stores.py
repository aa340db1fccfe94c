"""`/v1/vector_stores`: collections of files, and the search in them."""

from dataclasses import replace
from typing import Any

import msgspec

from antiphon.engine.attempt import open_run
from antiphon.server.api import file_objects as objects
from antiphon.server.endpoint import LIMIT, ORDER, Endpoint, Query, after
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.paging import Paging, unknown_cursor
from antiphon.spec.codec import encode
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.ids import new_id
from antiphon.store import IndexedFile, UnknownCursor, UploadedFile, VectorStore
from antiphon.tools.file_search import STORE
from antiphon.tools.file_search.chunking import Chunking
from antiphon.tools.file_search.embedding import EmbeddingFailed
from antiphon.tools.file_search.filters import condition
from antiphon.tools.file_search.library import missing_file
from antiphon.tools.file_search.search import missing_store
from antiphon.tools.file_search.search_options import (
    MAX_QUERIES,
    MAX_QUERY,
    attributes_of,
    chunking_of,
    ranking_of,
    results_of,
)

_DAY = 86400


async def create(
    gateway: Gateway, exchange: Exchange, body: objects.VectorStoreBody
) -> objects.VectorStoreObject:
    """Files that are named are read before the answer comes."""
    tenant, now = exchange.context.tenant, gateway.engine.clock()
    chunking = chunking_of(body.chunking_strategy, "chunking_strategy")
    files = [
        await _find_upload(gateway, tenant, id, now, f"file_ids[{n}]")
        for n, id in enumerate(body.file_ids or ())
    ]
    days = body.expires_after.days if body.expires_after else None
    made = VectorStore(
        id=new_id(STORE),
        tenant=tenant,
        name=body.name or "",
        metadata=encode(body.metadata or {}),
        created_at=int(now),
        last_active_at=int(now),
        days=days,
        expires_at=None if days is None else int(now) + days * _DAY,
    )
    await gateway.store.add_vector_store(made)
    if files:
        async with open_run(exchange.new_run(gateway, "indexing")) as upstreams:
            for file in files:
                await gateway.file_search.index.add(made, file, {}, chunking, now, upstreams)
    return _store_object(await gateway.store.vector_store(tenant, made.id) or made)


async def list_stores(gateway: Gateway, exchange: Exchange) -> objects.VectorStoreList:
    paging = Paging.of(exchange)
    try:
        page = await gateway.store.vector_stores(
            exchange.context.tenant, after=paging.after, limit=paging.limit, newest_first=paging.newest_first
        )
    except UnknownCursor:
        raise unknown_cursor(paging.after, "vector store") from None
    return objects.VectorStoreList.of([_store_object(one) for one in page.stores], more=page.more)


async def retrieve(gateway: Gateway, exchange: Exchange) -> objects.VectorStoreObject:
    return _store_object(await _find(gateway, exchange))


async def update(
    gateway: Gateway, exchange: Exchange, body: objects.VectorStoreBody
) -> objects.VectorStoreObject:
    """Its name, metadata and expiry. What is left out stays."""
    found, now = await _find(gateway, exchange), int(gateway.engine.clock())
    for name in ("file_ids", "chunking_strategy"):
        if getattr(body, name) is not None:
            raise wrong(name, "a vector store gets its files one by one; post them to its files")
    changes: dict[str, Any] = {"last_active_at": now}
    if body.name is not None:
        changes["name"] = body.name
    if body.metadata is not None:
        changes["metadata"] = encode(body.metadata)
    days = found.days if body.expires_after is None else body.expires_after.days
    changes |= {"days": days, "expires_at": None if days is None else now + days * _DAY}
    changed = replace(found, **changes)
    if not await gateway.store.edit_vector_store(changed):
        raise missing_store(found.id)
    return _store_object(changed)


async def delete(gateway: Gateway, exchange: Exchange) -> objects.DeletedVectorStore:
    """Its files stay."""
    id = exchange.params["id"]
    if not await gateway.store.delete_vector_store(exchange.context.tenant, id):
        raise missing_store(id)
    return objects.DeletedVectorStore(id=id)


async def add_file(
    gateway: Gateway, exchange: Exchange, body: objects.VectorStoreFileBody
) -> objects.VectorStoreFile:
    """It is read and cut into chunks before the answer comes; `status` says whether that was possible."""
    store, now = await _find(gateway, exchange), gateway.engine.clock()
    attributes = attributes_of(body.attributes, "attributes")
    chunking = chunking_of(body.chunking_strategy, "chunking_strategy")
    file = await _find_upload(gateway, store.tenant, body.file_id, now, "file_id")
    async with open_run(exchange.new_run(gateway, "indexing")) as upstreams:
        index = gateway.file_search.index
        indexed = await index.add(store, file, attributes, chunking, now, upstreams)
    if indexed is None:
        raise missing_file(file.id, "file_id")
    return _file_object(store.id, indexed)


async def files(gateway: Gateway, exchange: Exchange) -> objects.VectorStoreFileList:
    store, paging, status = await _find(gateway, exchange), Paging.of(exchange), exchange.query("filter")
    if status not in (None, "completed", "failed", "in_progress", "cancelled"):
        raise wrong("filter", "expected 'completed' or 'failed'")
    if status in ("in_progress", "cancelled"):  # no file is ever in such a state here
        return objects.VectorStoreFileList.of([])
    try:
        page = await gateway.store.indexed_files(
            store.tenant,
            store.id,
            status=status,
            after=paging.after,
            limit=paging.limit,
            newest_first=paging.newest_first,
        )
    except UnknownCursor:
        raise unknown_cursor(paging.after, "file") from None
    shown = [_file_object(store.id, one) for one in page.files]
    return objects.VectorStoreFileList.of(shown, more=page.more)


async def file(gateway: Gateway, exchange: Exchange) -> objects.VectorStoreFile:
    store, id = await _find(gateway, exchange), exchange.params["item"]
    found = await gateway.store.indexed_file(store.tenant, store.id, id)
    if found is None:
        raise missing_file(id)
    return _file_object(store.id, found)


async def remove_file(gateway: Gateway, exchange: Exchange) -> objects.DeletedVectorStoreFile:
    """The file itself stays."""
    store, id = await _find(gateway, exchange), exchange.params["item"]
    if not await gateway.store.remove_indexed_file(store.tenant, store.id, id):
        raise missing_file(id)
    return objects.DeletedVectorStoreFile(id=id)


async def search(
    gateway: Gateway, exchange: Exchange, body: objects.VectorStoreSearchBody
) -> objects.SearchResultPage:
    """A search in a vector store: by their words and, with an embedding model, by their meaning."""
    store, tool = await _find(gateway, exchange), gateway.file_search
    queries = [body.query] if isinstance(body.query, str) else body.query
    if not 1 <= len(queries) <= MAX_QUERIES or not all(0 < len(one) <= MAX_QUERY for one in queries):
        message = f"expected a text of up to {MAX_QUERY:,} characters, or a list of up to {MAX_QUERIES}"
        raise wrong("query", message)
    try:
        async with open_run(exchange.new_run(gateway, "search")) as upstreams:
            found = await tool.index.search(
                [store],
                queries,
                None if body.filters is None else condition(body.filters, "filters"),
                results_of(body.max_num_results, "max_num_results", tool.results),
                ranking_of(body.ranking_options, "ranking_options"),
                gateway.engine.clock(),
                upstreams,
            )
    except EmbeddingFailed as reason:
        raise SpecError(ErrorPayload("server_error", str(reason), "embeddings_failed"), 502) from None
    results = [
        objects.SearchResult(
            file_id=one.file_id,
            filename=one.filename,
            score=one.score,
            attributes=one.attributes,
            content=[objects.FoundText(text=one.text)],
        )
        for one in found
    ]
    return objects.SearchResultPage(search_query=queries, data=results)


async def _find(gateway: Gateway, exchange: Exchange) -> VectorStore:
    id = exchange.params["id"]
    found = await gateway.file_search.index.find(exchange.context.tenant, id, gateway.engine.clock())
    if found is None:
        raise missing_store(id)
    return found


async def _find_upload(gateway: Gateway, tenant: str, id: str, now: float, param: str) -> UploadedFile:
    found = await gateway.library.find(tenant, id, now)
    if found is None:
        raise missing_file(id, param)
    return found


def _store_object(store: VectorStore) -> objects.VectorStoreObject:
    counts = objects.FileCounts(
        completed=store.completed, failed=store.failed, total=store.completed + store.failed
    )
    expiry = None
    if store.days is not None:
        expiry = objects.ExpiresAfter(anchor="last_active_at", days=store.days)
    return objects.VectorStoreObject(
        id=store.id,
        created_at=store.created_at,
        name=store.name,
        usage_bytes=store.usage_bytes,
        file_counts=counts,
        expires_after=expiry,
        expires_at=store.expires_at,
        last_active_at=store.last_active_at,
        metadata=msgspec.json.decode(store.metadata, type=dict[str, str]),
    )


def _file_object(store: str, indexed: IndexedFile) -> objects.VectorStoreFile:
    error = None
    if indexed.error_code is not None:
        error = objects.LastError(code=indexed.error_code, message=indexed.error or "")
    return objects.VectorStoreFile(
        id=indexed.file,
        created_at=indexed.created_at,
        vector_store_id=store,
        usage_bytes=indexed.usage_bytes,
        status=indexed.status,
        last_error=error,
        attributes=msgspec.json.decode(indexed.attributes),
        chunking_strategy=_strategy(Chunking(indexed.chunk_size, indexed.overlap)),
    )


def _strategy(chunking: Chunking) -> dict[str, Any]:
    sizes = {"max_chunk_size_tokens": chunking.size, "chunk_overlap_tokens": chunking.overlap}
    return {"type": "static", "static": sizes}


_PAGING = (after("one"), LIMIT, ORDER)
ENDPOINTS = (
    Endpoint(
        "POST /v1/vector_stores",
        create,
        "createVectorStore",
        "Create a vector store",
        body_required=False,
        errors=(404,),
    ),
    Endpoint("GET /v1/vector_stores", list_stores, "listVectorStores", "List vector stores", query=_PAGING),
    Endpoint("GET /v1/vector_stores/{id}", retrieve, "getVectorStore", "Retrieve a vector store"),
    Endpoint(
        "POST /v1/vector_stores/{id}",
        update,
        "updateVectorStore",
        "Update a vector store",
        body_required=False,
        narrows={"properties": {"file_ids": {"type": "null"}, "chunking_strategy": {"type": "null"}}},
    ),
    Endpoint("DELETE /v1/vector_stores/{id}", delete, "deleteVectorStore", "Delete a vector store"),
    Endpoint(
        "POST /v1/vector_stores/{id}/files", add_file, "addVectorStoreFile", "Add a file to a vector store"
    ),
    Endpoint(
        "GET /v1/vector_stores/{id}/files",
        files,
        "listVectorStoreFiles",
        "List the files of a vector store",
        query=(Query("filter", "Only files with this status.", {"enum": ["completed", "failed"]}), *_PAGING),
    ),
    Endpoint(
        "GET /v1/vector_stores/{id}/files/{item}",
        file,
        "getVectorStoreFile",
        "Retrieve a file of a vector store",
    ),
    Endpoint(
        "DELETE /v1/vector_stores/{id}/files/{item}",
        remove_file,
        "removeVectorStoreFile",
        "Delete a file from a vector store",
    ),
    Endpoint(
        "POST /v1/vector_stores/{id}/search",
        search,
        "searchVectorStore",
        "List the passages that fit a query",
        errors=(502,),
    ),
)
