"""Pieces that the JSON Schemas of bodies are put together from."""

from collections.abc import Sequence
from typing import Any

from antiphon.spec.limits import MAX_TEXT, MAX_UNKNOWN_NAME

Schema = dict[str, Any]

REF = "#/components/schemas/{name}"
STRING: Schema = {"type": "string"}
NAMED: Schema = {"type": "string", "minLength": 1}
FIELD_NAMES: Schema = {"pattern": r'^[^"\\\u0000-\u001f]*$', "maxLength": MAX_UNKNOWN_NAME}
"""Unknown fields are carried under their own names, which have no quote, backslash or control character."""
TEXT: Schema = {"type": "string", "maxLength": MAX_TEXT}
OBJECT: Schema = {"type": "object"}


def ref(name: str) -> Schema:
    return {"$ref": REF.format(name=name)}


def any_of(*schemas: Schema) -> Schema:
    return {"anyOf": [*schemas]}


def nullable(*schemas: Schema) -> Schema:
    """One of these, or null."""
    return any_of(*schemas, {"type": "null"})


def list_of(*schemas: Schema, least: int = 0) -> Schema:
    """A list whose members are each one of these."""
    made: Schema = {"type": "array", "items": schemas[0] if len(schemas) == 1 else any_of(*schemas)}
    return {**made, "minItems": least} if least else made


def has(**fields: Schema) -> Schema:
    """These fields have to be there."""
    return {"required": [*fields], "properties": fields}


def typed(type: str, **fields: Schema) -> Schema:
    """An object of this `type`, which has to have these fields."""
    return {"type": "object", **has(type={"const": type}, **fields)}


def optional(schema: Schema, **fields: Schema) -> Schema:
    """The object with fields that it may have."""
    return {**schema, "properties": {**schema.get("properties", {}), **fields}}


def untyped(known: Sequence[str] = ()) -> Schema:
    """Describes an object of an unknown type."""
    kind = NAMED | ({"not": {"enum": [*known]}} if known else {})
    about = "Of another type: carried, and repeated as it came."
    return {"description": about, "type": "object", **has(type=kind)}


def add_to(schema: Schema, more: Schema) -> None:
    """Adds constraints: properties to properties, required names to required names. None takes one away."""
    for name, value in more.items():
        if value is None:
            schema.pop(name, None)
        elif name == "required":
            schema[name] = [*dict.fromkeys([*schema.get(name, ()), *value])]
        elif name == "properties":
            for field, one in value.items():
                own = schema.setdefault(name, {}).get(field, {})
                kept = {key: own[key] for key in ("description", "default") if key in own}
                schema[name][field] = {**kept, **one}
        else:
            schema[name] = value
