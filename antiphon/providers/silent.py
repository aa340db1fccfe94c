"""A provider that says nothing: it warms a connection up (`generate: false`) without asking a model."""

from antiphon.providers.base import Capabilities, Sink, Turn
from antiphon.stream.deltas import Finish


class Silent:
    name = "silent"
    capabilities = Capabilities(parameters=frozenset(), enforces_schema=True)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        sink.put([Finish()])

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        return []

    async def close(self) -> None:
        return
