"""`type = "anthropic"`: the Messages API, of Anthropic or of a server that imitates it."""

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name
from antiphon.providers import model_lists, queries
from antiphon.providers.anthropic.models import PREFILL
from antiphon.providers.anthropic.request import LATEST, AnthropicOptions, AnthropicRequest, prepare
from antiphon.providers.anthropic.stream import AnthropicStream
from antiphon.providers.base import Capabilities, Environment, Turn
from antiphon.providers.exchange import Call, encode_body, run_apart
from antiphon.providers.http_provider import HttpProvider
from antiphon.wires.messages.vendor import FIELDS, VENDOR

BASE_URL = "https://api.anthropic.com"
IMITATED_VERSION = "2023-06-01"
"""The version that servers of this wire know which are not Anthropic's own."""

_PARAMETERS = frozenset(
    {"max_output_tokens", "reasoning", "service_tier", "safety_identifier", "stop", FIELDS}
)
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})


_Tokens = Annotated[int, Meta(ge=1, le=2**24, description="a number of tokens")]


class AnthropicSettings(HttpSettings, frozen=True, kw_only=True):
    version: Name | None = None
    beta: tuple[Name, ...] = ()
    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    max_tokens: _Tokens | None = None
    cache: bool = True


class Anthropic(HttpProvider):
    """An upstream of this wire: one address, one key, one version."""

    Settings = AnthropicSettings

    def __init__(self, settings: AnthropicSettings, environment: Environment) -> None:
        base_url = settings.base_url or BASE_URL
        base = base_url.rstrip("/").removesuffix("/messages").removesuffix("/v1")
        key = queries.BEARER if settings.auth == "bearer" else "x-api-key: "
        super().__init__(settings, environment, base, key=key)
        self._shape = AnthropicOptions(
            self.name, settings.version or _version(base_url), settings.max_tokens, settings.cache
        )
        self.capabilities = _capabilities(self._shape)
        self._betas = settings.beta
        self._headers = {"anthropic-version": self._shape.version, **self._headers}

    async def count_tokens(self, turn: Turn) -> int | None:
        def build_request() -> tuple[bytes, Mapping[str, str]]:
            prepared = prepare(turn, self._shape)
            return encode_body(turn, prepared.build_count_body()), self._headers_for(prepared)

        body, headers = await run_apart(turn, build_request)
        identity = queries.RequestIdentity(headers, self._secrets)
        return await self._count(f"{self._base}/v1/messages/count_tokens", body, "input_tokens", identity)

    def _call(self, turn: Turn) -> Call:
        prepared = prepare(turn, self._shape)
        parser = AnthropicStream(
            prepared.names,
            provider=self.name,
            summarises=prepared.model.summarises,
            note=turn.note(self.name),
            secrets=self._secrets,
        )
        return self._call_for(
            turn, f"{self._base}/v1/messages", prepared.body, parser, self._headers_for(prepared)
        )

    def _headers_for(self, prepared: AnthropicRequest) -> Mapping[str, str]:
        betas = dict.fromkeys((*self._betas, *prepared.betas))
        return {**self._headers, "anthropic-beta": ",".join(betas)} if betas else self._headers

    async def _fetch_models(self) -> model_lists.ModelList:
        answer = await self._look_up(f"{self._base}/v1/models?limit=1000")
        return model_lists.parse_model_list(answer.get("data"), read=model_lists.of_anthropic)


def _version(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    return LATEST if host.endswith(".anthropic.com") else IMITATED_VERSION


def _capabilities(shape: AnthropicOptions) -> Capabilities:
    return Capabilities(
        parameters=_PARAMETERS | _SAMPLING if shape.has_sampling else _PARAMETERS,
        images=True,
        image_urls=True,
        files=True,
        file_urls=True,
        custom_tools=True,
        hosted_tools=frozenset({f"{VENDOR}web_search"}),
        prefill=PREFILL,
        reasoning=True,
        proofs=True,
        counts_tokens=True,
    )
