"""What is said of JSON without decoding it agrees with what decoding it says."""

import json
import re
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec import json_size
from antiphon.spec.json_size import is_deep, is_name, outline
from tests.spec.strategies import JSON

TRICKY = st.recursive(
    st.text('[]{},:"\\\n é', max_size=8) | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[{,:"\\', max_size=3), inner),
)

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


def marks(value: Any) -> int:
    """An opening bracket, and what separates the entries and names from values."""
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(len(value) - 1, 0) + isinstance(value, dict) * len(value) + sum(map(marks, inner))


@given(TRICKY | JSON, st.booleans(), st.sampled_from([None, 1]))
def test_a_scan_agrees_with_the_decoded_value(value: Any, escaped: bool, indent: int | None) -> None:
    raw = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    for limit in range(depth(value) + 2):
        assert is_deep(raw, limit) == (depth(value) > limit)
    assert outline(raw).values == marks(value)


@given(TRICKY, st.integers(2, 9))
def test_a_scan_in_slices_agrees_with_one_of_the_whole(value: Any, size: int) -> None:
    raw = json.dumps(value, ensure_ascii=False).encode()
    strings = [found.span() for found in _STRING.finditer(raw)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_SLICE", size)
        found = outline(raw)
        assert (found.values, found.escapes) == (marks(value), raw.count(b"\\"))
        assert found.outside == len(_STRING.sub(b"", raw))
        assert not is_deep(raw, depth(value))
        long = [(one.start - 1, one.end + 1) for one in found.long]
    assert set(long) <= set(strings)
    assert set(long) >= {(start, end) for start, end in strings if end - start - 2 >= 2 * size}


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=40) | st.lists(st.text(max_size=40))))
def test_a_long_name_is_told_from_a_long_text(value: dict[str, Any]) -> None:
    raw = json.dumps(value, ensure_ascii=False, separators=(",", " :  ")).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_SLICE", 4)
        for one in outline(raw).long:
            text = json.loads(raw[one.start - 1 : one.end + 1])
            inside = [each for given in value.values() for each in ([given] if type(given) is str else given)]
            assert text in (value if is_name(raw, one) else inside)


@given(st.integers(0, 12), st.integers(0, 12))
def test_is_deep_counts_levels(depth: int, limit: int) -> None:
    raw = b'[{"a":' * (depth // 2) + b"[" * (depth % 2) + b"1" + b"]" * (depth % 2) + b"}]" * (depth // 2)
    assert is_deep(raw, limit) == (depth > limit)
    assert is_deep(b"[[],1,%b]" % raw, limit) == (max(depth + 1, 2) > limit)
    assert not is_deep(b'"' + b"[" * 100 + b'"', limit)


@given(st.lists(st.sampled_from([*b'[]{},:"\\a '])).map(bytes), st.integers(0, 3))
def test_any_bytes_can_be_scanned(data: bytes, limit: int) -> None:
    assert is_deep(data, limit) in (True, False)
    assert outline(data, limit).values >= 0


HOSTILE = {
    "escapes": b'["' + b"\\n" * 3_000_000,
    "escaped quotes": b"[" * 150 + b'"' + b'\\"[,' * 1_500_000,
    "quotes": b'"[,' * 2_000_000,
    "open strings": b'[","' * 1_500_000,
    "closers": b"[,]" * 300 + b"]" * 6_000_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_scan_looks_at_no_byte_twice(data: bytes) -> None:
    started = process_time()
    is_deep(data, 200)
    outline(data, 1_000_000)
    assert process_time() - started < 60


def test_a_limit_is_reached_only_outside_strings() -> None:
    words = ["[{,:" * 1000, "\\", '"[', "é"]
    raw = json.dumps({"a": words}, ensure_ascii=False).encode()
    assert outline(raw).values == 6


def test_a_text_with_too_many_values_is_not_read_to_its_end() -> None:
    assert outline(b"[" + b"1," * 1_000_000 + b"1]", 1000).values < 50_000
