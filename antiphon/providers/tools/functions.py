"""The tools of a turn as functions: custom tools are wrapped, and namespaces are flattened."""

from typing import Any, Literal

import msgspec
from msgspec import Raw

from antiphon.providers.base import REWRITTEN, Turn
from antiphon.spec.codec import encode
from antiphon.spec.tools import CustomTool, FunctionTool
from antiphon.stream.open_items import is_json_object
from antiphon.wires.tools.names import NO_TOOLS, DeclaredTool, Function, ToolNames, flat_name, shortened

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def flatten(turn: Turn, provider: str, vendor: str = "") -> ToolNames:
    """The tools of a turn as functions; a tool that cannot be one leaves a receipt.

    Tools whose type begins with `vendor` are the provider's own, which it is given as they are.
    """
    if not turn.tools:
        return NO_TOOLS
    declared: list[tuple[DeclaredTool, str, FunctionTool | CustomTool]] = []
    for n, tool in enumerate(turn.tools):
        if isinstance(tool, FunctionTool):
            declared.append((DeclaredTool(tool.name), "", tool))
        elif isinstance(tool, CustomTool):
            declared.append((DeclaredTool(tool.name, kind="custom"), "", tool))
        elif tool.type == "namespace":
            declared += _members(turn, tool, f"tools[{n}]", provider)
        elif not vendor or not tool.type.startswith(vendor):
            turn.receipt(provider, f"tools[{n}]", f"a tool of type {tool.type!r} cannot be a function here")
    # Plain functions keep their names whatever stands before them, so they come first.
    taken: dict[str, DeclaredTool] = {}
    for origin, _, _ in sorted(declared, key=lambda one: one[0] != DeclaredTool(one[0].name)):
        name = flat_name(origin)
        while taken.setdefault(name, origin) != origin:
            name = shortened(name, origin)
    names = {origin: name for name, origin in taken.items()}
    return ToolNames([_function(names[origin], origin, about, tool) for origin, about, tool in declared])


def _members(
    turn: Turn, namespace: Any, path: str, provider: str
) -> list[tuple[DeclaredTool, str, FunctionTool | CustomTool]]:
    fields = namespace.fields
    found: list[tuple[DeclaredTool, str, FunctionTool | CustomTool]] = []
    for n, raw in enumerate(fields.get("tools") or ()):
        try:
            tool = msgspec.convert(_known(raw), FunctionTool | CustomTool)
        except msgspec.ValidationError as error:
            turn.receipt(provider, f"{path}.tools[{n}]", f"this tool cannot be a function here: {error}")
            continue
        kind: Literal["function", "custom"] = "custom" if isinstance(tool, CustomTool) else "function"
        origin = DeclaredTool(tool.name, str(fields.get("name", "")), kind)
        found.append((origin, str(fields.get("description") or ""), tool))
    return found


def _known(raw: Any) -> Any:
    """Only the fields that a function or a custom tool has; agent clients add their own."""
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


def _function(name: str, origin: DeclaredTool, about: str, tool: FunctionTool | CustomTool) -> Function:
    if isinstance(tool, FunctionTool):
        description = _joined(tool.description, about)
        return Function(name, description, tool.parameters or _NO_PARAMETERS, tool.strict, origin)
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The whole input of the tool, as text."}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return Function(name, _joined(tool.description, about, _grammar(tool.format)), parameters, None, origin)


def _joined(*texts: str | None) -> str | None:
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
