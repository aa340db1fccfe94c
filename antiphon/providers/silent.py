"""Providers that ask no model: one says nothing, for a connection that is only warmed up; one refuses."""

from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn
from antiphon.spec.errors import SpecError
from antiphon.stream.deltas import Finish


class Silent(AnsweringProvider):
    name = "silent"
    capabilities = Capabilities(parameters=frozenset(), enforces_schema=True)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        sink.put([Finish()])


class Refusing(Silent):
    """Raises what is wrong with the request, for who is told of it only once there is a response."""

    def __init__(self, refusal: SpecError) -> None:
        self._refusal = refusal

    async def answer(self, turn: Turn, sink: Sink) -> None:
        raise self._refusal
