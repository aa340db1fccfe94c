"""`type = "bedrock"`: the models of AWS Bedrock, over Converse and ConverseStream."""

import os
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Raw, Struct

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name
from antiphon.providers import model_lists, queries
from antiphon.providers.base import Capabilities, Embedded, EmbeddingTask, Environment, Turn, UpstreamError
from antiphon.providers.bedrock.auth import (
    BEARER_VARIABLE,
    ApiKey,
    AwsCredentials,
    Identity,
    can_sign,
    region_of,
)
from antiphon.providers.bedrock.eventstream import CONTENT_TYPE
from antiphon.providers.bedrock.models import Family, find
from antiphon.providers.bedrock.request import prepare
from antiphon.providers.bedrock.stream import BedrockStream
from antiphon.providers.exchange import Call, encode_body, run_apart
from antiphon.providers.http_provider import HttpProvider, check_vectors, embed_in_parts, texts_of
from antiphon.spec.codec import encode
from antiphon.wires.tools.names import ToolNames

CAPABILITIES = Capabilities(
    parameters=frozenset(
        {"temperature", "top_p", "max_output_tokens", "reasoning", "service_tier", "stop", "top_k"}
    ),
    images=True,
    files=True,
    custom_tools=True,
    reasoning=True,
    proofs=True,
    counts_tokens=True,
)
_JSON = {"Content-Type": "application/json", "Accept": f"{CONTENT_TYPE}, application/json"}
_COUNTED = ("messages", "system", "toolConfig", "additionalModelRequestFields")
# Lists of models, with where the names stand in them.
_LISTS = (
    ("/foundation-models?byOutputModality=TEXT", "modelSummaries", "modelId"),
    ("/inference-profiles?maxResults=1000", "inferenceProfileSummaries", "inferenceProfileId"),
)
_HOST_REGION = re.compile(r"bedrock-runtime[\w-]*\.([a-z0-9-]+)\.")


class BedrockSettings(HttpSettings, frozen=True, kw_only=True):
    region: Name | None = None
    profile: Name | None = None
    guardrail: Name | None = None
    guardrail_version: Name = "DRAFT"
    cache: bool = True
    like: Name | None = None


