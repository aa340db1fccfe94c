"""The tables of models, and the schemas that they take."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.anthropic.json_schema import Inexpressible, fit_schema
from antiphon.providers.anthropic.models import UNKNOWN, find

# --- models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-0"),
        ("anthropic/claude-opus-4.8", "claude-opus-4-8"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("claude-opus-7", "claude-opus-5-5"),
        ("claude-opus-latest", "claude-opus-5-5"),
        ("claude-opus-5-20260724", "claude-opus-5"),
    ],
)
def test_a_model_is_known_by_any_of_its_names(name: str, same: str) -> None:
    assert find(name) is find(same)
    assert find(name) is not UNKNOWN


def test_models_differ() -> None:
    assert find("claude-3-7-sonnet-20250219").max_tokens == 64_000
    assert find("claude-opus-4-1-20250805").max_tokens == 32_000
    assert find("claude-opus-4-1-20250805").sampling == "one"
    assert find("claude-opus-5-5").max_tokens == 128_000
    assert find("deepseek-chat") is UNKNOWN
    assert find("claude") is UNKNOWN


# --- schemas ---------------------------------------------------------------------------------------------

SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "null"])},
        optional={
            "minLength": st.just(1),
            "description": st.just("d"),
            "format": st.sampled_from(["uri", "x"]),
        },
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"maxItems": st.just(2)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        st.builds(
            lambda properties: {"type": "object", "properties": properties},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_a_fitted_schema_fits(schema: dict[str, Any]) -> None:
    """What has been made fit needs no more fitting, and is closed wherever it is an object."""
    made, _ = fit_schema(schema)
    again, left_out = fit_schema(made)
    assert (again, left_out) == (made, set())
    text = json.dumps(made)
    assert text.count('"object"') == text.count('"additionalProperties": false')


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": True},
        {"properties": {"a": True}},
        {"$ref": "#"},
        {"$ref": "https://a.example/schema"},
        {"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_schema_with_no_place(schema: dict[str, Any]) -> None:
    with pytest.raises(Inexpressible):
        fit_schema(schema)
