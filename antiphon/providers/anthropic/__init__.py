"""`type = "anthropic"`: the Messages API, of Anthropic or of a server that imitates it."""

from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import urlsplit

from antiphon.config import AnthropicProvider, Secret, UpstreamTimeouts
from antiphon.config import ProviderSettings as ProviderConfig
from antiphon.providers import queries
from antiphon.providers.anthropic.request import LATEST, AnthropicOptions, Prepared, prepare
from antiphon.providers.anthropic.stream import AnthropicStream
from antiphon.providers.base import Capabilities, Environment, Sink, Turn
from antiphon.providers.exchange import Call, apart, ask, encoded
from antiphon.providers.http import UpstreamClient

BASE_URL = "https://api.anthropic.com"
IMITATED = "2023-06-01"
"""The version that servers of this wire know which are not Anthropic's own."""

_PARAMETERS = frozenset({"max_output_tokens", "reasoning", "service_tier", "safety_identifier", "stop"})
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})


class Anthropic:
    """An upstream of this wire: one address, one key, one version."""

    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str = BASE_URL,
        *,
        api_key: Secret | None = None,
        auth: Literal["x-api-key", "bearer"] = "x-api-key",
        version: str | None = None,
        beta: Iterable[str] = (),
        headers: Mapping[str, Secret] | None = None,
        max_tokens: int | None = None,
        cache: bool = True,
        timeouts: UpstreamTimeouts | None = None,
    ) -> None:
        self.name = name
        self._http = http
        self._base = base_url.rstrip("/").removesuffix("/messages").removesuffix("/v1")
        self._shape = AnthropicOptions(name, version or _version(base_url), max_tokens, cache)
        self.capabilities = _capabilities(self._shape)
        self._timeouts = timeouts or UpstreamTimeouts()
        self._betas = tuple(beta)
        key = "Authorization: Bearer " if auth == "bearer" else "x-api-key: "
        self._headers, self._secrets = queries.introduction(api_key, headers, key=key)
        self._headers.setdefault("anthropic-version", self._shape.version)
        self._models = queries.ModelNames(self._fetch_models)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await ask(self._http, turn, self._call, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        def asked() -> tuple[bytes, Mapping[str, str]]:
            prepared = prepare(turn, self._shape)
            return encoded(turn, prepared.counted()), self._headers_for(prepared)

        body, headers = await apart(turn, asked)
        url = f"{self._base}/v1/messages/count_tokens"
        return await queries.count(
            self._http,
            url,
            body,
            headers,
            self._timeouts,
            provider=self.name,
            field="input_tokens",
            secrets=self._secrets,
        )

    async def models(self) -> list[str]:
        """The upstream's own list; empty when it has none to give."""
        return await self._models.names()

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call:
        prepared = prepare(turn, self._shape)
        parser = AnthropicStream(
            prepared.names,
            provider=self.name,
            summarises=prepared.model.summarises,
            note=turn.note(self.name),
            secrets=self._secrets,
        )
        return Call(
            provider=self.name,
            url=f"{self._base}/v1/messages",
            headers=self._headers_for(prepared),
            body=encoded(turn, prepared.body),
            parser=parser,
            timeouts=self._timeouts.patient(stream=turn.stream),
            secrets=self._secrets,
        )

    def _headers_for(self, prepared: Prepared) -> Mapping[str, str]:
        betas = dict.fromkeys((*self._betas, *prepared.betas))
        return {**self._headers, "anthropic-beta": ",".join(betas)} if betas else self._headers

    async def _fetch_models(self) -> list[str]:
        url = f"{self._base}/v1/models?limit=1000"
        answer = await queries.look_up(self._http, url, self._headers, self.name)
        return queries.named(answer.get("data"))


def _version(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    return LATEST if host.endswith(".anthropic.com") else IMITATED


def _capabilities(shape: AnthropicOptions) -> Capabilities:
    return Capabilities(
        parameters=_PARAMETERS | _SAMPLING if shape.sampled else _PARAMETERS,
        images=True,
        image_urls=True,
        files=True,
        file_urls=True,
        custom_tools=True,
        reasoning=True,
        proofs=True,
        counts_tokens=True,
    )


def make(name: str, config: ProviderConfig, environment: Environment) -> Anthropic:
    assert isinstance(config, AnthropicProvider)
    return Anthropic(
        name,
        environment.http,
        config.base_url or BASE_URL,
        api_key=config.api_key,
        auth=config.auth,
        version=config.version,
        beta=config.beta,
        headers=config.headers,
        max_tokens=config.max_tokens,
        cache=config.cache,
        timeouts=config.timeouts,
    )
