"""A provider that says nothing: it warms a connection up (`generate: false`) without asking a model."""

from collections.abc import AsyncIterator

from antiphon.providers.base import Capabilities, Turn
from antiphon.stream.deltas import AnyDelta, Finish


class Silent:
    name = "silent"
    capabilities = Capabilities(parameters=frozenset(), enforces_schema=True)

    async def stream(self, turn: Turn) -> AsyncIterator[list[AnyDelta]]:
        yield [Finish()]

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        return []

    async def close(self) -> None:
        return