class Bedrock(HttpProvider):
    """Bedrock in one region, for one identity."""

    Settings = BedrockSettings

    def __init__(self, settings: BedrockSettings, environment: Environment) -> None:
        base_url, self._identity = _find_address_and_identity(settings)
        super().__init__(settings, environment, base_url.rstrip("/"))
        self.capabilities = CAPABILITIES
        self._own_headers = {header: value.reveal() for header, value in settings.headers.items()}
        self._guardrail: dict[str, str] = {}
        if settings.guardrail:
            self._guardrail = {
                "guardrailIdentifier": settings.guardrail,
                "guardrailVersion": settings.guardrail_version,
            }
        self._cache = settings.cache
        self._like = settings.like

    async def count_tokens(self, turn: Turn) -> int | None:
        """Only some models can be counted, and only under their own names."""

        def build_body() -> bytes:
            body = prepare(turn, self._family(turn), self.name).body
            counted = encode_body(turn, {name: body[name] for name in _COUNTED if name in body})
            return b'{"input":{"converse":%b}}' % counted

        raw = await run_apart(turn, build_body)
        url = self._url(turn.model, "count-tokens")
        return await self._count(
            url, raw, "inputTokens", await self._sign("POST", url, raw, _JSON), absent=(400, 404)
        )

    async def embed(self, task: EmbeddingTask) -> Embedded:
        url = self._url(task.model, "invoke")

        async def ask(texts: Sequence[str]) -> Embedded:
            raw = encode(invoke_body(task.model, texts, task.dimensions))
            identity = await self._sign("POST", url, raw, {"Content-Type": "application/json"})
            answer = await self._embeddings(url, raw, InvokeAnswer, identity)
            return check_vectors(self.name, len(texts), answer.vectors(), answer.input_text_token_count)

        return await embed_in_parts(texts_of(task, self.name), max_texts(task.model), ask)

    def _call(self, turn: Turn) -> Awaitable[Call]:
        family = self._family(turn)
        prepared = prepare(turn, family, self.name, cache=self._cache, guardrail=self._guardrail)
        return self._sign_call(turn, family, prepared.names, encode_body(turn, prepared.body))

    async def _sign_call(self, turn: Turn, family: Family, names: ToolNames, body: bytes) -> Call:
        url = self._url(turn.model, "converse-stream" if turn.stream else "converse")
        headers, secrets = await self._sign("POST", url, body, _JSON)
        parser = BedrockStream(
            names,
            provider=self.name,
            summarises=family.summarises,
            note=turn.note(self.name),
            secrets=secrets,
        )
        limits = self._timeouts.for_answer(stream=turn.stream)
        return Call(self.name, url, headers, body, parser, limits, secrets=secrets)

    async def _sign(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> queries.RequestIdentity:
        """The headers of a request with its signature, and what of them is secret."""
        proof = await self._identity.prove(method, url, body)
        own = self._own_headers
        return queries.RequestIdentity({**headers, **own, **proof.headers}, (*proof.secrets, *own.values()))

    def _family(self, turn: Turn) -> Family:
        return find(turn.model, self._like or "")

    def _url(self, model: str, what: str) -> str:
        # An ARN is one segment of the path, slashes and all.
        return f"{self._base}/model/{quote(model, safe='')}/{what}"

    async def _fetch_models(self) -> model_lists.ModelList:
        found: model_lists.ModelList = {}
        failures: list[UpstreamError] = []
        for one in _LISTS:
            try:
                for name, facts in (await self._fetch_list(*one)).items():
                    found.setdefault(name, facts)
            except UpstreamError as error:
                failures.append(error)
        if len(failures) == len(_LISTS):
            raise failures[0]
        return found

    async def _fetch_list(self, path: str, place: str, name: str) -> model_lists.ModelList:
        url = self._base.replace("//bedrock-runtime", "//bedrock", 1) + path
        answer = await self._look_up(url, await self._sign("GET", url, b"", {}))
        return model_lists.parse_model_list(answer.get(place), name, model_lists.of_bedrock)


def _find_address_and_identity(settings: BedrockSettings) -> tuple[str, Identity]:
    """Find the address of the region, and the credentials to use there."""
    host = _HOST_REGION.match(urlsplit(settings.base_url or "").hostname or "")
    region = settings.region or (host[1] if host else None) or region_of(settings.profile)
    key = settings.api_key.reveal() if settings.api_key else os.environ.get(BEARER_VARIABLE)
    if region is None and (settings.base_url is None or not key):
        message = 'set it, such as "us-east-1", or set the environment variable AWS_REGION'
        raise settings.mistake("region", message)
    address = settings.base_url or _endpoint(region or "")
    if key:
        return address, ApiKey(key)
    if can_sign():
        return address, AwsCredentials(settings.name, region or "", settings.profile)
    message = "AWS credentials need the extra: pip install 'antiphon[bedrock]'; or give a Bedrock API key"
    raise settings.mistake("type", message)


def _endpoint(region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock-runtime.{region}.{domain}"


class _ByType(Struct, forbid_unknown_fields=True):
    float: list[Raw]


class InvokeAnswer(Struct, rename="camel"):
    """Titan gives one vector, with its tokens; Cohere a list of them, or one under the name of its type."""

    embedding: Raw = Raw()
    embeddings: list[Raw] | _ByType | None = None
    input_text_token_count: int = 0

    def vectors(self) -> list[Raw]:
        if self.embedding:
            return [self.embedding]
        found = self.embeddings
        return found.float if isinstance(found, _ByType) else found or []


def is_cohere(model: str) -> bool:
    return "cohere." in model


def max_texts(model: str) -> int:
    """How many texts one request can have."""
    return 96 if is_cohere(model) else 1


def invoke_body(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    if is_cohere(model):
        body: dict[str, Any] = {"texts": texts, "input_type": "search_document", "embedding_types": ["float"]}
        return body if dimensions is None else {**body, "output_dimension": dimensions}
    body = {"inputText": texts[0]}
    return body if dimensions is None else {**body, "dimensions": dimensions}
