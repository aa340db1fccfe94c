"""What a schema costs as a grammar: what doubles is refused from its text alone, what people write is not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.embedded.grammar_cost import MOST_PARTS, MOST_WAYS, objection

Schema = dict[str, Any]


def levels(depth: int, level: Any) -> Schema:
    """A schema of so many levels, each made of references to the next."""
    defs = {f"d{n}": level({"$ref": f"#/$defs/d{n + 1}"}) for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{depth}": {"type": "string"}}}


def lists(of: Schema) -> Schema:
    """Two kinds of list that begin alike: after each bracket twice as many readings are open."""
    return {"anyOf": [{"type": "array", "items": of, "minItems": 1, "maxItems": n} for n in (2, 3)]}


def twice(of: Schema) -> Schema:
    return {"type": "object", "properties": {"a": of, "b": of}, "required": ["a", "b"]}


def optional(count: int) -> Schema:
    return {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(count)}}


def nested(depth: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


LOOP = {"$defs": {"d": lists({"$ref": "#/$defs/d"})}, "$ref": "#/$defs/d"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (levels(14, lists), f"more than {MOST_WAYS} ways"),
        (levels(60, lists), f"more than {MOST_WAYS} ways"),
        (LOOP, f"more than {MOST_WAYS} ways"),
        (levels(20, twice), f"more than {MOST_PARTS} parts"),
        (levels(2000, twice), "nested too deeply"),
        (optional(800), "optional properties"),
        (nested(100_000), "nested too deeply"),
    ],
    ids=["lists", "many lists", "a loop", "pairs", "many pairs", "optional", "deep"],
)
def test_a_schema_that_doubles_is_refused(schema: Schema, why: str) -> None:
    assert why in (objection(schema) or "")


def operation(name: str) -> Schema:
    return {
        "type": "object",
        "properties": {"op": {"const": name}, "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}},
        "required": ["op", "left", "right"],
    }


EXPRESSION = {
    "$ref": "#/$defs/e",
    "$defs": {
        "e": {"anyOf": [{"type": "number"}, *(operation(name) for name in ("add", "multiply", "divide"))]}
    },
}
JSON = {
    "$defs": {
        "json": {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/json"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}, "required": []},
            ]
        }
    },
    "type": "object",
    "properties": {"value": {"$ref": "#/$defs/json"}},
}
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        optional(100),
        EXPRESSION,
        TREE,
        JSON,
        {"enum": [f"value {n}" for n in range(1000)]},
        levels(5, lists),
        {"anyOf": [optional(3) for _ in range(10)]},
        {"$ref": "#/$defs/missing"},
        {"anyOf": {"not": "a list"}, "properties": ["nor", "this"], "required": "x"},
        nested(50),
    ],
    ids=[
        "empty",
        "options",
        "expression",
        "tree",
        "json",
        "enum",
        "a few lists",
        "kinds",
        "missing",
        "odd",
        "lists",
    ],
)
def test_what_people_write_is_taken(schema: Schema) -> None:
    assert objection(schema) is None


KEYWORDS = ["$ref", "anyOf", "oneOf", "allOf", "properties", "required", "items", "type", "const", "x"]
ANYTHING = st.recursive(
    st.none() | st.sampled_from(["#", "#/properties/x", "#/$defs/x/0", "object", "array"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYWORDS), inner),
)


@given(ANYTHING)
def test_a_schema_that_makes_no_sense_is_an_answer_and_no_crash(node: Any) -> None:
    assert isinstance(objection({"properties": {"x": node}, "$defs": {"x": node}}), str | None)


@given(st.integers(0, 12), st.integers(2, 4))
def test_the_bound_is_where_the_ways_are_too_many(depth: int, width: int) -> None:
    def level(of: Schema) -> Schema:
        return {"anyOf": [{"type": "array", "items": of, "maxItems": n + 2} for n in range(width)]}

    assert (objection(levels(depth, level)) is None) == (width**depth <= MOST_WAYS)
