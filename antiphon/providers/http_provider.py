"""What the adapters to upstreams over HTTP share: one address, one key, and the requests beside a turn."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from antiphon.config import HttpSettings, ModelFacts
from antiphon.providers import errors, queries
from antiphon.providers.base import Capabilities, Embedded, EmbeddingTask, Environment, Sink, Turn
from antiphon.providers.exchange import Call, Parser, ask, encode_body
from antiphon.providers.model_lists import ModelList, ModelNames
from antiphon.providers.queries import RequestIdentity
from antiphon.spec.codec import UNREADABLE, encode

S = TypeVar("S", bound=Struct)
_AT_ONCE = 8
"""How many requests for embeddings run at the same time for one task."""


class HttpProvider:
    """A base for providers: a subclass makes the `_call` of a turn, and fetches the list of its models.

    `identity` is for an upstream that wants each request signed: the headers of this one, and its secrets.
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
            self._timeouts.for_answer(stream=turn.stream),
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
        """Ask the upstream to count tokens; None when its status is one of `absent`."""
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
        raw = body if isinstance(body, bytes) else encode(body)
        timeouts = self._timeouts.for_answer(stream=False)
        async with self._http.post(url, raw, headers, timeouts, provider=self.name) as response:
            answer = await response.read()
            if response.status // 100 != 2:
                raise errors.from_response(
                    self.name, response.status, response.headers, answer, secrets=secrets
                )
        try:
            return msgspec.json.decode(answer, type=shape)
        except UNREADABLE as error:
            raise errors.invalid(self.name, f"its answer has no embeddings: {error}") from None

    async def _look_up(self, url: str, identity: RequestIdentity | None = None) -> dict[str, Any]:
        """The JSON object at an address; an empty one when the upstream has none there."""
        headers, secrets = identity or (self._headers, self._secrets)
        return await queries.look_up(self._http, url, headers, self.name, secrets)


def texts_of(task: EmbeddingTask, provider: str) -> list[str]:
    """The texts of a task, for a wire that takes nothing else."""
    texts = [one for one in task.input if isinstance(one, str)]
    if len(texts) != len(task.input):
        raise errors.unsupported(provider, "input", "this provider embeds texts, and no lists of tokens")
    return texts


async def embed_in_parts(
    texts: Sequence[str], size: int, ask: Callable[[Sequence[str]], Awaitable[Embedded]]
) -> Embedded:
    """Ask for the vectors of texts, `size` of them in each request; a few requests run side by side."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(part: Sequence[str]) -> Embedded:
        async with free:
            return await ask(part)

    parts = [texts[n : n + size] for n in range(0, len(texts), size)]
    if len(parts) == 1:
        return await ask(parts[0])
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(part)) for part in parts]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    found = [task.result() for task in tasks]
    vectors = [vector for one in found for vector in one.vectors]
    return Embedded(vectors, sum(one.input_tokens for one in found))


def check_vectors(provider: str, asked: int, vectors: list[Raw], input_tokens: int = 0) -> Embedded:
    """The vectors as `Embedded`; an error unless there is one for each text."""
    if len(vectors) != asked:
        raise errors.invalid(provider, f"it gave {len(vectors)} embeddings for {asked} texts")
    return Embedded([vector.copy() for vector in vectors], input_tokens)
