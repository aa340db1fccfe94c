"""Filters: what each says of a file, the laws that hold among them, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec.errors import SpecError
from antiphon.tools.file_search.filters import condition

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "x", "y", 0, 1, 2, 1.5, True, False])
ATTRIBUTES = st.dictionaries(KEYS, VALUES)
PLAIN = st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"])
COMPARISONS = st.builds(lambda t, k, v: {"type": t, "key": k, "value": v}, PLAIN, KEYS, VALUES) | st.builds(
    lambda t, k, v: {"type": t, "key": k, "value": v},
    st.sampled_from(["in", "nin"]),
    KEYS,
    st.lists(VALUES, max_size=3),
)
FILTERS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    COMPARISONS,
    lambda inner: st.builds(
        lambda t, f: {"type": t, "filters": f},
        st.sampled_from(["and", "or"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


def holds(given: Any, attributes: dict[str, Any]) -> bool:
    return condition(given, "filters")(attributes)


@given(FILTERS, FILTERS, ATTRIBUTES)
def test_and_or_are_what_they_are(one: Any, other: Any, attributes: dict[str, Any]) -> None:
    results = [holds(one, attributes), holds(other, attributes)]
    assert holds({"type": "and", "filters": [one, other]}, attributes) == all(results)
    assert holds({"type": "or", "filters": [one, other]}, attributes) == any(results)


@given(KEYS, VALUES, st.lists(VALUES, max_size=3), ATTRIBUTES)
def test_opposites(key: str, value: Any, values: list[Any], attributes: dict[str, Any]) -> None:
    def says(kind: str, value: Any) -> bool:
        return holds({"type": kind, "key": key, "value": value}, attributes)

    assert says("eq", value) != says("ne", value)
    assert says("in", values) != says("nin", values)
    assert says("in", values) == any(says("eq", one) for one in values)
    if says("gt", value) or says("lt", value):
        assert says("gt", value) != says("lt", value)
        assert says("gte", value) == says("gt", value)
    if says("gte", value) and says("lte", value):
        assert says("eq", value)


@pytest.mark.parametrize(
    ("attributes", "kind", "value", "holds_"),
    [
        ({"a": 2}, "gt", 1, True),
        ({"a": 2}, "gt", "1", False),
        ({"a": "b"}, "gte", "a", True),
        ({"a": True}, "eq", 1, False),
        ({"a": 1}, "eq", 1.0, True),
        ({"a": True}, "gt", False, False),
        ({}, "lt", 1, False),
        ({}, "ne", 1, True),
        ({"a": "x"}, "in", ["x", "y"], True),
        ({}, "nin", ["x"], True),
    ],
)
def test_a_comparison(attributes: dict[str, Any], kind: str, value: Any, holds_: bool) -> None:
    assert holds({"type": kind, "key": "a", "value": value}, attributes) is holds_


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ([], "filters"),
        ({"type": "like", "key": "a", "value": 1}, "filters.type"),
        ({"key": "a", "value": 1}, "filters.type"),
        ({"type": "eq", "value": 1}, "filters.key"),
        ({"type": "eq", "key": "a", "value": [1]}, "filters.value"),
        ({"type": "in", "key": "a", "value": "x"}, "filters.value"),
        ({"type": "and", "filters": []}, "filters.filters"),
        ({"type": "or", "filters": [{"type": "eq", "key": 1, "value": 1}]}, "filters.filters[0].key"),
    ],
)
def test_a_wrong_filter_names_the_place(given: Any, param: str) -> None:
    with pytest.raises(SpecError) as refused:
        condition(given, "filters")
    assert refused.value.payload.param == param


def test_filters_do_not_stand_inside_each_other_for_ever() -> None:
    given: dict[str, Any] = {"type": "eq", "key": "a", "value": 1}
    for _ in range(1000):
        given = {"type": "and", "filters": [given]}
    with pytest.raises(SpecError, match="deep"):
        condition(given, "filters")
