"""`type = "chat"`: any server that speaks OpenAI's `/chat/completions`."""

import time
from collections.abc import AsyncGenerator, Mapping

import msgspec

from antiphon.config import ChatProvider, Secret, Timeouts
from antiphon.config import Provider as ProviderConfig
from antiphon.providers import errors
from antiphon.providers.base import Capabilities, Environment, Turn, UpstreamError
from antiphon.providers.chat_profiles import Profile, choose
from antiphon.providers.chat_request import Prepared, prepare
from antiphon.providers.chat_stream import ChatStream
from antiphon.providers.exchange import Call, exchange
from antiphon.providers.http import UpstreamClient
from antiphon.providers.thoughts import Kept
from antiphon.providers.tools import ToolNames
from antiphon.stream.deltas import AnyDelta

_MODELS_FRESH = 60.0
_PATIENCE = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=10.0)
"""For questions beside a turn, which nobody wants to wait for."""


class Chat:
    """A chat upstream: one address, one key, one profile."""

    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str,
        *,
        api_key: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        profile: Profile | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.name = name
        self.profile = profile or choose(base_url)
        self.capabilities: Capabilities = self.profile.capabilities
        self._http = http
        self._base = base_url.rstrip("/").removesuffix("/chat/completions")
        self._timeouts = timeouts or Timeouts()
        own = {header: value.reveal() for header, value in (headers or {}).items()}
        self._secrets = tuple(own.values())
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key.reveal()}"
            self._secrets += (api_key.reveal(),)
        self._headers |= own
        self._models: list[str] = []
        self._models_until = 0.0

    def stream(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        return exchange(self._http, lambda: self._call(turn))

    async def count_tokens(self, turn: Turn) -> int | None:
        if not self.profile.counts_tokens:
            return None
        body = self._prepare(turn).body
        body.pop("stream", None)
        body.pop("stream_options", None)
        url = f"{self._base}/chat/completions/input_tokens"
        request = self._http.post(
            url, msgspec.json.encode(body), self._headers, self._timeouts, provider=self.name
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
        prepared = self._prepare(turn)
        return Call(
            provider=self.name,
            url=self._url(turn.model),
            headers=self._headers,
            body=prepared.to_json(),
            parser=self._parser(prepared.names),
            timeouts=self._timeouts.patient(stream=turn.stream or self.profile.always_streams),
            secrets=self._secrets,
        )

    # --- what servers that are nearly this one do their own way ------------------------------------------

    def _url(self, model: str) -> str:
        return f"{self._base}/chat/completions"

    def _prepare(self, turn: Turn) -> Prepared:
        return prepare(turn, self.profile, self.name)

    def _parser(self, names: ToolNames) -> ChatStream:
        return ChatStream(
            names,
            provider=self.name,
            think_tags=self.profile.think_tags,
            keeps=Kept() if self.profile.keeps_reasoning else None,
            secrets=self._secrets,
        )

    async def _fetch_models(self) -> list[str]:
        try:
            url = f"{self._base}/models"
            async with self._http.get(url, self._headers, _PATIENCE, provider=self.name) as response:
                answer = _object(await response.read()) if response.status == 200 else {}
        except UpstreamError:
            return []
        listed = answer.get("data") or answer.get("models")
        found = listed if isinstance(listed, list) else []
        return [one["id"] for one in found if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _object(body: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}


def make(name: str, config: ProviderConfig, environment: Environment) -> Chat:
    assert isinstance(config, ChatProvider)
    base_url = config.base_url or ""
    profile = choose(
        base_url, config.profile, max_tokens=config.max_tokens_field, think_tags=config.think_tags
    )
    return Chat(
        name,
        environment.http,
        base_url,
        api_key=config.api_key,
        headers=config.headers,
        profile=profile,
        timeouts=config.timeouts,
    )
