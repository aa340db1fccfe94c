"""`type = "ollama"`: a local or remote Ollama over its own `/api/chat`, lines of JSON instead of events."""

import re
from dataclasses import replace
from typing import Any

from msgspec import Raw, Struct

from antiphon.providers import model_lists, queries
from antiphon.providers.base import Capabilities, Embedded, EmbeddingTask, Environment, Sink, Turn
from antiphon.providers.embeddings import checked, posted, texts_of
from antiphon.providers.exchange import Call, ask, encoded
from antiphon.providers.ollama.request import CAPABILITIES, prepare
from antiphon.providers.ollama.settings import OllamaSettings
from antiphon.providers.ollama.stream import OllamaStream

BASE_URL = "http://127.0.0.1:11434"


class _Vectors(Struct):
    embeddings: list[Raw]
    prompt_eval_count: int = 0


class Ollama:
    """One server, with the options and the patience that it is to have with its models."""

    Settings = OllamaSettings

    def __init__(self, settings: OllamaSettings, environment: Environment) -> None:
        self.name = settings.name
        window = settings.options.get("num_ctx")
        self.capabilities: Capabilities = replace(
            CAPABILITIES, context_window=window if isinstance(window, int) else None
        )
        self._http = environment.http
        self._base = re.sub(r"/(api|v1)?\Z", "", settings.base_url or BASE_URL)
        self._options = settings.options
        self._keep_alive = settings.keep_alive
        self._timeouts = settings.timeouts
        self._headers, self._secrets = queries.introduction(
            settings.api_key, settings.headers, accept="application/x-ndjson"
        )
        self._models = model_lists.ModelNames(self._fetch_models)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await ask(self._http, turn, self._call, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        """The models that are there."""
        return await self._models.names()

    async def embed(self, task: EmbeddingTask) -> Embedded:
        texts = texts_of(task, self.name)
        body: dict[str, Any] = {"model": task.model, "input": texts}
        if task.dimensions is not None:
            body["dimensions"] = task.dimensions
        if self._options:
            body["options"] = self._options
        if self._keep_alive is not None:
            body["keep_alive"] = self._keep_alive
        answer = await posted(
            self._http,
            f"{self._base}/api/embed",
            body,
            self._headers,
            self._timeouts,
            _Vectors,
            provider=self.name,
            secrets=self._secrets,
        )
        return checked(self.name, len(texts), answer.embeddings, answer.prompt_eval_count)

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call:
        body, names = prepare(turn, self.name, options=self._options, keep_alive=self._keep_alive)
        return Call(
            provider=self.name,
            url=f"{self._base}/api/chat",
            headers=self._headers,
            body=encoded(turn, body),
            parser=OllamaStream(
                names,
                provider=self.name,
                note=turn.note(self.name),
                secrets=self._secrets,
                keeps_chunks=turn.keeps_chunks,
            ),
            timeouts=self._timeouts.patient(stream=turn.stream),
            secrets=self._secrets,
        )

    async def _fetch_models(self) -> model_lists.Listed:
        tags = await queries.look_up(
            self._http, f"{self._base}/api/tags", self._headers, self.name, self._secrets
        )
        listed = tags.get("models")
        return model_lists.listed(listed, "model") or model_lists.listed(listed, "name")
