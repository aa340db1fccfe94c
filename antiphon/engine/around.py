"""What is done around a provider for one turn: each is a provider that asks another one."""

from antiphon.engine.grammar import GrammarChecked, grammars_of
from antiphon.engine.summary import Summarising, asks_for_summary
from antiphon.providers.base import Provider, Turn
from antiphon.wires.schema.pool import SchemaPool
from antiphon.wires.sealing import Seal


def around(seal: Seal, schemas: SchemaPool, provider: Provider, turn: Turn) -> Provider:
    """The provider to ask for this turn, whose items are known."""
    takes = provider.capabilities
    if not takes.compacts and asks_for_summary(turn.items):
        return Summarising(provider, seal)
    if turn.tools and not takes.enforces_grammar and (grammars := grammars_of(turn.tools)):
        return GrammarChecked(provider, grammars, schemas)
    return provider
