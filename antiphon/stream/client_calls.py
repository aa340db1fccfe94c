"""Calls of agent clients that are neither functions nor free text: a search for tools, a local shell.

A model that knows only functions calls a function in their place; here its arguments become the item that the
client expects.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from antiphon.spec.codec import Opaque, extras
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item, arguments_dict
from antiphon.spec.tolerant_decoder import TolerantDecoder
from antiphon.spec.tools import CustomTool, FunctionTool, Tool

CallKind = Literal["function", "custom", "tool_search", "local_shell"]
CALL_TYPES: Final[dict[CallKind, str]] = {
    "function": "function_call",
    "custom": "custom_tool_call",
    "tool_search": "tool_search_call",
    "local_shell": "local_shell_call",
}
"""The type of the item that a call of each kind becomes."""
ADDITIONAL_TOOLS: Final = "additional_tools"
COMPACTION_TRIGGER: Final = "compaction_trigger"
TOOL_SEARCH: Final = "tool_search"
LOCAL_SHELL: Final = "local_shell"
_FOUND_TOOLS: Final = "tool_search_output"
_SHELL: Final = ("bash", "-lc")


def call_item(kind: str, id: str, call_id: str, arguments: str, status: str) -> Opaque:
    """The call of a function as the item of this kind of call."""
    given = arguments_dict(arguments)
    made: dict[str, Any] = {"type": f"{kind}_call", "id": id, "call_id": call_id, "status": status}
    if kind == TOOL_SEARCH:
        asked = given or ({"query": arguments} if arguments else {})
        return Opaque.make(**made, execution="client", arguments=asked)
    command = given.get("command", arguments if arguments and not given else [])
    words = [*_SHELL, command] if isinstance(command, str) else command
    action = {
        "env": {},
        **{k: v for k, v in given.items() if v is not None},
        "type": "exec",
        "command": words,
    }
    return Opaque.make(**made, action=action)


def is_client_search(tool: Tool) -> bool:
    """Does the client itself search for the tools that are deferred?"""
    return isinstance(tool, Opaque) and tool.type == TOOL_SEARCH and tool.fields.get("execution") == "client"


def is_deferred(tool: "Tool | dict[str, Any]") -> bool:
    """Is this tool to be offered only once a search has found it?"""
    fields = tool if isinstance(tool, dict) else tool.fields if isinstance(tool, Opaque) else extras(tool)
    return fields.get("defer_loading") is True


def declared_tools(tools: Sequence[Tool], items: Iterable[Item]) -> Sequence[Tool]:
    """The tools of a request, and the tools that its items bring: declared there, or found by a search."""
    brought: list[Tool] = []
    for item in items:
        if isinstance(item, Opaque) and item.type in (ADDITIONAL_TOOLS, _FOUND_TOOLS):
            found = tools_in(item)
            brought += found if item.type == ADDITIONAL_TOOLS else map(_make_callable, found)
    return [*tools, *brought] if brought else tools


def tools_in(item: Opaque) -> list[Tool]:
    """The tools that stand in an item; what is none is left out."""
    listed = msgspec.json.decode(item.raw, type=dict[str, Raw]).get("tools", Raw(b"[]"))
    try:
        tools = TolerantDecoder().tools(listed, "tools")
    except SpecError:
        return []
    return [tool for tool in tools if isinstance(tool, Opaque) or tool.name]


def _make_callable(tool: Tool) -> Tool:
    """Make a tool that a search has found callable; a function alone becomes a namespace of its own."""
    if isinstance(tool, FunctionTool):
        plain = FunctionTool(tool.name, tool.description, tool.parameters, tool.strict)
        if not is_deferred(tool):
            return plain
        return Opaque.make(type="namespace", name=tool.name, description="", tools=[plain])
    if isinstance(tool, CustomTool):
        return CustomTool(tool.name, tool.description, tool.format)
    members = tool.fields.get("tools")
    if tool.type != "namespace" or not isinstance(members, list):
        return tool
    callable_now = [
        {name: value for name, value in one.items() if name != "defer_loading"}
        for one in members
        if isinstance(one, dict)
    ]
    return tool.replace(tools=callable_now)
