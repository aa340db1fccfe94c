"""Converts Python types to the JSON schema of a tool's parameters, and JSON to Python values.

msgspec knows most types; a Pydantic model is asked for its own schema and reads its own values, so Pydantic
is never imported here.
"""

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, NotRequired, TypedDict, get_args, get_origin

import msgspec
from msgspec import Meta

from antiphon.spec.codec import UNREADABLE

Schema = dict[str, Any]

# What a strict schema cannot say.
_LOOSE = frozenset({"oneOf", "allOf", "not", "if", "prefixItems", "patternProperties"})
_REF = "#/$defs/"


class SchemaError(TypeError):
    """A function that cannot be a tool; the message says which parameter, and what to do."""


class ToolParameters:
    """The parameters of a function: their schema, and reading arguments from JSON."""

    def __init__(
        self, function: Callable[..., object], descriptions: Mapping[str, str], *, strict: bool | None
    ) -> None:
        name = getattr(function, "__name__", "tool")
        self._type = _fields_of(function, descriptions, name)
        self.plain = schema_of(self._type, name)
        names = inspect.signature(function).parameters
        for keyword in ("properties", "required"):
            self.plain[keyword] = _in_order(self.plain[keyword], names)
        for parameter, default in _defaults(function).items():
            self.plain["properties"][parameter].setdefault("default", default)
        reason = loose(self.plain)
        if strict and reason:
            raise SchemaError(f"{name} cannot be strict: {reason}; leave strict=True out")
        self.strict = not reason if strict is None else strict
        self.schema = strictly(self.plain) if self.strict else self.plain

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as Python values; a mistake is a ValueError that says where."""
        known = self.plain["properties"]
        unknown = [name for name in arguments if name not in known]
        if unknown:
            raise ValueError(f"unknown argument {unknown[0]!r}; expected {', '.join(known) or 'none'}")
        given = without_nulls(arguments, self.plain, self.plain)
        try:
            found: dict[str, Any] = msgspec.convert(given, self._type, dec_hook=validate)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        return found


def is_pydantic(kind: object) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def validate(kind: type, value: Any) -> Any:
    if is_pydantic(kind):
        return kind.model_validate(value)  # type: ignore[attr-defined]
    raise TypeError(f"{kind.__name__} cannot be read from JSON")


def _own_schema(kind: type) -> Schema:
    if is_pydantic(kind):
        schema: Schema = kind.model_json_schema()  # type: ignore[attr-defined]
        return schema
    raise TypeError(f"{kind.__name__} has no JSON schema; use plain types, dataclasses or models")


# --- the types of a function ------------------------------------------------------------------------------


def _fields_of(function: Callable[..., object], descriptions: Mapping[str, str], name: str) -> Any:
    """A TypedDict with a key for each parameter; those with a default may be missing."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise SchemaError(f"{name}: {error}; define the type at the top of its module") from None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self" and not fields:
            raise SchemaError(
                f"{name}: there is no `self` yet; make a tool of the bound method: tool(it.{name})"
            )
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SchemaError(
                f"{name}: {parameter} cannot be filled by a model; give every parameter a name of its own"
            )
        kind = _describe(hints.get(parameter.name, Any), descriptions.get(parameter.name, ""))
        fields[parameter.name] = kind if parameter.default is parameter.empty else NotRequired[kind]
    return TypedDict(name, fields)  # type: ignore[operator]


def _describe(kind: Any, description: str) -> Any:
    """The type with its description where msgspec looks for it: `Annotated[T, "words"]` is the usual form."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        for note in notes:
            words = note if isinstance(note, str) else getattr(note, "description", None)
            description = words if isinstance(words, str) and words else description
        metas = [note for note in notes if isinstance(note, Meta)]
        kind = Annotated[inner, *metas] if metas else inner
    return Annotated[kind, Meta(description=description)] if description else kind


def _defaults(function: Callable[..., object]) -> dict[str, Any]:
    """Defaults that JSON can tell."""
    found: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            try:
                found[parameter.name] = msgspec.json.decode(msgspec.json.encode(parameter.default))
            except (*UNREADABLE, TypeError):
                continue
    return found


def _in_order(found: dict[str, Any] | list[str], names: Iterable[str]) -> dict[str, Any] | list[str]:
    """As the function has them; a TypedDict's schema is sorted."""
    there = [name for name in names if name in found]
    return {name: found[name] for name in there} if isinstance(found, dict) else there


