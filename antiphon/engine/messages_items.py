"""Items that only the Messages API has, for a provider of another one: summaries, and changed tools."""

from antiphon.providers.base import Turn
from antiphon.spec.codec import Opaque
from antiphon.spec.items import Item, Message
from antiphon.wires.compaction import COMPACTION, summary_message
from antiphon.wires.messages.tool_changes import changed_tools, changes_in
from antiphon.wires.messages.vendor import VENDOR

_INSTRUCTING = ("system", "developer")


def change_tools(turn: Turn, items: list[Item]) -> None:
    """Give the turn the tools that the conversation has left to be called."""
    turn.tools = changed_tools(turn.tools, items)


def told_plainly(items: list[Item]) -> list[Item]:
    """The same conversation, with a provider's summary in words, and without what was said of the tools.

    A summary stands for everything before it but the instructions; one that failed stands for nothing.
    """
    told: list[Item] = []
    for item in items:
        if isinstance(item, Opaque) and item.type == VENDOR + COMPACTION:
            if text := _summary_of(item):
                told = [one for one in told if isinstance(one, Message) and one.role in _INSTRUCTING]
                told.append(summary_message(text, "user"))
        elif not changes_in(item):
            told.append(item)
    return told


def _summary_of(item: Opaque) -> str:
    block = item.fields.get("data")
    text = block.get("content") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""
