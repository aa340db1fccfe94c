"""`type = "gemini"`: Google's Gemini API, `generateContent` and `streamGenerateContent`."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import Raw, Struct

from antiphon.config import HttpSettings
from antiphon.providers import errors, model_lists, queries
from antiphon.providers.base import Capabilities, Embedded, EmbeddingTask, Environment, Turn, UpstreamError
from antiphon.providers.exchange import Call, encode_body, run_apart
from antiphon.providers.gemini.request import PARAMETERS, SEARCHES, prepare
from antiphon.providers.gemini.stream import GeminiStream
from antiphon.providers.http_provider import HttpProvider, check_vectors, embed_in_parts, texts_of
from antiphon.spec.errors import ErrorPayload

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
CAPABILITIES = Capabilities(
    parameters=PARAMETERS,
    images=True,
    image_urls=True,
    files=True,
    file_urls=True,
    audio=True,
    custom_tools=True,
    hosted_tools=SEARCHES,
    json_schema=True,
    logprobs=True,
    reasoning=True,
    proofs=True,
    counts_tokens=True,
)

_MOST_PAGES = 10
_MOST_TEXTS = 100
"""How many texts one `batchEmbedContents` takes."""
# A model's name becomes a part of the address, so it must not lead anywhere else.
_MODEL = re.compile(r"(?!.*\.\.)[\w.@-]+(/[\w.@-]+)*", re.ASCII)


class GeminiSettings(HttpSettings, frozen=True, kw_only=True):
    """It has no keys of its own."""


class Gemini(HttpProvider):
    """One address and one key."""

    Settings: ClassVar[type[HttpSettings]] = GeminiSettings
    capabilities = CAPABILITIES
    model_prefix = "models/"
    """The prefix of a model's name that has none."""
    model_prefixes: tuple[str, ...] = ("models/", "tunedModels/")
    reports_invocations = True
    """Must a request ask for the calls of Google's own tools when it has functions beside them?"""

    def __init__(self, settings: HttpSettings, environment: Environment) -> None:
        base = (settings.base_url or BASE_URL).rstrip("/")
        super().__init__(settings, environment, base, key="x-goog-api-key: ")

    async def count_tokens(self, turn: Turn) -> int | None:
        url = self._url(turn.model, "countTokens")

        def build_body() -> bytes:
            body = prepare(turn, self.name, invocations=self.reports_invocations).body
            return self._build_count_body(turn, body)

        return await self._count(url, await run_apart(turn, build_body), "totalTokens")

    async def embed(self, task: EmbeddingTask) -> Embedded:
        path = self._path(task.model)

        async def ask(texts: Sequence[str]) -> Embedded:
            body = embed_body(path, texts, task.dimensions)
            return await self._embed_texts(task.model, "batchEmbedContents", body, EmbedAnswer, len(texts))

        return await embed_in_parts(texts_of(task, self.name), _MOST_TEXTS, ask)

    async def _embed_texts(
        self,
        model: str,
        method: str,
        body: dict[str, Any],
        shape: "type[EmbedAnswer] | type[PredictAnswer]",
        count: int,
    ) -> Embedded:
        answer = await self._embeddings(self._url(model, method), body, shape)
        return check_vectors(self.name, count, answer.vectors(), answer.tokens())

    def _call(self, turn: Turn) -> Call:
        prepared = prepare(turn, self.name, invocations=self.reports_invocations)
        method = "streamGenerateContent?alt=sse" if turn.stream else "generateContent"
        parser = GeminiStream(
            prepared.names,
            provider=self.name,
            note=turn.note(self.name),
            secrets=self._secrets,
            keeps_chunks=turn.keeps_chunks,
        )
        return self._call_for(turn, self._url(turn.model, method), prepared.body, parser)

    def _url(self, model: str, method: str) -> str:
        return f"{self._base}/{self._path(model)}:{method}"

    def _path(self, model: str) -> str:
        if not _MODEL.fullmatch(model):
            message = f"{self.name}: {model[:100]!r} cannot be the name of a model"
            raise UpstreamError(ErrorPayload("not_found", message, errors.MODEL_NOT_FOUND, "model"), 404)
        return model if model.startswith(self.model_prefixes) else f"{self.model_prefix}{model}"

    def _build_count_body(self, turn: Turn, body: dict[str, Any]) -> bytes:
        """Build the body that `countTokens` wants for the whole request."""
        return b'{"generateContentRequest":%b}' % encode_body(turn, {"model": self._path(turn.model), **body})

    def _list_url(self) -> str:
        return f"{self._base}/models?pageSize=1000"

    def _read_model_page(self, page: dict[str, Any]) -> model_lists.ModelList:
        """The models on one page of the list."""
        return {
            str(one.get("name", "")).removeprefix("models/"): model_lists.of_gemini(one)
            for one in queries.objects(page.get("models"))
            if "generateContent" in (one.get("supportedGenerationMethods") or ("generateContent",))
        }

    async def _fetch_models(self) -> model_lists.ModelList:
        found: model_lists.ModelList = {}
        more = ""
        for _ in range(_MOST_PAGES):
            url = self._list_url() + (f"&pageToken={more}" if more else "")
            page = await self._look_up(url)
            found |= self._read_model_page(page)
            more = str(page.get("nextPageToken") or "")
            if not re.fullmatch(r"[\w=.~-]+", more):
                break
        found.pop("", None)
        return found


class _Values(Struct):
    values: Raw


class _Counted(Struct, rename="camel"):
    prompt_token_count: int = 0


class EmbedAnswer(Struct, rename="camel"):
    embeddings: list[_Values]
    usage_metadata: _Counted | None = None

    def vectors(self) -> list[Raw]:
        return [one.values for one in self.embeddings]

    def tokens(self) -> int:
        return self.usage_metadata.prompt_token_count if self.usage_metadata else 0


class _Statistics(Struct):
    token_count: float = 0


class _Predicted(Struct):
    values: Raw
    statistics: _Statistics | None = None


class _Prediction(Struct):
    embeddings: _Predicted


class PredictAnswer(Struct):
    predictions: list[_Prediction]

    def vectors(self) -> list[Raw]:
        return [one.embeddings.values for one in self.predictions]

    def tokens(self) -> int:
        counted = [one.embeddings.statistics for one in self.predictions]
        return int(sum(one.token_count for one in counted if one is not None))


def embed_body(path: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    """`path` is the model's; each text is a request of its own within the batch."""
    more = {} if dimensions is None else {"outputDimensionality": dimensions}
    return {"requests": [{"model": path, "content": {"parts": [{"text": text}]}, **more} for text in texts]}


def predict_body(texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    more = {} if dimensions is None else {"parameters": {"outputDimensionality": dimensions}}
    return {"instances": [{"content": text} for text in texts], **more}
