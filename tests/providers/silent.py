"""A provider that answers with nothing."""

from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn
from antiphon.stream.deltas import Finish


class Silent(AnsweringProvider):
    name = "silent"
    capabilities = Capabilities(parameters=frozenset(), enforces_schema=True)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        sink.put([Finish()])
