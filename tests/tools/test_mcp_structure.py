"""Counting the structure of answers: as a decoder would, however their bytes are cut."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.tools.mcp.structure import MOST_OBJECTS, MOST_VALUES, JsonStructure

TEXT = st.text(alphabet='a"\\\\{[,\n\u00e9', max_size=8)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def counted(value: Any) -> tuple[int, int]:
    """How many objects there are, and how many marks of structure."""
    if not isinstance(value, dict | list):
        return 0, 0
    inner = [counted(one) for one in (value.values() if isinstance(value, dict) else value)]
    objects = sum(one for one, _ in inner) + isinstance(value, dict)
    return objects, sum(marks for _, marks in inner) + 1 + max(0, len(value) - 1)


@example('[[["', False, [6])  # cut behind a quotation mark that does not end the string
@given(VALUES, st.booleans(), st.lists(st.integers(0, 400), max_size=12))
def test_it_counts_what_a_decoder_finds_however_the_bytes_are_cut(
    value: Any, is_event: bool, cuts: list[int]
) -> None:
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    if is_event:
        data = b': a "comment\nevent: message\ndata: ' + data + b"\n\n"
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    structure = JsonStructure()
    for start, end in itertools.pairwise(places):
        assert not structure.is_too_much(data[start:end])
    assert (structure._objects, structure._values) == counted(value)


@pytest.mark.parametrize(
    "data", [b"{" * (MOST_OBJECTS + 1), b"[" * (MOST_VALUES + 1), b"," * (MOST_VALUES + 1)]
)
def test_there_is_a_most(data: bytes) -> None:
    assert JsonStructure().is_too_much(data)
    assert not JsonStructure().is_too_much(data[1:])
    assert not JsonStructure().is_too_much(b'"' + data + b'"')
