"""JSON schemas as the Messages API takes them: closed objects, no recursion, few keywords."""

from typing import Any

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_PLAIN = frozenset({"type", "description", "title", "default", "enum", "const", "required", "$ref"})
_LISTS = frozenset({"anyOf", "allOf"})
_MAPS = frozenset({"properties", "$defs", "definitions"})
# Words about a schema that say nothing about a value.
_SILENT = frozenset({"$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly"})


class Inexpressible(ValueError):
    """This schema says something that has no place on this wire."""


def fit_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The schema as this wire takes it, and the keywords that had to be left out.

    >>> fit_schema({"type": "integer", "minimum": 1})
    ({'type': 'integer'}, {'minimum'})
    """
    left_out: set[str] = set()
    made = _fit(schema, left_out)
    _check_references(made)
    return made, left_out


def is_exact(schema: dict[str, Any]) -> bool:
    """Can a model be held to every word of this schema?"""
    try:
        made, left_out = fit_schema(schema)
    except Inexpressible:
        return False
    return not left_out and made == schema


class StrictBudget:
    """What is left of the limits that this API sets to all strict schemas of one request together."""

    def __init__(self) -> None:
        self._left = {"strict tools": 20, "optional properties": 24, "properties of several types": 16}

    def take(self, schema: dict[str, Any], *, is_tool: bool = True) -> str | None:
        """Make room for a schema; if there is none, say which limit it would exceed."""
        optional, unions = _count(schema)
        wanted = dict(zip(self._left, (int(is_tool), optional, unions), strict=True))
        if short := next((name for name, count in wanted.items() if count > self._left[name]), None):
            return f"only {self._left[short]} more {short} fit into this request"
        for name, count in wanted.items():
            self._left[name] -= count
        return None


def _count(schema: Any) -> tuple[int, int]:
    """How many properties a schema does not demand, and how many of its places take several types."""
    if not isinstance(schema, dict):
        return 0, 0
    properties = schema.get("properties")
    named = set(properties) if isinstance(properties, dict) else set()
    optional = len(named - set(schema.get("required") or ()))
    unions = int("anyOf" in schema or isinstance(schema.get("type"), list))
    within = [schema.get("items")]
    for word in (*_MAPS, *_LISTS):
        value = schema.get(word) or ()
        within += value.values() if isinstance(value, dict) else value
    counts = [_count(one) for one in within]
    return optional + sum(one for one, _ in counts), unions + sum(one for _, one in counts)


def _fit(schema: Any, left_out: set[str]) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise Inexpressible("a schema that is only true or false")
    made: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _PLAIN:
            made[word] = value
        elif word in _MAPS and isinstance(value, dict):
            made[word] = {name: _fit(one, left_out) for name, one in value.items()}
        elif (word in _LISTS or word == "oneOf") and isinstance(value, list):
            made["anyOf" if word == "oneOf" else word] = [_fit(one, left_out) for one in value]
        elif word == "items":
            made[word] = _fit(value, left_out)
        elif word == "additionalProperties":
            if value is not False:
                raise Inexpressible("an object with properties of any name")
        elif (word == "format" and value in _FORMATS) or (word == "minItems" and value in (0, 1)):
            made[word] = value
        elif word not in _SILENT:
            left_out.add(word)
    if "properties" in made or _is_object(made.get("type")):
        made["additionalProperties"] = False
    return made


def _is_object(kind: Any) -> bool:
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _check_references(schema: dict[str, Any]) -> None:
    """A definition that leads back to itself cannot be sent."""
    known = {
        f"#/{place}/{name}": one
        for place in ("$defs", "definitions")
        for name, one in schema.get(place, {}).items()
    }
    reached = {name: _references(one) for name, one in known.items()}
    for name in known:
        seen: set[str] = set()
        waiting = set(reached[name])
        while waiting:
            one = waiting.pop()
            if one == name:
                raise Inexpressible("a definition that refers to itself")
            if one not in seen:
                seen.add(one)
                waiting |= reached.get(one, set())
    if not _references(schema) <= known.keys():
        raise Inexpressible("a reference to something outside its definitions")


def _references(schema: Any) -> set[str]:
    match schema:
        case {"$ref": str(name)}:
            return {name}
        case dict():
            return set().union(*(_references(one) for one in schema.values()))
        case list():
            return set().union(*(_references(one) for one in schema))
    return set()
