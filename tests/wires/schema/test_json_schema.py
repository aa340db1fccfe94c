"""Schemas from strangers: right, bounded, and never on the network."""

import sys
from types import FrameType
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.wires.schema.json_schema import Budget, TooCostly, objection, objection_to_schema

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
    {"type": "array", "items": {"type": "string", "pattern": "^[a-c]+$"}, "uniqueItems": True},
    {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"},
    {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 3}]},
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abcn", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abn", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def ample(steps: int = 1_000_000, *, expressions: bool = True) -> Budget:
    return Budget(steps, 60.0, expressions=expressions)


@given(st.sampled_from(SCHEMAS), values)
def test_the_verdict_is_that_of_jsonschema(schema: dict[str, Any], value: Any) -> None:
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (objection(schema, value, ample()) is None) == expected


@given(st.lists(values, max_size=6))
def test_unique_items_are_those_of_jsonschema(value: list[Any]) -> None:
    schema = {"uniqueItems": True}
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (objection(schema, value, ample()) is None) == expected


@given(st.dictionaries(st.sampled_from(["type", "items", "required", "enum", "$ref", "not"]), values))
def test_what_is_a_schema_is_what_jsonschema_takes_for_one(schema: dict[str, Any]) -> None:
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
        expected = True
    except jsonschema.SchemaError:
        expected = False
    assert (objection_to_schema(schema, ample()) is None) == expected


def _doubling(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for n in range(levels):
        defs[f"d{n + 1}"] = {"allOf": [{"$ref": f"#/$defs/d{n}"}, {"$ref": f"#/$defs/d{n}"}]}
    return {"$defs": defs, "$ref": f"#/$defs/d{levels}"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a|a)*$"}, "a" * 40 + "!"),
        ({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {"^(a|a)*$": {}}, "additionalProperties": False}, {"a" * 40 + "!": 1}),
        (_doubling(60), 1),
        ({"$ref": "#"}, 1),
        ({"required": ["a"] * 50_000, "items": {"$ref": "#"}}, [{}] * 50_000),
    ],
)
def test_a_costly_schema_is_given_up_within_its_budget(schema: dict[str, Any], value: Any) -> None:
    budget = ample(100_000)
    with pytest.raises(TooCostly):
        objection(schema, value, budget)
    assert budget.steps > -200_000  # nothing after the last step that it could afford


def test_a_check_ends_when_its_time_is_over_though_it_has_steps_left() -> None:
    over = Budget(1_000_000, -1.0, expressions=True)
    with pytest.raises(TooCostly):
        objection({"type": "object"}, {}, over)
    with pytest.raises(TooCostly):
        objection_to_schema({"type": "object"}, over)
    assert over.steps > 999_000


@pytest.mark.parametrize("size", [1_000, 4_000])
def test_the_steps_for_what_is_no_schema_grow_with_its_size_and_no_faster(size: int) -> None:
    """Types that are objects: each was held against each other, 24 kB took seconds and 77 kB a minute."""
    budget = ample()
    assert objection_to_schema({"type": [{"a": n} for n in range(size)]}, budget) is not None
    assert 1_000_000 - budget.steps < 50 * size


def test_what_happens_beside_the_steps_grows_no_faster_either() -> None:
    def calls(size: int) -> int:
        """How many functions run until the verdict is there, counted or not."""
        count = 0

        def look(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        schema = {"type": [{"a": n} for n in range(size)]}
        budget = ample()
        sys.setprofile(look)
        try:
            objection_to_schema(schema, budget)
        finally:
            sys.setprofile(None)
        return count

    calls(1)  # what is done once and kept
    assert calls(400) < 5 * calls(100)


def test_a_part_that_names_its_own_draft_spends_from_the_same_budget() -> None:
    doubling = _doubling(60)
    inner = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": doubling.pop("$ref")}
    with pytest.raises(TooCostly):
        objection({**doubling, "allOf": [inner]}, 1, ample(10_000))
    budget = ample()
    assert (
        objection_to_schema({"properties": {f"p{n}": {"type": "string"} for n in range(100)}}, budget) is None
    )
    assert 1_000_000 - budget.steps > 10_000  # the specification's own schema names its draft too


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "a"}, "a"),
        ({"patternProperties": {"a": {}}}, {"a": 1}),
        ({"unevaluatedProperties": False, "patternProperties": {"a": {}}}, {"a": 1}),
    ],
)
def test_without_leave_no_expression_is_compiled_or_run(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(TooCostly):
        objection(schema, value, ample(expressions=False))
    assert objection(schema, value, ample()) is None


def test_without_leave_no_expression_of_a_schema_is_compiled() -> None:
    with pytest.raises(TooCostly):
        objection_to_schema({"properties": {"a": {"pattern": "a"}}}, ample(expressions=False))
    assert objection_to_schema({"properties": {"a": {"pattern": "a"}}}, ample()) is None
    assert "regex" in (objection_to_schema({"pattern": "("}, ample()) or "")


def test_a_reference_that_leads_nowhere_is_named_and_not_fetched() -> None:
    assert "http://127.0.0.1:9/x" in (objection({"$ref": "http://127.0.0.1:9/x"}, {}, ample()) or "")


def test_a_broken_expression_is_told() -> None:
    assert "pattern" in (objection({"pattern": "("}, "a", ample()) or "")


def test_what_is_no_schema_is_said_so() -> None:
    assert objection_to_schema({"type": "object"}, ample()) is None
    assert "5" in (objection_to_schema({"type": 5}, ample()) or "")
