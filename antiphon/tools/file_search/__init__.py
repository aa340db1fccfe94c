"""`file_search`: a model looks things up in the files of vector stores."""

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec.structs import asdict

from antiphon.config import ToolSettings
from antiphon.config.kinds import Bytes, Count, Name, Seconds
from antiphon.spec.codec import Opaque
from antiphon.spec.items import Item
from antiphon.store import VectorStore
from antiphon.tools import base
from antiphon.tools.citations import Source, without_marks
from antiphon.tools.file_search.embedding import Embedder, EmbeddingFailed
from antiphon.tools.file_search.extraction import Extractor
from antiphon.tools.file_search.filters import condition
from antiphon.tools.file_search.library import Library
from antiphon.tools.file_search.search import SearchHit, SearchIndex, missing_store
from antiphon.tools.file_search.search_options import MOST_RESULTS, ranking_of, results_of, wrong

TYPE = "file_search"
CALL = "file_search_call"
RESULTS = "file_search_call.results"
STORE = "vs_"
_MOST_STORES = 16
_LONGEST_QUERY = 2000
_OURS = re.compile(r"vs_[0-9a-f]{24}")
_FUNCTION = base.Function(
    "file_search",
    "Searches the user's files and returns the passages that fit the query best. Search again in other words "
    "if nothing fits. Where the answer uses a passage, cite it by writing its mark, such as 【1】, behind "
    "the sentence.",
    base.closed_object(
        {"query": {"type": "string", "description": "What to look for, in words or a question."}}
    ),
    True,
)


class FileSearchSettings(ToolSettings, frozen=True, kw_only=True):
    embeddings: Name | None = None
    """The model that makes vectors, "provider/model" or an alias; without one, words alone are compared."""
    results: Count = 10
    """How many passages a search gives unless the request says."""
    text_limit: Bytes = 8 * 1024 * 1024
    """How much text one file may have."""
    read_timeout: Seconds = 60.0
    """How long reading one file may take."""


class FileSearch(base.HostedTool):
    Settings: ClassVar[type[ToolSettings]] = FileSearchSettings
    types = frozenset({TYPE})
    items = frozenset({CALL})
    includes = frozenset({RESULTS})

    def __init__(self, settings: FileSearchSettings, environment: base.ToolEnvironment) -> None:
        super().__init__(settings, environment)
        self.results = min(settings.results, MOST_RESULTS)
        self.library = Library(environment.store, environment.folder, environment.config.files)
        self.extractor = Extractor(settings.read_timeout, settings.text_limit)
        embedder: Embedder | None = None
        if settings.embeddings is not None:
            try:
                embedder = Embedder(settings.embeddings, environment)
            except ValueError as mistake:
                raise settings.mistake("embeddings", str(mistake)) from None
        self.index = SearchIndex(environment.store, self.library, self.extractor, embedder)

    def is_ours(self, declared: Opaque) -> bool:
        """No provider knows the vector stores of this gateway."""
        ids = declared.fields.get("vector_store_ids")
        return isinstance(ids, list) and any(isinstance(id, str) and _OURS.fullmatch(id) for id in ids)

    async def open(self, declared: Opaque, scope: base.Scope) -> base.ToolSession:
        param = f"{scope.param}.vector_store_ids"
        ids = declared.fields.get("vector_store_ids")
        is_list = isinstance(ids, list) and all(isinstance(id, str) for id in ids)
        if not is_list or not isinstance(ids, list) or not 1 <= len(ids) <= _MOST_STORES:
            raise wrong(param, f"expected a list of 1 to {_MOST_STORES} ids of vector stores")
        stores: dict[str, VectorStore] = {}
        for n, id in enumerate(ids):
            found = await self.index.find(scope.tenant, id, self.environment.clock())
            if found is None:
                raise missing_store(id, f"{param}[{n}]")
            stores[id] = found
        return _Session(self, scope, declared.fields, list(stores.values()))

    def recall(self, item: Opaque, context: Sequence[Item]) -> list[Item]:
        fields = item.fields
        queries = fields.get("queries")
        query = "; ".join(map(str, queries)) if isinstance(queries, list) else ""
        said = [str(one["text"]) for one in base.objects_in(fields.get("results")) if one.get("text")]
        output = "\n\n".join(said) or "(no results were recorded)"
        return base.tell_as_call(item, _FUNCTION.name, json.dumps({"query": query}), output)


class _Session(base.ToolSession):
    functions = (_FUNCTION,)

    def __init__(
        self, tool: FileSearch, scope: base.Scope, declared: dict[str, Any], stores: list[VectorStore]
    ) -> None:
        self._tool = tool
        self._scope = scope
        self._stores = stores
        filters = declared.get("filters")
        self._condition = None if filters is None else condition(filters, f"{scope.param}.filters")
        most = declared.get("max_num_results")
        self._limit = results_of(most, f"{scope.param}.max_num_results", tool.results)
        self._ranking = ranking_of(declared.get("ranking_options"), f"{scope.param}.ranking_options")
        self._shows_results = RESULTS in scope.request.include

    def begin(self, call: base.HostedCall) -> None:
        call.about = []
        call.item(type=CALL, status="in_progress", queries=[], results=None)
        call.event("response.file_search_call.in_progress")

    async def run(self, call: base.HostedCall) -> base.Outcome:
        call.about = queries = [_query_of(call)]
        call.event("response.file_search_call.searching")
        now = self._tool.environment.clock()
        try:
            found = await self._tool.index.search(
                self._stores, queries, self._condition, self._limit, self._ranking, now, self._scope.upstreams
            )
        except EmbeddingFailed as reason:
            raise base.ToolFailure(str(reason)) from None
        call.event("response.file_search_call.completed")
        return base.Outcome(self._write_passages(found), self._item(call, "completed", found))

    def is_idempotent(self, function: str) -> bool:
        return True

    def failure(self, call: base.HostedCall, message: str) -> base.Outcome:
        return base.Outcome(message, self._item(call, "failed", []), failed=True)

    def _write_passages(self, found: Sequence[SearchHit]) -> str:
        """Write each passage for the model, with the mark that cites it, and without marks of its own."""
        if not found:
            return "(nothing was found)"
        shown = [(one, without_marks(f"{one.filename}\n{one.text.strip()}")) for one in found]
        parts = [f"{self._scope.cite(_citation(one))} {text}" for one, text in shown]
        return "\n\n".join(parts)

    def _item(self, call: base.HostedCall, status: str, found: Sequence[SearchHit]) -> dict[str, Any]:
        results = [asdict(one) for one in found] if self._shows_results else None
        return {"type": CALL, "status": status, "queries": call.about or [], "results": results}


def _query_of(call: base.HostedCall) -> str:
    query = (call.read_arguments() or {}).get("query")
    if not isinstance(query, str) or not query.strip():
        raise base.ToolFailure('the arguments must be an object with the query: {"query": "opening hours"}')
    return query[:_LONGEST_QUERY]


def _citation(found: SearchHit) -> Source:
    def annotation(start: int, end: int) -> Opaque:
        about = {"file_id": found.file_id, "filename": found.filename}
        return Opaque.make(type="file_citation", index=start, **about)

    return Source(annotation=annotation)
