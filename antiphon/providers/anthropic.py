"""`type = "anthropic"`: the Messages API, of Anthropic or of a server that imitates it."""

import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from antiphon.config import AnthropicProvider, Secret, Timeouts
from antiphon.config import Provider as ProviderConfig
from antiphon.providers import errors
from antiphon.providers.anthropic_request import LATEST, Prepared, Shape, prepare
from antiphon.providers.anthropic_stream import AnthropicStream
from antiphon.providers.base import SUPPRESSED, Capabilities, Environment, Turn, UpstreamError
from antiphon.providers.exchange import Call, exchange
from antiphon.providers.http import UpstreamClient
from antiphon.stream.deltas import AnyDelta

BASE_URL = "https://api.anthropic.com"
IMITATED = "2023-06-01"
"""The version that servers of this wire know which are not Anthropic's own."""

_PARAMETERS = frozenset({"max_output_tokens", "reasoning", "service_tier", "safety_identifier", "stop"})
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_MODELS_FRESH = 60.0
_PATIENCE = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=10.0)
"""For questions beside a turn, which nobody wants to wait for."""


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
        timeouts: Timeouts | None = None,
    ) -> None:
        self.name = name
        self._http = http
        self._base = base_url.rstrip("/").removesuffix("/messages").removesuffix("/v1")
        self._shape = Shape(name, version or _version(base_url), max_tokens, cache)
        self.capabilities = _capabilities(self._shape)
        self._timeouts = timeouts or Timeouts()
        self._betas = tuple(beta)
        own = {header: value.reveal() for header, value in (headers or {}).items()}
        self._secrets = tuple(own.values())
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "anthropic-version": self._shape.version,
        }
        if api_key is not None:
            key = api_key.reveal()
            self._headers |= {"Authorization": f"Bearer {key}"} if auth == "bearer" else {"x-api-key": key}
            self._secrets += (key,)
        self._headers |= own
        self._models: list[str] = []
        self._models_until = 0.0

    def stream(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        return exchange(self._http, lambda: self._call(turn))

    async def count_tokens(self, turn: Turn) -> int | None:
        prepared = prepare(turn, self._shape)
        url = f"{self._base}/v1/messages/count_tokens"
        request = self._http.post(
            url, prepared.to_count(), self._headers_for(prepared), self._timeouts, provider=self.name
        )
        async with request as response:
            answer = await response.read()
            if response.status != 200:
                raise errors.refused(
                    self.name, response.status, response.headers, answer, secrets=self._secrets
                )
        count = _object(answer).get("input_tokens")
        return count if isinstance(count, int) else None

    async def models(self) -> list[str]:
        """The upstream's own list, asked for at most once a minute; empty when it has none to give."""
        if time.monotonic() >= self._models_until:
            self._models = await self._fetch_models()
            self._models_until = time.monotonic() + _MODELS_FRESH
        return list(self._models)

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call:
        prepared = prepare(turn, self._shape)
        parser = AnthropicStream(
            prepared.names,
            provider=self.name,
            summarises=prepared.model.summarises,
            note=lambda what: turn.receipt(self.name, "input.reasoning", what, SUPPRESSED),
            secrets=self._secrets,
        )
        return Call(
            provider=self.name,
            url=f"{self._base}/v1/messages",
            headers=self._headers_for(prepared),
            body=prepared.to_json(),
            parser=parser,
            timeouts=self._timeouts.patient(stream=turn.stream),
            secrets=self._secrets,
        )

    def _headers_for(self, prepared: Prepared) -> Mapping[str, str]:
        betas = dict.fromkeys((*self._betas, *prepared.betas))
        return {**self._headers, "anthropic-beta": ",".join(betas)} if betas else self._headers

    async def _fetch_models(self) -> list[str]:
        try:
            url = f"{self._base}/v1/models?limit=1000"
            async with self._http.get(url, self._headers, _PATIENCE, provider=self.name) as response:
                listed = _object(await response.read()).get("data") if response.status == 200 else None
        except UpstreamError:
            return []
        found = listed if isinstance(listed, list) else []
        return [one["id"] for one in found if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _version(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    return LATEST if host.endswith(".anthropic.com") else IMITATED


def _capabilities(shape: Shape) -> Capabilities:
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


def _object(body: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}


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
