"""`type = "ollama"`: a local or remote Ollama over its own `/api/chat`, lines of JSON instead of events."""

import re
from dataclasses import replace
from typing import Any, ClassVar

from msgspec import Raw, Struct

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name
from antiphon.providers import model_lists
from antiphon.providers.base import Embedded, EmbeddingTask, Environment, Turn
from antiphon.providers.exchange import Call
from antiphon.providers.http_provider import HttpProvider, check_vectors, texts_of
from antiphon.providers.ollama.request import CAPABILITIES, prepare
from antiphon.providers.ollama.stream import OllamaStream

BASE_URL = "http://127.0.0.1:11434"


class OllamaSettings(HttpSettings, frozen=True, kw_only=True):
    """Its `options` are a key of the table: Ollama's own options, passed on as they are."""

    filled_in: ClassVar[frozenset[str]] = HttpSettings.filled_in - {"options"}

    keep_alive: Name | None = None


class _Vectors(Struct):
    embeddings: list[Raw]
    prompt_eval_count: int = 0


class Ollama(HttpProvider):
    """One server, with the options and the patience that it is to have with its models."""

    Settings = OllamaSettings

    def __init__(self, settings: OllamaSettings, environment: Environment) -> None:
        base = re.sub(r"/(api|v1)?\Z", "", settings.base_url or BASE_URL)
        super().__init__(settings, environment, base, accept="application/x-ndjson")
        window = settings.options.get("num_ctx")
        self.capabilities = replace(CAPABILITIES, context_window=window if isinstance(window, int) else None)
        self._options = settings.options
        self._keep_alive = settings.keep_alive

    async def embed(self, task: EmbeddingTask) -> Embedded:
        texts = texts_of(task, self.name)
        body: dict[str, Any] = {"model": task.model, "input": texts}
        if task.dimensions is not None:
            body["dimensions"] = task.dimensions
        if self._options:
            body["options"] = self._options
        if self._keep_alive is not None:
            body["keep_alive"] = self._keep_alive
        answer = await self._embeddings(f"{self._base}/api/embed", body, _Vectors)
        return check_vectors(self.name, len(texts), answer.embeddings, answer.prompt_eval_count)

    def _call(self, turn: Turn) -> Call:
        body, names = prepare(turn, self.name, options=self._options, keep_alive=self._keep_alive)
        parser = OllamaStream(
            names,
            provider=self.name,
            note=turn.note(self.name),
            secrets=self._secrets,
            keeps_chunks=turn.keeps_chunks,
        )
        return self._call_for(turn, f"{self._base}/api/chat", body, parser)

    async def _fetch_models(self) -> model_lists.ModelList:
        tags = await self._look_up(f"{self._base}/api/tags")
        listed = tags.get("models")
        return model_lists.parse_model_list(listed, "model") or model_lists.parse_model_list(listed, "name")
