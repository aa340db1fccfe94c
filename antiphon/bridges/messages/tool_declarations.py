"""Tools as the Messages API declares them, in the request or while the conversation goes on."""

from typing import Any

from antiphon.bridges.messages.block_fields import (
    flag,
    optional_object,
    optional_string,
    required_object,
    string,
)
from antiphon.bridges.messages.body import MessageBlock
from antiphon.spec.codec import Opaque, to_builtins, with_extras
from antiphon.spec.error_paths import describe, join, wrong
from antiphon.spec.items import Item, Message
from antiphon.spec.tools import FunctionTool, Tool
from antiphon.wires.messages.tool_changes import ADDITION, CHANGES, REMOVAL, make_addition, make_removal
from antiphon.wires.messages.vendor import VENDOR, with_fields, without

TOOL_CHANGES = (ADDITION, REMOVAL)
"""The types of blocks that change the tools."""
_LONGEST_NAME = 128


def read_tool(tool: MessageBlock, where: str) -> Tool:
    kind = tool.get("type")
    if kind not in (None, "custom"):
        if not isinstance(kind, str):
            raise wrong(f"{where}.type", f"expected a string, got {describe(kind)}")
        return Opaque.make(**{**tool, "type": VENDOR + kind})
    optional_object(tool, "cache_control", where)
    name, about = tool.get("name"), optional_string(tool, "description", where)
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise wrong(f"{where}.name", f"expected a name of at most {_LONGEST_NAME} characters")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise wrong(f"{where}.input_schema", f"expected a JSON schema, got {describe(schema)}")
    made = FunctionTool(name, about, schema, flag(tool, "strict", where))
    more = without(tool, "type", "name", "description", "input_schema", "strict")
    return with_fields(made, more)


def tool_change(block: MessageBlock, where: str) -> Item:
    """A system message with a block that changes the tools, and the change in words of our own."""
    part = Opaque.make(type=VENDOR + block["type"], data=block)
    return with_extras(Message(role="system", content=[part]), {CHANGES: change_of(block, where)})


def change_of(block: Any, where: str) -> list[MessageBlock]:
    """What a `tool_addition` or a `tool_removal` changes: of the tools of an MCP server, nothing here."""
    if not isinstance(block, dict) or block.get("type") not in TOOL_CHANGES:
        raise wrong(where, f"expected a block that adds or removes a tool, got {describe(block)}")
    tool, place = required_object(block, "tool", where), join(where, "tool")
    kind = string(tool, "type", place)
    if kind == "tool_definition" and block["type"] == ADDITION:
        definition = required_object(tool, "definition", place)
        declared = read_tool(definition, join(place, "definition"))
        return [to_builtins(make_addition(str(definition.get("name", "")), declared))]
    if kind != "tool_reference":
        return []
    name = string(tool, "name", place)
    return [make_addition(name, None) if block["type"] == ADDITION else make_removal(name)]
