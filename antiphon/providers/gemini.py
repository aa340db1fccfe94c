"""`type = "gemini"`: Google's Gemini API, `generateContent` and `streamGenerateContent`."""

import re
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from antiphon.config import GeminiProvider, Secret, Timeouts
from antiphon.config import Provider as ProviderConfig
from antiphon.providers import errors
from antiphon.providers.base import Capabilities, Environment, Turn, UpstreamError
from antiphon.providers.exchange import Call, exchange
from antiphon.providers.gemini_request import PARAMETERS, prepare
from antiphon.providers.gemini_stream import GeminiStream
from antiphon.providers.http import UpstreamClient
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.opaque import encode
from antiphon.stream.deltas import AnyDelta

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
CAPABILITIES = Capabilities(
    parameters=PARAMETERS,
    images=True,
    image_urls=True,
    files=True,
    file_urls=True,
    audio=True,
    custom_tools=True,
    json_schema=True,
    logprobs=True,
    reasoning=True,
    proofs=True,
    counts_tokens=True,
)

_MODELS_FRESH = 60.0
_MOST_PAGES = 10
_PATIENCE = Timeouts(connect=5.0, first_byte=10.0, idle=10.0, total=10.0)
"""For questions beside a turn, which nobody wants to wait for."""
# A model's name becomes a part of the address, so it must not lead anywhere else.
_MODEL = re.compile(r"(?!.*\.\.)[\w.@-]+(/[\w.@-]+)*", re.ASCII)


class Gemini:
    """One address and one key."""

    capabilities = CAPABILITIES
    home = "models/"
    """What stands before a model's name when the name does not say."""
    homes: tuple[str, ...] = ("models/", "tunedModels/")

    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str = BASE_URL,
        *,
        api_key: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.name = name
        self._http = http
        self._base = base_url.rstrip("/")
        self._timeouts = timeouts or Timeouts()
        own = {header: value.reveal() for header, value in (headers or {}).items()}
        self._secrets = tuple(own.values())
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if api_key is not None:
            self._headers["x-goog-api-key"] = api_key.reveal()
            self._secrets += (api_key.reveal(),)
        self._headers |= own
        self._models: list[str] = []
        self._models_until = 0.0

    def stream(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        return exchange(self._http, lambda: self._call(turn))

    async def count_tokens(self, turn: Turn) -> int | None:
        url = self._url(turn.model, "countTokens")
        body = encode(self._counted(turn.model, prepare(turn, self.name).body))
        request = self._http.post(url, body, self._headers, self._timeouts, provider=self.name)
        async with request as response:
            answer = await response.read()
            if response.status != 200:
                raise errors.refused(
                    self.name, response.status, response.headers, answer, secrets=self._secrets
                )
        count = _object(answer).get("totalTokens")
        return count if isinstance(count, int) else None

    async def models(self) -> list[str]:
        """Those that generate content, asked for at most once a minute; empty when there is no answer."""
        if time.monotonic() >= self._models_until:
            self._models = await self._fetch_models()
            self._models_until = time.monotonic() + _MODELS_FRESH
        return list(self._models)

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call:
        prepared = prepare(turn, self.name)
        method = "streamGenerateContent?alt=sse" if turn.stream else "generateContent"
        return Call(
            provider=self.name,
            url=self._url(turn.model, method),
            headers=self._headers,
            body=prepared.to_json(),
            parser=GeminiStream(prepared.names, provider=self.name, secrets=self._secrets),
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

    def _counted(self, model: str, body: dict[str, Any]) -> dict[str, Any]:
        """The body that `countTokens` wants for the whole request."""
        return {"generateContentRequest": {"model": self._path(model), **body}}

    def _list_url(self) -> str:
        return f"{self._base}/models?pageSize=1000"

    def _listed(self, page: dict[str, Any]) -> list[str]:
        """The names on one page of the list."""
        return [
            str(one.get("name", "")).removeprefix("models/")
            for one in objects(page.get("models"))
            if "generateContent" in (one.get("supportedGenerationMethods") or ("generateContent",))
        ]

    async def _fetch_models(self) -> list[str]:
        found: list[str] = []
        more = ""
        try:
            for _ in range(_MOST_PAGES):
                url = self._list_url() + (f"&pageToken={more}" if more else "")
                async with self._http.get(url, self._headers, _PATIENCE, provider=self.name) as response:
                    page = _object(await response.read()) if response.status == 200 else {}
                found += filter(None, self._listed(page))
                more = str(page.get("nextPageToken") or "")
                if not re.fullmatch(r"[\w=.~-]+", more):
                    break
        except UpstreamError:
            return found
        return found


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}


def objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def make(name: str, config: ProviderConfig, environment: Environment) -> Gemini:
    assert isinstance(config, GeminiProvider)
    return Gemini(
        name,
        environment.http,
        config.base_url or BASE_URL,
        api_key=config.api_key,
        headers=config.headers,
        timeouts=config.timeouts,
    )
