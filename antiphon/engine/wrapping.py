"""What is wrapped around a provider for one turn: each is a provider that asks another one."""

from collections.abc import Awaitable, Callable

from antiphon.engine.grammar import GrammarChecked, grammars_of
from antiphon.engine.summary import Summarising, asks_for_plain_summary, asks_for_summary
from antiphon.providers.base import Provider, Sink, Turn, WrappingProvider
from antiphon.spec.items import Item
from antiphon.wires.schema.pool import SchemaPool
from antiphon.wires.sealing import Seal


def wrapped(seal: Seal, schemas: SchemaPool, provider: Provider, turn: Turn) -> Provider:
    """The provider to ask for this turn, whose items are known."""
    takes = provider.capabilities
    if asks_for_plain_summary(turn.items) or (not takes.compacts and asks_for_summary(turn.items)):
        return Summarising(provider, seal)
    if turn.tools and not takes.enforces_grammar and (grammars := grammars_of(turn.tools)):
        return GrammarChecked(provider, grammars, schemas)
    return provider


class FittedLater(WrappingProvider):
    """A provider whose items are made to fit only when it is asked, because that can take long."""

    def __init__(
        self, provider: Provider, fitted: Callable[[Provider, Turn, list[Item]], Awaitable[list[Item]]]
    ) -> None:
        super().__init__(provider)
        self._fitted = fitted

    async def answer(self, turn: Turn, sink: Sink) -> None:
        turn.items = await self._fitted(self._provider, turn, turn.items)
        await self._provider.answer(turn, sink)
