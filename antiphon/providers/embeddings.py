"""What the wires with embeddings share: asking for them, and reading what comes."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from antiphon.config import UpstreamTimeouts
from antiphon.providers import errors
from antiphon.providers.base import Embedded, EmbeddingTask
from antiphon.providers.http import UpstreamClient
from antiphon.spec.codec import UNREADABLE, encode

S = TypeVar("S", bound=Struct)
_AT_ONCE = 8


async def post_for_embeddings(
    http: UpstreamClient,
    url: str,
    body: Mapping[str, Any] | bytes,
    headers: Mapping[str, str],
    timeouts: UpstreamTimeouts,
    shape: type[S],
    *,
    provider: str,
    secrets: Collection[str] = (),
) -> S:
    """The answer of an upstream to one request."""
    raw = body if isinstance(body, bytes) else encode(body)
    async with http.post(url, raw, headers, timeouts.patient(stream=False), provider=provider) as response:
        answer = await response.read()
        if response.status // 100 != 2:
            raise errors.from_response(provider, response.status, response.headers, answer, secrets=secrets)
    try:
        return msgspec.json.decode(answer, type=shape)
    except UNREADABLE as error:
        raise errors.invalid(provider, f"its answer has no embeddings: {error}") from None


def texts_of(task: EmbeddingTask, provider: str) -> list[str]:
    """The texts of a task, for a wire that takes nothing else."""
    texts = [one for one in task.input if isinstance(one, str)]
    if len(texts) != len(task.input):
        raise errors.unsupported(provider, "input", "this provider embeds texts, and no lists of tokens")
    return texts


async def embed_in_parts(
    texts: Sequence[str], size: int, ask: Callable[[Sequence[str]], Awaitable[Embedded]]
) -> Embedded:
    """The vectors of texts of which so many can be asked for at once; a few requests run side by side."""
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
    """One vector for each text, or an error."""
    if len(vectors) != asked:
        raise errors.invalid(provider, f"it gave {len(vectors)} embeddings for {asked} texts")
    return Embedded([vector.copy() for vector in vectors], input_tokens)
