"""JSON Schema for Google: as it is where it stays in the documented subset, else translated.

The subset goes into `parametersJsonSchema` and `responseJsonSchema`. Everything else becomes the older
`Schema`, which has no references but knows patterns and lengths; what neither has leaves a receipt.
"""

from dataclasses import dataclass, field
from typing import Any

_SUBSET = frozenset(
    [
        "$id",
        "$defs",
        "$ref",
        "$anchor",
        "type",
        "format",
        "title",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "oneOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
        "default",
    ]
)
# What Google takes as well, and what goes into the older `Schema` unless the schema has a cycle.
_TAKEN = frozenset({"minLength", "maxLength", "pattern", "uniqueItems"})
_BESIDE_REFERENCE = frozenset({"title"})
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
# They say nothing about which values are valid, so no receipt is needed.
_NOTES = frozenset(
    [
        "$schema",
        "$id",
        "$anchor",
        "$comment",
        "$defs",
        "definitions",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
    ]
)
_KEPT = frozenset(
    [
        "title",
        "description",
        "default",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "minProperties",
        "maxProperties",
        "propertyOrdering",
        "nullable",
        "example",
    ]
)
_FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_DEEPEST = 64
_LARGEST = 5000
_UNROLLED = 2


# What a keyword must hold, so that a schema can be read at all.
_SHAPES: dict[str, type | tuple[type, ...]] = {
    "type": (str, list),
    "enum": list,
    "required": list,
    "items": (dict, bool, list),
    "additionalProperties": (dict, bool),
    **dict.fromkeys(("prefixItems", "anyOf", "oneOf", "allOf"), list),
    **dict.fromkeys(("properties", "$defs", "definitions"), dict),
}


class SchemaTooLarge(ValueError):
    """Written out, this schema would be out of proportion."""


def is_sound(schema: object, depth: int = 0) -> bool:
    """Is it a schema, as far as it is looked at here?"""
    if isinstance(schema, bool) or depth > _DEEPEST:
        return True
    if not isinstance(schema, dict):
        return False
    for name, shape in _SHAPES.items():
        if name in schema and not isinstance(schema[name], shape):
            return False
    words = [*schema.get("required", []), *(schema["type"] if isinstance(schema.get("type"), list) else [])]
    if not all(isinstance(word, str) for word in words):
        return False
    inner = _inner(schema) + schema.get("allOf", []) + list(schema.get("definitions", {}).values())
    return all(is_sound(one, depth + 1) for one in inner)


def fits(schema: object) -> bool:
    """May it be sent as it is?"""
    if not isinstance(schema, dict):
        return False
    return _fits(schema, 0, _SUBSET | _TAKEN if _is_cyclic(schema) else _SUBSET)


def _fits(schema: object, depth: int, words: frozenset[str]) -> bool:
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict) or depth > _DEEPEST or not schema.keys() <= words:
        return False
    if "$ref" in schema:
        is_local = isinstance(schema["$ref"], str) and schema["$ref"].startswith("#/$defs/")
        if not is_local or any(not name.startswith("$") for name in schema.keys() - _BESIDE_REFERENCE):
            return False
    kinds = schema.get("type", [])
    if not _TYPES.issuperset([kinds] if isinstance(kinds, str) else kinds):
        return False
    if isinstance(schema.get("items"), list):
        return False
    choices = schema.get("enum", [])
    if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in choices):
        return False
    return all(_fits(inner, depth + 1, words) for inner in _inner(schema))


def _inner(schema: dict[str, Any]) -> list[Any]:
    """The schemas inside a schema of the subset."""
    found = [schema["additionalProperties"]] if "additionalProperties" in schema else []
    items = schema.get("items", [])
    found += items if isinstance(items, list) else [items]
    for name in ("prefixItems", "anyOf", "oneOf"):
        found += schema.get(name, [])
    for name in ("properties", "$defs"):
        found += schema.get(name, {}).values()
    return found


def _is_cyclic(schema: dict[str, Any]) -> bool:
    """Do its definitions lead back to themselves?"""
    definitions = schema.get("$defs", {})
    edges = {name: _references(inner, 0) for name, inner in definitions.items()}
    done: set[str] = set()
    for start in edges:
        path, stack = set[str](), [(start, False)]
        while stack:
            name, is_left = stack.pop()
            if is_left:
                path.discard(name)
                done.add(name)
            elif name in path:
                return True
            elif name not in done:
                path.add(name)
                stack.append((name, True))
                stack += [(to, False) for to in edges.get(name, ())]
    return False


def _references(schema: object, depth: int) -> set[str]:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return set()
    own = {schema["$ref"].removeprefix("#/$defs/")} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*(_references(inner, depth + 1) for inner in _inner(schema)))


@dataclass(slots=True)
class SchemaTranslation:
    """A `Schema`, and the places of what it could not take over."""

    schema: dict[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)


def translate(schema: dict[str, Any]) -> SchemaTranslation:
    """Raises `SchemaTooLarge` when the references make it explode."""
    translator = _Translator(schema)
    made = translator.node(schema, "", 0)
    return SchemaTranslation(made, translator.lost)


