"""The tools and items of agent clients on a wire that knows only functions.

A search for tools and a local shell are offered as functions; what the history holds of them is told as calls
of these functions.
"""

from typing import Any

from antiphon.providers.base import REWRITTEN, Turn
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import InputText
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message
from antiphon.spec.tools import CustomTool, FunctionTool, Tool
from antiphon.stream.client_calls import (
    LOCAL_SHELL,
    TOOL_SEARCH,
    is_client_search,
    tools_in,
)
from antiphon.wires.tools.names import DeclaredTool, flat_name

_SEARCH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should be able to do."}},
    "required": ["query"],
}
_SEARCH = "Finds more tools. The tools that it finds can be called from then on."
_SHELL = "Runs a command on the user's machine and gives back what it prints."
_SHELL_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The program and its arguments.",
        },
        "working_directory": {"type": "string", "description": "Where to run it."},
        "timeout_ms": {"type": "integer", "description": "When to give up."},
    },
    "required": ["command"],
}


def as_function_tool(tool: Opaque) -> tuple[DeclaredTool, FunctionTool] | None:
    """The function that stands for a tool of an agent client; None if it cannot be one."""
    if is_client_search(tool):
        fields = tool.fields
        parameters = fields.get("parameters")
        about = fields.get("description")
        return DeclaredTool(TOOL_SEARCH, kind="tool_search"), FunctionTool(
            TOOL_SEARCH,
            about if isinstance(about, str) else _SEARCH,
            parameters if isinstance(parameters, dict) else _SEARCH_PARAMETERS,
        )
    if tool.type == LOCAL_SHELL:
        return DeclaredTool(LOCAL_SHELL, kind="local_shell"), FunctionTool(
            LOCAL_SHELL, _SHELL, _SHELL_PARAMETERS
        )
    return None


def express_as_functions(turn: Turn, provider: str, item: Opaque, where: str) -> Item | None:
    """An item of an agent client as this wire can tell it; the item itself if there is no such way.

    None for one that is told otherwise: its tools are among those of the turn, or it asks for a summary.
    """
    fields = item.fields
    match item.type:
        case "additional_tools" | "compaction_trigger":
            return None
        case "tool_search_call" if fields.get("execution") != "server":
            return _call(TOOL_SEARCH, item.call_id, fields.get("arguments"))
        case "tool_search_output" if fields.get("execution") != "server":
            return FunctionCallOutput(call_id=item.call_id, output=_describe_tools(tools_in(item)))
        case "local_shell_call":
            action = fields.get("action")
            given = {k: v for k, v in action.items() if k != "type"} if isinstance(action, dict) else {}
            return _call(LOCAL_SHELL, item.call_id or item.id, given)
        case "local_shell_call_output":
            return FunctionCallOutput(call_id=item.call_id or item.id, output=_text(fields.get("output")))
        case "agent_message" if words := _words(item):
            reason = "a message between agents goes to the model as one of the user"
            turn.receipt(provider, where, reason, REWRITTEN)
            author, reader = fields.get("author", "an agent"), fields.get("recipient", "you")
            return Message(role="user", content=[InputText(f"Message from {author} to {reader}:\n{words}")])
    return item


def _call(name: str, call_id: str, arguments: Any) -> FunctionCall:
    text = arguments if isinstance(arguments, str) else encode(arguments or {}).decode()
    return FunctionCall(call_id=call_id, name=name, arguments=text)


def _describe_tools(tools: list[Tool]) -> str:
    lines = [
        f"- {flat_name(origin)}: {(about or '').strip()}" for tool in tools for origin, about in _names(tool)
    ]
    return "\n".join(["These tools can be called now:", *lines]) if lines else "No tool was found."


def _names(tool: Tool) -> list[tuple[DeclaredTool, str | None]]:
    if isinstance(tool, FunctionTool):
        return [(DeclaredTool(tool.name), tool.description)]
    if isinstance(tool, CustomTool):
        return [(DeclaredTool(tool.name, kind="custom"), tool.description)]
    namespace, members = tool.fields.get("name"), tool.fields.get("tools")
    return [
        (DeclaredTool(one["name"], str(namespace)), str(one.get("description") or ""))
        for one in (members if isinstance(members, list) else ())
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    ]


def _words(item: Opaque) -> str:
    content = item.fields.get("content")
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _text(output: Any) -> str:
    return output if isinstance(output, str) else encode(output).decode()
