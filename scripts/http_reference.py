"""The reference of HTTP as a page: every operation and every object of the OpenAPI document."""

import json
from collections.abc import Iterator
from typing import Any

from antiphon.server.api.openapi import document
from antiphon.server.endpoints import GROUPS

Schema = dict[str, Any]

_HEAD = """\
# HTTP reference

Every operation and every object of the gateway, from its own OpenAPI document (`GET /openapi.json`).
[api.md](api.md) has an example for each operation; [parameters.md](parameters.md) says what becomes of each
parameter.
"""


def page() -> str:
    """The page in Markdown, from the document that the gateway itself answers with."""
    api: Schema = json.loads(document(GROUPS))
    parts = [_HEAD]
    for tag in api["tags"]:
        parts += [f"## {tag['name']}\n", f"{tag['description']}\n"]
        for path, methods in api["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts += _operation(f"{method.upper()} {path}", operation, api["components"])
    parts.append("## Objects\n")
    for name, schema in sorted(api["components"]["schemas"].items()):
        parts += _object(name, schema)
    return "\n".join(parts)


def _operation(name: str, operation: Schema, components: Schema) -> Iterator[str]:
    yield f"### `{name}`\n"
    yield f"{operation['summary']}. {operation.get('description', '')}".rstrip() + "\n"
    named = [_named(parameter, components["parameters"]) for parameter in operation["parameters"]]
    if named:
        yield "| parameter | in | type | |\n|---|---|---|---|"
        for each in named:
            about = each.get("description", "")
            yield f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {_cell(about)} |"
        yield ""
    if body := operation.get("requestBody"):
        for kind, told in body["content"].items():
            optional = "" if body.get("required") else ", which may be left out"
            yield f"Body: {_type(told['schema'])} as `{kind}`{optional}.\n"
    yield "| status | | answer |\n|---|---|---|"
    for status, answer in operation["responses"].items():
        kinds = [f"{_type(told['schema'])} as `{kind}`" for kind, told in answer.get("content", {}).items()]
        yield f"| {status} | {_cell(answer['description'])} | {' or '.join(kinds)} |"
    yield ""


def _named(parameter: Schema, components: Schema) -> Schema:
    reference: str | None = parameter.get("$ref")
    found: Schema = parameter if reference is None else components[reference.rpartition("/")[2]]
    return found


def _object(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n"
    if about := schema.get("description"):
        yield f"{about}\n"
    fields: dict[str, Schema] = schema.get("properties", {})
    if not fields:
        yield f"{_type(schema)}\n"
        return
    yield "| field | type | |\n|---|---|---|"
    for field, told in fields.items():
        always = "" if field in schema.get("required", ()) else " (optional)"
        yield f"| `{field}`{always} | {_type(told)} | {_cell(told.get('description', ''))} |"
    yield ""


def _type(schema: Schema) -> str:
    """A type in words, with links to the objects that it names."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[union])))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object" if isinstance(values := schema.get("additionalProperties"), dict) and values:
            return f"object of {_type(values)}"
        case str(kind):
            return kind
    return "any"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
