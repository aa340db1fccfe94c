"""Random values that the specification's own JSON Schema calls valid, and random JSON of any kind."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.spec.validators import SCHEMAS

_LETTERS = st.characters(exclude_categories=["Cs"])
_WORDS = st.text(_LETTERS, max_size=12)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=8,
)
# A name that a Struct's field can have on the wire, and that no object of the specification has.
FIELD_NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'), max_size=12
).map(lambda name: f"acme:{name}")
UNKNOWN_FIELDS = st.dictionaries(FIELD_NAMES, JSON, min_size=1, max_size=3)


@cache
def valid(name: str) -> st.SearchStrategy[Any]:
    """Instances of one schema of the specification."""
    return st.deferred(lambda: _instances(SCHEMAS[name]))


def _instances(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    match schema:
        case {"$ref": ref}:
            return valid(ref.rpartition("/")[2])
        case {"enum": values}:
            return st.sampled_from(values)
        case {"allOf": [one]}:
            return _instances(one)
        case {"oneOf": some} | {"anyOf": some}:
            return st.one_of([_instances(one) for one in some])
        case {"type": "object", "properties": properties}:
            return _objects(properties, schema.get("required", []))
        case {"type": "object"}:
            values = schema.get("additionalProperties", {})
            keys = st.text("abcdefgh", min_size=1, max_size=8)
            return st.dictionaries(keys, JSON if values in ({}, True) else _instances(values), max_size=3)
        case {"type": "array", "items": items}:
            return st.lists(_instances(items), min_size=schema.get("minItems", 0), max_size=3)
        case {"type": "string"}:
            return _strings(schema)
        case {"type": "integer"}:
            return st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**31))
        case {"type": "number"}:
            return _NUMBERS
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "null"}:
            return st.none()
        case {}:
            return st.dictionaries(_WORDS, JSON, max_size=2)
    raise AssertionError(f"no instances of {schema}")


def _objects(properties: dict[str, Any], required: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    # An empty id or name is valid to the schema, and says nothing: it may be left out again.
    instances = {
        name: _instances(schema).filter(bool) if name in ("id", "name") else _instances(schema)
        for name, schema in properties.items()
    }
    return st.fixed_dictionaries(
        {name: instances[name] for name in required},
        optional={name: instances[name] for name in properties if name not in required},
    )


def _strings(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    longest = min(schema.get("maxLength", 12), 12)
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda text: len(text) <= 64)
    return st.text(
        st.characters(exclude_categories=["Cs"]), min_size=schema.get("minLength", 0), max_size=longest
    )


def locations(value: Any) -> list[tuple[Any, Any]]:
    """Every place in this JSON where something stands: its container, and its key or index there."""
    if not isinstance(value, dict | list):
        return []
    here = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in here] + [place for key in here for place in locations(value[key])]
