"""`type = "vertex"`: the wire of `gemini` on Google Cloud, by project and location, with its accounts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name
from antiphon.providers import errors, model_lists
from antiphon.providers.base import Embedded, EmbeddingTask, Environment, Sink, Turn, UpstreamError
from antiphon.providers.exchange import encode_body
from antiphon.providers.gemini import Gemini, PredictAnswer, predict_body
from antiphon.providers.http_provider import embed_in_parts, texts_of
from antiphon.spec.errors import ErrorPayload

if TYPE_CHECKING:
    from antiphon.providers.gemini.access_tokens import AccessTokens

# Locations that are several regions have a host of another shape.
_MULTI_REGIONS = frozenset({"us", "eu"})
_COUNTED = ("contents", "systemInstruction", "tools", "generationConfig")


def base_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{location}-aiplatform.googleapis.com/v1"


class VertexSettings(HttpSettings, frozen=True, kw_only=True):
    project: Name | None = None
    location: Name = "global"
    credentials: Name | None = None

    @classmethod
    def variables(cls, table: Mapping[str, object]) -> Mapping[str, str]:
        """The variables that Google's own tools read; an API key needs neither project nor location."""
        if table.keys() & {"api_key", "api_key_env"}:
            return {}
        return {"project": "GOOGLE_CLOUD_PROJECT", "location": "VERTEX_AI_LOCATION"}


class Vertex(Gemini):
    """One project and location. With an API key it needs neither a project nor tokens."""

    Settings = VertexSettings
    model_prefix = "publishers/google/models/"
    model_prefixes = ("publishers/", "endpoints/")
    reports_invocations = False

    def __init__(self, settings: VertexSettings, environment: Environment) -> None:
        address = settings.base_url or base_url(settings.location)
        super().__init__(replace(settings, base_url=address), environment)
        self._project = settings.project
        self._location = settings.location
        self._tokens = None if settings.api_key is not None else _tokens(settings, environment)
        self._own_headers = self._headers
        self._own_secrets = self._secrets

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await self._sign_in()
        await super().answer(turn, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        await self._sign_in()
        return await super().count_tokens(turn)

    async def embed(self, task: EmbeddingTask) -> Embedded:
        await self._sign_in()

        async def ask(texts: Sequence[str]) -> Embedded:
            body = predict_body(texts, task.dimensions)
            return await self._embed_texts(task.model, "predict", body, PredictAnswer, len(texts))

        # The newer models take one text a request.
        return await embed_in_parts(texts_of(task, self.name), 1, ask)

    async def close(self) -> None:
        if self._tokens is not None:
            await self._tokens.close()

    async def _sign_in(self) -> None:
        if self._tokens is None:
            return
        token = await self._tokens.get_fresh()
        bearer = f"Bearer {token.value}"
        if self._headers.get("Authorization") != bearer:
            billed = {"x-goog-user-project": token.billed} if token.billed else {}
            self._headers = {"Authorization": bearer, **billed, **self._own_headers}
            self._secrets = (*self._own_secrets, token.value)
        self._project = self._project or token.project
        if self._project is None:
            message = f"{self.name}: the credentials belong to no project; set `project`"
            raise UpstreamError(ErrorPayload("server_error", message, errors.UPSTREAM_AUTH), 502)

    def _path(self, model: str) -> str:
        path = super()._path(model)
        if self._project is None:
            return path
        return f"projects/{self._project}/locations/{self._location}/{path}"

    def _build_count_body(self, turn: Turn, body: dict[str, Any]) -> bytes:
        return encode_body(turn, {name: body[name] for name in _COUNTED if name in body})

    async def _fetch_models(self) -> model_lists.ModelList:
        await self._sign_in()
        return await super()._fetch_models()

    def _list_url(self) -> str:
        # The list exists only in this version.
        base = f"{self._base}beta1" if self._base.endswith("/v1") else self._base
        return f"{base}/publishers/google/models?pageSize=300"

    def _read_model_page(self, page: dict[str, Any]) -> model_lists.ModelList:
        found = model_lists.parse_model_list(page.get("publisherModels"), "name", model_lists.of_gemini)
        short = {name.rsplit("/", 1)[-1]: facts for name, facts in found.items()}
        return {name: facts for name, facts in short.items() if name.startswith("gemini")}


def _tokens(settings: VertexSettings, environment: Environment) -> "AccessTokens":
    try:
        from antiphon.providers.gemini.access_tokens import AccessTokens, load_service_account
    except ImportError:
        message = 'the type "vertex" needs google-auth; install `antiphon[vertex]`, or set an `api_key`'
        raise settings.mistake("type", message) from None
    name, credentials = settings.name, settings.credentials
    if credentials is None:
        return AccessTokens(name, environment.http)
    try:
        return AccessTokens(name, environment.http, load_service_account(Path(credentials).expanduser()))
    except ValueError as error:
        raise settings.mistake("credentials", str(error)) from None
