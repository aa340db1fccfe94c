"""Tools that a conversation of the Messages API adds or takes away while it goes on.

The door keeps each change beside the item that says it, in `anthropic:tool_changes`, in words that do not
need that API. A provider of the API is given the item itself.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Raw

from antiphon.spec.codec import Opaque, encode, extras
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item
from antiphon.spec.tolerant_decoder import TolerantDecoder
from antiphon.spec.tools import Tool

CHANGES = "anthropic:tool_changes"
ADDITION, REMOVAL = "tool_addition", "tool_removal"


def make_addition(name: str, tool: Tool | None) -> dict[str, Any]:
    """A tool can be called from here on; None for one that the request declares."""
    return {"type": ADDITION, "name": name, "tools": [] if tool is None else [tool]}


def make_removal(name: str) -> dict[str, Any]:
    """A tool can be called no more."""
    return {"type": REMOVAL, "name": name}


def changes_in(item: Item) -> list[dict[str, Any]]:
    """The changes that an item says, in their order."""
    found = item.fields.get(CHANGES) if isinstance(item, Opaque) else extras(item).get(CHANGES)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def changed_tools(tools: Sequence[Tool], items: Iterable[Item]) -> Sequence[Tool]:
    """The tools that can be called once these items have been said."""
    changes = [change for item in items for change in changes_in(item)]
    if not changes:
        return tools
    available = {_name(tool): tool for tool in tools}
    away: dict[str, Tool] = {}
    for change in changes:
        name = str(change.get("name"))
        if change.get("type") == REMOVAL:
            if (tool := available.pop(name, None)) is not None:
                away[name] = tool
            continue
        for tool in _tools_of(change):
            available[name] = tool
        if name not in available and name in away:
            available[name] = away.pop(name)
    return list(available.values())


def _name(tool: Tool) -> str:
    if isinstance(tool, Opaque):
        return str(tool.fields.get("name") or f"{tool.type} {tool.fields.get('server_label', '')}")
    return tool.name


def _tools_of(change: dict[str, Any]) -> list[Tool]:
    try:
        return TolerantDecoder().tools(Raw(encode(change.get("tools") or [])), "tools")
    except SpecError:
        return []
