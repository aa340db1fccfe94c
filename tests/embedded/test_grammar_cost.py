"""What a schema costs as a grammar: what doubles is refused from its text alone, what people write is not."""

import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.embedded import grammar_cost
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
    ],
    ids=["lists", "many lists", "a loop", "pairs", "many pairs", "optional"],
)
def test_a_schema_that_doubles_is_refused(schema: Schema, why: str) -> None:
    assert why in (objection(schema) or "")


def test_a_schema_of_very_many_levels_is_refused() -> None:
    assert "nested too deeply" in (objection(nested(100_000)) or "")


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


def many_kinds(count: int) -> Schema:
    """Half of the alternatives could be any of the other half."""
    return {"anyOf": [{"const": n} for n in range(count)] + [{} for _ in range(count)]}


@pytest.mark.parametrize("schema", [many_kinds, lambda n: levels(n // 4, twice)])
def test_steps_and_memory_of_the_judgement_grow_with_the_schema_and_no_faster(schema: Any) -> None:
    def cost(of: Schema) -> tuple[int, int]:
        count = 0

        def look(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        tracemalloc.start()
        sys.setprofile(look)
        try:
            objection(of)
            return count, tracemalloc.get_traced_memory()[1]
        finally:
            sys.setprofile(None)
            tracemalloc.stop()

    steps, memory = cost(schema(100))
    more_steps, more_memory = cost(schema(400))
    assert more_steps < 5 * steps
    assert more_memory < 6 * memory


def test_a_reference_is_followed_once_however_often_it_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """To take one of many kilobytes apart for each of many short ones that lead to it would take seconds."""
    followed: list[str] = []
    real = grammar_cost._Costs._resolve

    def noted(self: grammar_cost._Costs, ref: str) -> Any:
        followed.append(ref)
        return real(self, ref)

    monkeypatch.setattr(grammar_cost._Costs, "_resolve", noted)
    long = "#" + "/x" * 5000
    schema = {"anyOf": [{"$ref": "#/$defs/d"} for _ in range(50)], "$defs": {"d": {"$ref": long}}}
    assert objection(schema) is None
    assert sorted(followed) == sorted(["#/$defs/d", long])
