"""Schemas for Google: what goes as it is, what is translated, and what is told as lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.gemini.json_schema import SchemaTooLarge, fits, is_sound, translate
from tests.providers.gemini.fake import misfits
from tests.providers.gemini.sdk import types

STRING = {"type": "string"}
POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        POINT,
        {**POINT, "additionalProperties": False},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": ["string", "null"], "format": "uri", "title": "T", "description": "D"},
        {"anyOf": [STRING, {"type": "null"}]},
        {"oneOf": [STRING, {"type": "integer", "minimum": 1, "maximum": 2}]},
        {"enum": ["a", 1, 2.5]},
        {"type": "array", "prefixItems": [STRING], "items": STRING, "minItems": 1, "maxItems": 3},
        {"$defs": {"P": POINT}, "type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}},
        {"type": "array", "items": STRING, "default": []},
    ],
)
def test_the_subset_goes_as_it_is(schema: dict[str, Any]) -> None:
    assert fits(schema)


def test_a_schema_that_leads_back_to_itself_goes_as_it_is() -> None:
    """With what Google takes besides the subset: written out, it would lose its depth."""
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "pattern": "a+"},
            "next": {"type": "array", "items": {"$ref": "#/$defs/N"}, "default": []},
        },
    }
    assert fits({"$ref": "#/$defs/N", "$defs": {"N": node}, "title": "N"})
    assert not fits({"$ref": "#/$defs/N", "$defs": {"N": {**node, "if": {}}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"const": "a"},
        {"type": "string", "pattern": "a+"},
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}},
        {"allOf": [POINT]},
        {"type": "any"},
        {"enum": [True]},
        {"enum": [None]},
        {"$ref": "#/$defs/P", "description": "with a sibling", "$defs": {"P": POINT}},
        {"$ref": "#/definitions/P", "definitions": {"P": POINT}},
        {"$ref": "https://example.com/schema"},
        [],
        None,
    ],
)
def test_the_rest_does_not(schema: Any) -> None:
    assert not fits(schema)


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        ({"const": 3}, {"type": "INTEGER", "enum": ["3"]}),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
        ({"enum": [1, 2.5]}, {"type": "NUMBER", "enum": ["1", "2.5"]}),
        ({"type": ["string", "null"], "pattern": "a"}, {"type": "STRING", "nullable": True, "pattern": "a"}),
        (
            {"type": ["string", "integer"], "minLength": 1},
            {
                "anyOf": [{"type": "STRING", "minLength": 1}, {"type": "INTEGER", "minLength": 1}],
                "minLength": 1,
            },
        ),
        ({"anyOf": [STRING, {"type": "null"}]}, {"type": "STRING", "nullable": True}),
        (
            {"oneOf": [{"const": "a"}, {"type": "integer"}]},
            {"anyOf": [{"type": "STRING", "enum": ["a"]}, {"type": "INTEGER"}]},
        ),
        ({"type": "null"}, {"type": "NULL"}),
        ({"properties": {"a": True}}, {"type": "OBJECT", "properties": {"a": {}}}),
        (
            {"type": "object", "properties": {"a": STRING}, "required": ["a", "b"]},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
        ),
        ({"type": "array"}, {"type": "ARRAY", "items": {}}),
        ({"type": "array", "items": STRING}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "INTEGER", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 9}, {"type": "INTEGER", "maximum": 8}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"$schema": "x", "$comment": "y", "examples": [1], "default": 2}, {"default": 2}),
        (
            {"allOf": [POINT, {"properties": {"y": STRING}, "required": ["y"]}], "description": "D"},
            {
                "type": "OBJECT",
                "properties": {"x": {"type": "NUMBER"}, "y": {"type": "STRING"}},
                "required": ["x", "y"],
                "description": "D",
            },
        ),
        (
            {"allOf": [{"$ref": "#/definitions/P"}], "definitions": {"P": POINT}},
            {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}, "required": ["x"]},
        ),
        (
            {"$ref": "#/definitions/a~1b", "description": "D", "definitions": {"a/b": STRING}},
            {"type": "STRING", "description": "D"},
        ),
    ],
)
def test_translations_without_a_loss(schema: dict[str, Any], made: dict[str, Any]) -> None:
    translation = translate(schema)
    assert (translation.schema, translation.lost) == (made, [])
    assert misfits("schema", translation.schema, types.Schema) == []


@pytest.mark.parametrize(
    ("schema", "lost"),
    [
        ({"type": "object", "properties": {"a": {"not": STRING}}}, ["/properties/a/not"]),
        ({**POINT, "additionalProperties": False}, ["/additionalProperties"]),
        ({"type": "array", "uniqueItems": True}, ["/uniqueItems"]),
        ({"type": "string", "format": "uri"}, ["/format"]),
        ({"type": "number", "exclusiveMinimum": 0}, ["/exclusiveMinimum"]),
        ({"enum": [True, False]}, ["/enum"]),
        ({"const": {"a": 1}}, ["/const"]),
        ({"$ref": "https://example.com/schema"}, ["/$ref"]),
        ({"anyOf": [{"if": {}}, STRING]}, ["/anyOf/0/if"]),
        ({"properties": {"a": False}}, ["/properties/a"]),
    ],
)
def test_a_loss_is_told_with_its_place(schema: dict[str, Any], lost: list[str]) -> None:
    assert translate(schema).lost == lost


def test_a_cycle_is_written_out_a_few_times() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}
    made = translate({"$ref": "#/$defs/N", "$defs": {"N": node}})
    assert json.dumps(made.schema).count("next") == 3
    assert made.lost == ["/properties/next/properties/next/properties/next/$ref"]


def test_references_that_explode_are_refused() -> None:
    definitions = {
        f"d{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/definitions/d{n + 1}"} for side in ("left", "right")},
        }
        for n in range(40)
    }
    with pytest.raises(SchemaTooLarge):
        translate({"$ref": "#/definitions/d0", "definitions": definitions})


def test_deep_schemas_end() -> None:
    schema: dict[str, Any] = {"const": "a"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    assert not fits(schema)
    assert len(translate(schema).lost) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"type": 5},
        {"type": [5]},
        {"enum": "a"},
        {"required": "a"},
        {"required": [{}]},
        {"anyOf": {}},
        {"anyOf": ["a"]},
        {"properties": {"a": {"$defs": []}}},
        {"allOf": [{"items": "a"}]},
        {"definitions": {"a": 1}},
        "a",
    ],
)
def test_what_is_no_schema(schema: Any) -> None:
    assert not is_sound(schema)


_VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3)
_KINDS = st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "null"])


_KEYWORDS = st.sampled_from(
    ["type", "enum", "required", "items", "properties", "anyOf", "allOf", "$ref", "format"]
)
_JSON = st.recursive(
    _VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(_KEYWORDS, _JSON, max_size=5))
def test_nothing_that_seems_sound_breaks_the_translation(schema: dict[str, Any]) -> None:
    if is_sound(schema) and not fits(schema):
        translate(schema)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": _KINDS | st.lists(_KINDS, unique=True, max_size=3),
            "description": st.text(max_size=3),
            "const": _VALUES,
            "enum": st.lists(_VALUES, max_size=3),
            "anyOf": st.lists(inner, max_size=3),
            "oneOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=2),
            "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3),
            "required": st.lists(st.text(max_size=3), max_size=3),
            "items": inner,
            "additionalProperties": st.booleans() | inner,
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/nowhere", "other"]),
            "$defs": st.dictionaries(st.just("a"), inner, max_size=1),
            "pattern": st.text(max_size=3),
            "exclusiveMinimum": st.integers(0, 5) | st.booleans(),
            "maxLength": st.integers(0, 5),
        },
    )


@given(st.recursive(st.booleans() | _schemas(st.just({})), _schemas, max_leaves=6))
def test_every_translation_is_a_schema_of_google(schema: Any) -> None:
    """Law: whatever is declared, what is sent fits the official type, or is as it was."""
    if not isinstance(schema, dict) or fits(schema):
        return
    assert is_sound(schema)
    try:
        made = translate(schema)
    except SchemaTooLarge:
        return
    assert misfits("schema", made.schema, types.Schema) == []
