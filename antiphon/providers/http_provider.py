"""What the adapters to upstreams over HTTP share: one address, one key, and what is asked beside a turn."""

from collections.abc import Awaitable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from antiphon.config import HttpSettings, ModelFacts
from antiphon.providers import queries
from antiphon.providers.base import Capabilities, Environment, Sink, Turn
from antiphon.providers.embeddings import post_for_embeddings
from antiphon.providers.exchange import Call, Parser, ask, encode_body
from antiphon.providers.model_lists import ModelList, ModelNames
from antiphon.providers.queries import RequestIdentity

S = TypeVar("S", bound=Struct)


class HttpProvider:
    """A provider makes the `_call` of a turn, and fetches the list of its models; the rest is here.

    `identity` is for an upstream whose every request is signed: the headers of this one, and its secrets.
    """

    capabilities: Capabilities

    def __init__(
        self,
        settings: HttpSettings,
        environment: Environment,
        base: str,
        *,
        key: str = queries.BEARER,
        accept: str = queries.EVENTS_OR_JSON,
    ) -> None:
        self.name = settings.name
        self._base = base
        self._http = environment.http
        self._timeouts = settings.timeouts
        self._headers, self._secrets = queries.build_identity(
            settings.api_key, settings.headers, key=key, accept=accept
        )
        self._models = ModelNames(self._fetch_models)

    def answer(self, turn: Turn, sink: Sink) -> Coroutine[Any, Any, None]:
        return ask(self._http, turn, self._call, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        """The names of the upstream's own list; empty when it has none to give."""
        return await self._models.names()

    def facts(self, model: str) -> ModelFacts | None:
        """What the list last said of a model."""
        return self._models.facts(model)

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call | Awaitable[Call]:
        raise NotImplementedError

    async def _fetch_models(self) -> ModelList:
        raise NotImplementedError

    def _call_for(
        self,
        turn: Turn,
        url: str,
        body: dict[str, Any],
        parser: Parser,
        headers: Mapping[str, str] | None = None,
    ) -> Call:
        """The call that sends this body; the answer may take as long as the turn allows."""
        return Call(
            self.name,
            url,
            self._headers if headers is None else headers,
            encode_body(turn, body),
            parser,
            self._timeouts.patient(stream=turn.stream),
            secrets=self._secrets,
        )

    async def _count(
        self,
        url: str,
        body: bytes,
        field: str,
        identity: RequestIdentity | None = None,
        *,
        absent: Collection[int] = (),
    ) -> int | None:
        """The number that the upstream counts; None when its status says that it counts nothing here."""
        headers, secrets = identity or (self._headers, self._secrets)
        return await queries.count(
            self._http,
            url,
            body,
            headers,
            self._timeouts,
            provider=self.name,
            field=field,
            secrets=secrets,
            absent=absent,
        )

    async def _embeddings(
        self,
        url: str,
        body: Mapping[str, Any] | bytes,
        shape: type[S],
        identity: RequestIdentity | None = None,
    ) -> S:
        headers, secrets = identity or (self._headers, self._secrets)
        return await post_for_embeddings(
            self._http,
            url,
            body,
            headers,
            self._timeouts,
            shape,
            provider=self.name,
            secrets=secrets,
        )

    async def _look_up(self, url: str, identity: RequestIdentity | None = None) -> dict[str, Any]:
        """The JSON object at an address; an empty one when the upstream has none there."""
        headers, secrets = identity or (self._headers, self._secrets)
        return await queries.look_up(self._http, url, headers, self.name, secrets)
