"""Parts of a `/chat/completions` request in the shape of that wire, for the gateway and the client."""

from antiphon.spec.tools import JsonSchemaFormat
from antiphon.wires.chat.messages import MessageFields


def function_tool(
    name: str, description: str | None, parameters: MessageFields, *, strict: bool | None
) -> MessageFields:
    """A tool that the model may call."""
    definition: MessageFields = {"name": name}
    if description:
        definition["description"] = description
    definition["parameters"] = parameters
    if strict:
        definition["strict"] = True
    return {"type": "function", "function": definition}


def named_choice(name: str) -> MessageFields:
    """The `tool_choice` that demands this function."""
    return {"type": "function", "function": {"name": name}}


def json_schema(wanted: JsonSchemaFormat) -> MessageFields:
    """The `response_format` that demands JSON of this schema."""
    definition: MessageFields = {"name": wanted.name, "schema": wanted.schema or {}}
    if wanted.description:
        definition["description"] = wanted.description
    if wanted.strict:
        definition["strict"] = True
    return {"type": "json_schema", "json_schema": definition}
