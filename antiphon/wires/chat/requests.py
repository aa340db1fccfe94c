"""Parts of a `/chat/completions` request in the shape of that wire, for the gateway and the client."""

from typing import Any

from antiphon.spec.tools import JsonSchemaFormat

Fields = dict[str, Any]


def function_tool(name: str, description: str | None, parameters: Fields, *, strict: bool | None) -> Fields:
    """A tool that the model may call."""
    definition: Fields = {"name": name}
    if description:
        definition["description"] = description
    definition["parameters"] = parameters
    if strict:
        definition["strict"] = True
    return {"type": "function", "function": definition}


def named_choice(name: str) -> Fields:
    """The `tool_choice` that demands this function."""
    return {"type": "function", "function": {"name": name}}


def json_schema(wanted: JsonSchemaFormat) -> Fields:
    """The `response_format` that demands JSON of this schema."""
    definition: Fields = {"name": wanted.name, "schema": wanted.schema or {}}
    if wanted.description:
        definition["description"] = wanted.description
    if wanted.strict:
        definition["strict"] = True
    return {"type": "json_schema", "json_schema": definition}


def tool_call(call_id: str, name: str, arguments: str) -> Fields:
    """A call in an assistant message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_message(call_id: str, content: str) -> Fields:
    """The message that answers a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}
