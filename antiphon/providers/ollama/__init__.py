"""`type = "ollama"`: a local or remote Ollama over its own `/api/chat`, lines of JSON instead of events."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from antiphon.config import OllamaProvider, Secret, UpstreamTimeouts
from antiphon.config import ProviderSettings as ProviderConfig
from antiphon.providers import queries
from antiphon.providers.base import Capabilities, Environment, Sink, Turn
from antiphon.providers.exchange import Call, ask, encoded
from antiphon.providers.http import UpstreamClient
from antiphon.providers.ollama.request import CAPABILITIES, prepare
from antiphon.providers.ollama.stream import OllamaStream

BASE_URL = "http://127.0.0.1:11434"


class Ollama:
    """One server, with the options and the patience that it is to have with its models."""

    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str = BASE_URL,
        *,
        api_key: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        options: Mapping[str, Any] | None = None,
        keep_alive: str | None = None,
        timeouts: UpstreamTimeouts | None = None,
    ) -> None:
        self.name = name
        window = (options or {}).get("num_ctx")
        self.capabilities: Capabilities = replace(
            CAPABILITIES, context_window=window if isinstance(window, int) else None
        )
        self._http = http
        self._base = re.sub(r"/(api|v1)?\Z", "", base_url)
        self._options = dict(options or {})
        self._keep_alive = keep_alive
        self._timeouts = timeouts or UpstreamTimeouts()
        self._headers, self._secrets = queries.introduction(api_key, headers, accept="application/x-ndjson")
        self._models = queries.ModelNames(self._fetch_models)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await ask(self._http, turn, self._call, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        """The models that are there."""
        return await self._models.names()

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call:
        body, names = prepare(turn, self.name, options=self._options, keep_alive=self._keep_alive)
        return Call(
            provider=self.name,
            url=f"{self._base}/api/chat",
            headers=self._headers,
            body=encoded(turn, body),
            parser=OllamaStream(names, provider=self.name, note=turn.note(self.name), secrets=self._secrets),
            timeouts=self._timeouts.patient(stream=turn.stream),
            secrets=self._secrets,
        )

    async def _fetch_models(self) -> list[str]:
        tags = await queries.look_up(self._http, f"{self._base}/api/tags", self._headers, self.name)
        listed = tags.get("models")
        return queries.named(listed, "model") or queries.named(listed, "name")


def make(name: str, config: ProviderConfig, environment: Environment) -> Ollama:
    assert isinstance(config, OllamaProvider)
    return Ollama(
        name,
        environment.http,
        config.base_url or BASE_URL,
        api_key=config.api_key,
        headers=config.headers,
        options=config.options,
        keep_alive=config.keep_alive,
        timeouts=config.timeouts,
    )
