"""Schemas from strangers: right, bounded, and never on the network."""

import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.schemas import objection, objection_to_schema

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


@given(st.sampled_from(SCHEMAS), values)
def test_the_verdict_is_that_of_jsonschema(schema: dict[str, Any], value: Any) -> None:
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (objection(schema, value) is None) == expected


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
        ({"unevaluatedProperties": False, "patternProperties": {"^(a|a)*$": {}}}, {"a": 1}),
        (_doubling(60), 1),
        ({"$ref": "#"}, 1),
    ],
)
def test_a_costly_schema_is_given_up_soon(schema: dict[str, Any], value: Any) -> None:
    began = time.monotonic()
    assert "too long" in (objection(schema, value) or "")
    assert time.monotonic() - began < 60


def test_a_reference_that_leads_nowhere_is_named_and_not_fetched() -> None:
    assert "http://127.0.0.1:9/x" in (objection({"$ref": "http://127.0.0.1:9/x"}, {}) or "")


def test_a_broken_expression_is_told() -> None:
    assert "pattern" in (objection({"pattern": "("}, "a") or "")


def test_what_is_no_schema_is_said_so() -> None:
    assert objection_to_schema({"type": "object"}) is None
    assert "5" in (objection_to_schema({"type": 5}) or "")
