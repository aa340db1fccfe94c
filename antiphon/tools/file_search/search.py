"""Puts files into vector stores, and searches them.

Chunks are ranked by their words (BM25) and, with an embedding model, by their meaning; the ranks are joined
(reciprocal rank fusion). A score says where a chunk stands in the rankings: 1 is first in all of them.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.store import FileChunk, FoundChunk, IndexedFile, Store, UploadedFile, VectorStore
from antiphon.tools.base import Upstreams
from antiphon.tools.file_search.chunking import Chunking, spans
from antiphon.tools.file_search.embedding import Embedder, EmbeddingFailed, nearest
from antiphon.tools.file_search.extraction import Extractor, Unreadable
from antiphon.tools.file_search.filters import Condition
from antiphon.tools.file_search.library import Library, has_expired
from antiphon.tools.file_search.search_options import Ranking
from antiphon.wires.worker_thread import in_worker_thread

_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 64
_CANDIDATES = 100
_DAMPING = 60
"""Of reciprocal rank fusion: how little the first places differ."""
_BETWEEN_TOUCHES = 60


class SearchHit(Struct, frozen=True):
    """A chunk that was found, in which file, and how well it fits."""

    attributes: dict[str, Any]
    file_id: str
    filename: str
    score: float
    text: str


class SearchIndex:
    def __init__(
        self, store: Store, library: Library, extractor: Extractor, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._library = library
        self._extractor = extractor
        self._embedder = embedder

    async def find(self, tenant: str, id: str, now: float) -> VectorStore | None:
        found = await self._store.vector_store(tenant, id)
        return None if found is None or has_expired(found.expires_at, now) else found

    async def add(
        self,
        store: VectorStore,
        file: UploadedFile,
        attributes: dict[str, Any],
        chunking: Chunking,
        now: float,
        upstreams: Upstreams,
    ) -> IndexedFile | None:
        """Read a file into a vector store; one that could not be read is added as failed.

        None if the file or the store was deleted meanwhile.
        """
        about = file.id, file.filename, msgspec.json.encode(attributes), int(now), *chunking
        chunks: list[FileChunk] = []
        try:
            text = await self._extractor.text(self._library.path(file), file.filename, file.tenant)
            texts = await in_worker_thread(_cut, text, chunking)
            vectors = None
            if self._embedder is not None:
                vectors = await self._embedder.vectors(texts, upstreams)
            chunks = [FileChunk(text, vectors[n] if vectors else None) for n, text in enumerate(texts)]
            size = sum(len(chunk.text.encode()) + len(chunk.vector or b"") for chunk in chunks)
            model = None if self._embedder is None else self._embedder.model
            indexed = IndexedFile(*about, usage_bytes=size, embedding=model)
        except Unreadable as reason:
            indexed = IndexedFile(*about, error_code=reason.code, error=f"{file.filename}: {reason}")
        except EmbeddingFailed as reason:
            indexed = IndexedFile(*about, error_code="server_error", error=str(reason))
        was_added = await self._store.index_file(store.tenant, store.id, indexed, chunks)
        return indexed if was_added else None

    async def search(
        self,
        stores: Sequence[VectorStore],
        queries: Sequence[str],
        condition: Condition | None,
        limit: int,
        ranking: Ranking,
        now: float,
        upstreams: Upstreams,
    ) -> list[SearchHit]:
        """The chunks that fit any of the queries best."""
        vectors: list[bytes] = []
        if self._embedder is not None and ranking.embedding_weight:
            vectors = await self._embedder.vectors(queries, upstreams)
        found: list[SearchHit] = []
        for store in stores:
            found += await self._search_one(store, queries, vectors, condition, ranking)
            if store.last_active_at < now - _BETWEEN_TOUCHES:
                await self._store.touch_vector_store(store.tenant, store.id, int(now))
        found.sort(key=lambda one: -one.score)
        return [one for one in found if one.score >= ranking.score_threshold][:limit]

    async def _search_one(
        self,
        store: VectorStore,
        queries: Sequence[str],
        vectors: Sequence[bytes],
        condition: Condition | None,
        ranking: Ranking,
    ) -> list[SearchHit]:
        tenant, id = store.tenant, store.id
        about = {
            file: (msgspec.json.decode(raw), file, name)
            for file, (name, raw) in (await self._store.file_attributes(tenant, id)).items()
        }
        files = [file for file, (has, _, _) in about.items() if condition is None or condition(has)]
        if not files:
            return []
        rankings: list[tuple[float, list[int]]] = []
        chunks: dict[int, FoundChunk] = {}
        for query in queries:
            hits = await self._store.match_chunks(tenant, id, words_of(query), files, _CANDIDATES)
            chunks |= {one.key: one for one in hits}
            rankings.append((ranking.text_weight if vectors else 1.0, [one.key for one in hits]))
        if vectors and self._embedder is not None:
            table = await self._store.chunk_vectors(tenant, id, self._embedder.model, files)
            for vector in vectors:
                near = await in_worker_thread(nearest, vector, table, _CANDIDATES)
                rankings.append((ranking.embedding_weight, near))
        scores = fuse(rankings)
        unknown = [key for key in scores if key not in chunks]
        chunks |= {one.key: one for one in await self._store.chunks(tenant, id, unknown)}
        return [
            SearchHit(*about[chunks[key].file], score, chunks[key].text)
            for key, score in scores.items()
            if key in chunks
        ]


def fuse(rankings: Sequence[tuple[float, Sequence[int]]]) -> dict[int, float]:
    """Combine weighted rankings to one score for each key, from 0 to 1."""
    most = sum(weight for weight, _ in rankings)
    scores: dict[int, float] = {}
    for weight, keys in rankings:
        for place, key in enumerate(keys):
            share = weight / most * (_DAMPING + 1) / (_DAMPING + 1 + place)
            scores[key] = scores.get(key, 0.0) + share
    return {key: min(1.0, score) for key, score in scores.items()}


def words_of(query: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(query.lower())))[:_MOST_WORDS]


def _cut(text: str, chunking: Chunking) -> list[str]:
    return [text[start:end] for start, end in spans(text, chunking)]


def missing_store(id: str, param: str | None = None) -> SpecError:
    message = f"the vector store {id[:100]!r} does not exist"
    return SpecError(ErrorPayload("not_found", message, "vector_store_not_found", param))
