"""`type = "gemini"`: Google's Gemini API, `generateContent` and `streamGenerateContent`."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from antiphon.config import HttpSettings
from antiphon.providers import errors, model_lists, queries
from antiphon.providers.base import (
    Capabilities,
    Embedded,
    EmbeddingTask,
    Environment,
    Sink,
    Turn,
    UpstreamError,
)
from antiphon.providers.embeddings import checked, in_parts, posted, texts_of
from antiphon.providers.exchange import Call, apart, ask, encoded
from antiphon.providers.gemini.embeddings import MOST, EmbedAnswer, PredictAnswer, embed_body
from antiphon.providers.gemini.request import PARAMETERS, SEARCHES, prepare
from antiphon.providers.gemini.settings import GeminiSettings
from antiphon.providers.gemini.stream import GeminiStream
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
# A model's name becomes a part of the address, so it must not lead anywhere else.
_MODEL = re.compile(r"(?!.*\.\.)[\w.@-]+(/[\w.@-]+)*", re.ASCII)


class Gemini(model_lists.ListedModels):
    """One address and one key."""

    Settings: ClassVar[type[HttpSettings]] = GeminiSettings
    capabilities = CAPABILITIES
    home = "models/"
    """What stands before a model's name when the name does not say."""
    homes: tuple[str, ...] = ("models/", "tunedModels/")
    tells_invocations = True
    """Must it be asked to tell what its own tools do, where there are functions beside them?"""

    def __init__(self, settings: HttpSettings, environment: Environment) -> None:
        self.name = settings.name
        self._http = environment.http
        self._base = (settings.base_url or BASE_URL).rstrip("/")
        self._timeouts = settings.timeouts
        self._headers, self._secrets = queries.introduction(
            settings.api_key, settings.headers, key="x-goog-api-key: "
        )
        self._models = model_lists.ModelNames(self._fetch_models)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await ask(self._http, turn, self._call, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        url = self._url(turn.model, "countTokens")

        def asked() -> bytes:
            body = prepare(turn, self.name, invocations=self.tells_invocations).body
            return self._counted(turn, body)

        return await queries.count(
            self._http,
            url,
            await apart(turn, asked),
            self._headers,
            self._timeouts,
            provider=self.name,
            field="totalTokens",
            secrets=self._secrets,
        )

    async def embed(self, task: EmbeddingTask) -> Embedded:
        path = self._path(task.model)

        async def ask(texts: Sequence[str]) -> Embedded:
            body = embed_body(path, texts, task.dimensions)
            return await self._embedded(task.model, "batchEmbedContents", body, EmbedAnswer, len(texts))

        return await in_parts(texts_of(task, self.name), MOST, ask)

    async def _embedded(
        self,
        model: str,
        method: str,
        body: dict[str, Any],
        shape: type[EmbedAnswer] | type[PredictAnswer],
        count: int,
    ) -> Embedded:
        answer = await posted(
            self._http,
            self._url(model, method),
            body,
            self._headers,
            self._timeouts,
            shape,
            provider=self.name,
            secrets=self._secrets,
        )
        return checked(self.name, count, answer.vectors(), answer.tokens())

    def _call(self, turn: Turn) -> Call:
        prepared = prepare(turn, self.name, invocations=self.tells_invocations)
        method = "streamGenerateContent?alt=sse" if turn.stream else "generateContent"
        return Call(
            provider=self.name,
            url=self._url(turn.model, method),
            headers=self._headers,
            body=encoded(turn, prepared.body),
            parser=GeminiStream(
                prepared.names,
                provider=self.name,
                note=turn.note(self.name),
                secrets=self._secrets,
                keeps_chunks=turn.keeps_chunks,
            ),
            timeouts=self._timeouts.patient(stream=turn.stream),
            secrets=self._secrets,
        )

    def _url(self, model: str, method: str) -> str:
        return f"{self._base}/{self._path(model)}:{method}"

    def _path(self, model: str) -> str:
        if not _MODEL.fullmatch(model):
            message = f"{self.name}: {model[:100]!r} cannot be the name of a model"
            raise UpstreamError(ErrorPayload("not_found", message, errors.MODEL_NOT_FOUND, "model"), 404)
        return model if model.startswith(self.homes) else f"{self.home}{model}"

    def _counted(self, turn: Turn, body: dict[str, Any]) -> bytes:
        """The body that `countTokens` wants for the whole request."""
        return b'{"generateContentRequest":%b}' % encoded(turn, {"model": self._path(turn.model), **body})

    def _list_url(self) -> str:
        return f"{self._base}/models?pageSize=1000"

    def _listed(self, page: dict[str, Any]) -> model_lists.Listed:
        """The models on one page of the list."""
        return {
            str(one.get("name", "")).removeprefix("models/"): model_lists.of_gemini(one)
            for one in queries.objects(page.get("models"))
            if "generateContent" in (one.get("supportedGenerationMethods") or ("generateContent",))
        }

    async def _fetch_models(self) -> model_lists.Listed:
        found: model_lists.Listed = {}
        more = ""
        for _ in range(_MOST_PAGES):
            url = self._list_url() + (f"&pageToken={more}" if more else "")
            page = await queries.look_up(self._http, url, self._headers, self.name, self._secrets)
            found |= self._listed(page)
            more = str(page.get("nextPageToken") or "")
            if not re.fullmatch(r"[\w=.~-]+", more):
                break
        found.pop("", None)
        return found