def schema_of(kind: Any, name: str) -> Schema:
    try:
        (top,), parts = msgspec.json.schema_components([kind], schema_hook=_own_schema)
    except TypeError as error:
        raise SchemaError(f"{name}: {error}") from None
    root = parts[top["$ref"].removeprefix(_REF)] if "$ref" in top else top
    writing = _Writing(parts)
    schema: Schema = writing.out(root, {})
    schema.pop("title", None)
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    if writing.recursive:
        schema["$defs"] = {part: writing.out(writing.parts[part], {part: None}) for part in writing.recursive}
    return schema


class _Writing:
    """A schema with its references written out, except those of a type that contains itself."""

    def __init__(self, parts: Mapping[str, Schema]) -> None:
        self.parts = dict(parts)
        self.recursive: dict[str, None] = {}

    def out(self, schema: Any, inside: dict[str, None]) -> Any:
        if isinstance(schema, list):
            return [self.out(one, inside) for one in schema]
        if not isinstance(schema, dict):
            return schema
        self.parts |= schema.get("$defs", {})
        rest = {key: value for key, value in schema.items() if key not in ("$defs", "$ref")}
        found: Schema = {}
        if "$ref" in schema:
            part = schema["$ref"].removeprefix(_REF)
            if part in inside:
                self.recursive[part] = None
                return {"$ref": schema["$ref"], **rest}
            found = self.out(self.parts[part], {**inside, part: None})
        for key, value in rest.items():
            if key == "properties":
                found[key] = {name: self.out(one, inside) for name, one in value.items()}
            elif key != "title":
                found[key] = value if key in ("default", "enum", "required") else self.out(value, inside)
        members = found.get("enum")
        if members and "type" not in found and all(isinstance(one, str) for one in members):
            found["type"] = "string"
        return found


# --- strict schemas ---------------------------------------------------------------------------------------


def strictly(schema: Schema) -> Schema:
    """Returns a strict schema: every property is required, no other is allowed, and optional ones may be
    null.
    """
    return typing.cast(Schema, _strict(deepcopy(schema)))


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items() if key not in ("properties", "default")}
    if "properties" in schema:
        required = schema.get("required", ())
        found["properties"] = {
            name: _strict(one) if name in required else _nullable(_strict(one))
            for name, one in schema["properties"].items()
        }
        found["required"] = list(schema["properties"])
        found["additionalProperties"] = False
    return found


def _nullable(schema: Schema) -> Schema:
    if _allows_null(schema):
        return schema
    inner = {key: value for key, value in schema.items() if key != "description"}
    description = {key: value for key, value in schema.items() if key == "description"}
    if isinstance(inner.get("type"), str) and "enum" not in inner and "properties" not in inner:
        return {**description, **inner, "type": [inner["type"], "null"]}
    if "anyOf" in inner:
        return {**description, **inner, "anyOf": [*inner["anyOf"], {"type": "null"}]}
    return {**description, "anyOf": [inner, {"type": "null"}]}


def _allows_null(schema: Schema) -> bool:
    kind = schema.get("type")
    return (
        not schema.keys() - {"description", "default"}
        or kind == "null"
        or (isinstance(kind, list) and "null" in kind)
        or any(_allows_null(one) for one in schema.get("anyOf", ()))
    )


def loose(schema: Any, where: str = "") -> str:
    """Why a schema cannot be strict, or nothing."""
    if not isinstance(schema, dict):
        return ""
    if found := sorted(_LOOSE & schema.keys()):
        return f"{where or 'it'} uses {found[0]}"
    if not schema.keys() - {"description", "default"}:
        return f"{where or 'a value'} can be anything"
    if schema.get("type") == "object" and ("properties" not in schema or schema.get("additionalProperties")):
        return f"{where or 'it'} is an object with keys of any name"
    inner = [(name, one) for name, one in schema.get("properties", {}).items()]
    inner += [(where, one) for one in (schema.get("items"), *schema.get("anyOf", ()))]
    inner += list(schema.get("$defs", {}).items())
    return next((reason for name, one in inner if (reason := loose(one, name))), "")


def without_nulls(value: Any, schema: Schema, root: Schema) -> Any:
    """The value without those nulls that only say that an optional property was not given."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix(_REF)]
    for one in schema.get("anyOf", ()):
        wanted = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else None
        if wanted is not None and ("$ref" in one or one.get("type") == wanted):
            return without_nulls(value, one, root)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [without_nulls(one, schema["items"], root) for one in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return value
    required = schema.get("required", ())
    return {
        name: without_nulls(one, properties.get(name, {}), root)
        for name, one in value.items()
        if one is not None or name in required or name not in properties or _allows_null(properties[name])
    }