class _Translator:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._open: list[str] = []  # the references that lead to where we are
        self._count = 0
        self.lost: list[str] = []

    def node(self, schema: Any, at: str, depth: int) -> dict[str, Any]:
        self._count += 1
        if self._count > _LARGEST:
            raise SchemaTooLarge
        if not isinstance(schema, dict):
            if schema is False:
                self._lose(at)
            return {}
        if depth > _DEEPEST:
            self._lose(at)
            return {}
        if "$ref" in schema:
            return self._reference(schema, at, depth)
        if isinstance(schema.get("allOf"), list):
            return self.node(self._merge_all_of(schema), at, depth + 1)
        made = {name: schema[name] for name in schema if name in _KEPT}
        self._kind(made, schema, at, depth)
        self._choices(made, schema, at)
        self._alternatives(made, schema, at, depth)
        self._members(made, schema, at, depth)
        self._limits(made, schema, at)
        handled = {"type", "const", "enum", "anyOf", "oneOf", "properties", "required", "items", "format"}
        handled |= {"exclusiveMinimum", "exclusiveMaximum", "prefixItems"}
        for name in schema.keys() - handled - _KEPT - _NOTES:
            self._lose(f"{at}/{name}")
        return made

    def _lose(self, at: str) -> None:
        self.lost.append(at or "/")

    def _reference(self, schema: dict[str, Any], at: str, depth: int) -> dict[str, Any]:
        reference = schema["$ref"]
        target = self._find(reference)
        if target is None or self._open.count(reference) > _UNROLLED:
            self._lose(f"{at}/$ref")
            return {"type": "OBJECT"}
        siblings = {name: value for name, value in schema.items() if name != "$ref"}
        self._open.append(reference)
        try:
            return self.node({**target, **siblings}, at, depth + 1)
        finally:
            self._open.pop()

    def _find(self, reference: object) -> dict[str, Any] | None:
        """What a reference of this document points at."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: Any = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None

    def _merge_all_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Merge the schemas of `allOf` into one that demands what each of them demands."""
        whole: dict[str, Any] = {}
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        for one in [*schema["allOf"], rest]:
            target = one
            for _ in range(_DEEPEST):
                if not isinstance(target, dict) or "$ref" not in target:
                    break
                siblings = {name: value for name, value in target.items() if name != "$ref"}
                target = {**(self._find(target["$ref"]) or {}), **siblings}
            if not isinstance(target, dict):
                continue
            properties = {**whole.get("properties", {}), **target.get("properties", {})}
            required = [*whole.get("required", []), *target.get("required", [])]
            whole |= target
            if properties:
                whole["properties"] = properties
            if required:
                whole["required"] = list(dict.fromkeys(required))
        return whole

    def _kind(self, made: dict[str, Any], schema: dict[str, Any], at: str, depth: int) -> None:
        given = schema.get("type", [])
        kinds = [one for one in ([given] if isinstance(given, str) else given) if one in _TYPES]
        others = [one for one in kinds if one != "null"]
        if others != kinds and others:
            made["nullable"] = True
        if len(others) > 1:
            made["anyOf"] = [self.node({**schema, "type": one}, at, depth + 1) for one in others]
        elif kinds:
            made["type"] = (others or kinds)[0].upper()
        elif "properties" in schema:
            made["type"] = "OBJECT"
        format_ = schema.get("format")
        if isinstance(format_, str) and format_ in _FORMATS:
            made["format"] = format_
        elif format_ is not None:
            self._lose(f"{at}/format")

    def _choices(self, made: dict[str, Any], schema: dict[str, Any], at: str) -> None:
        if "const" not in schema and "enum" not in schema:
            return
        choices = [schema["const"]] if "const" in schema else list(schema["enum"])
        if None in choices:
            made["nullable"] = True
            choices = [one for one in choices if one is not None]
        if choices and all(isinstance(one, str) for one in choices):
            made |= {"type": "STRING", "enum": choices}
        elif choices and all(type(one) is int for one in choices):
            made |= {"type": "INTEGER", "enum": [str(one) for one in choices]}
        elif choices and all(type(one) in (int, float) for one in choices):
            made |= {"type": "NUMBER", "enum": [str(one) for one in choices]}
        else:
            self._lose(f"{at}/{'const' if 'const' in schema else 'enum'}")

    def _alternatives(self, made: dict[str, Any], schema: dict[str, Any], at: str, depth: int) -> None:
        for name in ("anyOf", "oneOf"):
            given = schema.get(name)
            if not isinstance(given, list) or "anyOf" in made:
                continue
            branches = [
                self.node(one, f"{at}/{name}/{n}", depth + 1)
                for n, one in enumerate(given)
                if not (isinstance(one, dict) and one.get("type") == "null")
            ]
            if len(branches) != len(given):
                made["nullable"] = True
            if len(branches) == 1:
                made |= {key: value for key, value in branches[0].items() if key not in made}
            elif branches:
                made["anyOf"] = branches

    def _members(self, made: dict[str, Any], schema: dict[str, Any], at: str, depth: int) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties and "anyOf" not in made:
            made["properties"] = {
                name: self.node(inner, f"{at}/properties/{name}", depth + 1)
                for name, inner in properties.items()
            }
            required = [name for name in schema.get("required", ()) if name in properties]
            if required:
                made["required"] = required
        if made.get("type") == "ARRAY":
            items = schema.get("items", {})
            made["items"] = self.node(items, f"{at}/items", depth + 1)
            if isinstance(items, list):
                self._lose(f"{at}/items")
        if "prefixItems" in schema:
            self._lose(f"{at}/prefixItems")

    def _limits(self, made: dict[str, Any], schema: dict[str, Any], at: str) -> None:
        """An exclusive limit of whole numbers is the next number; of others it is nearly the same."""
        for name, to, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            limit = schema.get(name)
            if limit is None:
                continue
            if made.get("type") == "INTEGER" and type(limit) is int:
                made[to] = limit + step
            else:
                self._lose(f"{at}/{name}")
                if type(limit) in (int, float):
                    made[to] = limit
