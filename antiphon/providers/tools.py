"""The tools of a turn, for wires that know only functions.

Custom tools are wrapped, and namespaces are flattened. An agent client's search for tools and its local shell
become functions too, and the items of the history that belong to them become calls of these functions.
"""

from typing import Any, Literal

import msgspec
from msgspec import Raw

from antiphon.providers.base import REWRITTEN, Turn
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import InputText
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message
from antiphon.spec.tools import CustomTool, FunctionTool, Tool
from antiphon.stream.client_calls import LOCAL_SHELL, TOOL_SEARCH, is_client_search, is_deferred, tools_in
from antiphon.stream.open_items import is_json_object
from antiphon.wires.tools.names import (
    NO_TOOLS,
    DeclaredTool,
    ToolNames,
    UpstreamFunction,
    flat_name,
    shorten_name,
)

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
    """An item of an agent client as a call, an output or a message; any other item as it is.

    None for an item that this wire needs not: its tools are among the turn's, or it asks for a summary.
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


Declaration = tuple[str, FunctionTool | CustomTool]
"""What is said of the namespace that a tool is in, and the tool."""
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def flatten(turn: Turn, provider: str, vendor: str = "") -> ToolNames:
    """The tools of a turn as functions; a tool that cannot be one leaves a receipt.

    Tools whose type begins with `vendor` are the provider's own, which it is given as they are.
    """
    if not turn.tools:
        return NO_TOOLS
    declared: dict[DeclaredTool, Declaration] = {}
    places: dict[DeclaredTool, int] = {}
    wheres: dict[DeclaredTool, str] = {}
    given, searches = len(turn.request.tools), any(map(is_client_search, turn.tools))
    for n, tool in enumerate(turn.tools):
        where = f"tools[{n}]" if n < given else "input"
        more: dict[DeclaredTool, Declaration] = {}
        if searches and is_deferred(tool):
            continue  # it is offered once it has been found
        if isinstance(tool, FunctionTool):
            more[DeclaredTool(tool.name, tool.name if is_deferred(tool) else None)] = "", tool
        elif isinstance(tool, CustomTool):
            more[DeclaredTool(tool.name, kind="custom")] = "", tool
        elif tool.type == "namespace":
            more = _members(turn, tool, where, provider, searches)
        elif (function := as_function_tool(tool)) is not None:
            more[function[0]] = "", function[1]
        elif tool.type == TOOL_SEARCH:
            reason = "this provider has no tool search, so deferred tools are offered too"
            turn.receipt(provider, where, reason)
        elif not vendor or not tool.type.startswith(vendor):
            turn.receipt(provider, where, f"a tool of type {tool.type!r} cannot be a function here")
        for origin in more:
            if declared.get(origin, more[origin]) != more[origin]:
                reason = f"another tool of the name {origin.name!r}, in {where}, takes its place"
                turn.receipt(provider, wheres[origin], reason)
        declared |= more
        wheres |= dict.fromkeys(more, where)
        places |= dict.fromkeys(declared.keys() - places.keys(), n)
    # Plain functions keep their names whatever stands before them, so they come first.
    taken: dict[str, DeclaredTool] = {}
    for origin in sorted(declared, key=lambda one: one != DeclaredTool(one.name)):
        name = flat_name(origin)
        while taken.setdefault(name, origin) != origin:
            name = shorten_name(name, origin)
    names = {origin: name for name, origin in taken.items()}
    return ToolNames(
        [_function(names[origin], origin, places[origin], *told) for origin, told in declared.items()]
    )


def _members(
    turn: Turn, namespace: Opaque, path: str, provider: str, searches: bool
) -> dict[DeclaredTool, Declaration]:
    fields = namespace.fields
    found: dict[DeclaredTool, Declaration] = {}
    for n, raw in enumerate(fields.get("tools") or ()):
        if searches and isinstance(raw, dict) and is_deferred(raw):
            continue
        try:
            tool = msgspec.convert(_keep_known_fields(raw), FunctionTool | CustomTool)
        except msgspec.ValidationError as error:
            turn.receipt(provider, f"{path}.tools[{n}]", f"this tool cannot be a function here: {error}")
            continue
        kind: Literal["function", "custom"] = "custom" if isinstance(tool, CustomTool) else "function"
        origin = DeclaredTool(tool.name, str(fields.get("name", "")), kind)
        found[origin] = str(fields.get("description") or ""), tool
    return found


def _keep_known_fields(raw: Any) -> Any:
    """Keep only the fields that a function or a custom tool has; agent clients add their own."""
    known = {"type", "name", "description", "parameters", "strict", "format"}
    if not isinstance(raw, dict):
        return raw
    kept = {name: value for name, value in raw.items() if name in known}
    if kept.get("type") == "custom":
        kept.pop("parameters", None)
        kept.pop("strict", None)
    else:
        kept.pop("format", None)
    return kept


def _function(
    name: str, origin: DeclaredTool, place: int, about: str, tool: FunctionTool | CustomTool
) -> UpstreamFunction:
    if isinstance(tool, FunctionTool):
        description = _join_texts(tool.description, about)
        return UpstreamFunction(
            name, description, tool.parameters or _NO_PARAMETERS, tool.strict, origin, place
        )
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The whole input of the tool, as text."}},
        "required": ["input"],
        "additionalProperties": False,
    }
    description = _join_texts(tool.description, about, _grammar(tool.format))
    return UpstreamFunction(name, description, parameters, None, origin, place)


def _join_texts(*texts: str | None) -> str | None:
    return "\n\n".join(text for text in texts if text) or None


def _grammar(format: dict[str, Any] | None) -> str:
    definition = (format or {}).get("definition")
    if not isinstance(definition, str):
        return ""
    syntax = (format or {}).get("syntax", "")
    return f"The input must follow this {syntax} grammar:\n{definition}"


def as_object(turn: Turn, provider: str, where: str, arguments: str) -> Raw:
    """Arguments for a wire on which they are an object; what a model once said instead stands inside one."""
    if is_json_object(arguments):
        return Raw(arguments.encode())
    if not arguments.strip():
        return Raw(b"{}")
    turn.receipt(
        provider, f"{where}.arguments", "arguments that are no JSON object are sent in one", REWRITTEN
    )
    return Raw(encode({"INVALID_JSON": arguments}))
