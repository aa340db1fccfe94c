"""The wrapping of custom tools, undone piece by piece."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.wires.tools.custom import Unwrapper, wrap


def unwrapped(arguments: str, cuts: list[int]) -> str:
    unwrapper = Unwrapper()
    ends = sorted(min(cut, len(arguments)) for cut in cuts)
    pieces = [arguments[a:b] for a, b in zip([0, *ends], [*ends, len(arguments)], strict=True)]
    return "".join(unwrapper.feed(piece) for piece in pieces) + unwrapper.end()


@given(st.text(), st.lists(st.integers(0, 300)), st.booleans())
def test_unwrapping_undoes_wrapping_however_it_was_cut(text: str, cuts: list[int], ascii: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=True) if ascii else wrap(text)
    assert unwrapped(arguments, cuts) == text


@given(st.text(alphabet='{}"\\inputud83c \n:,'), st.lists(st.integers(0, 60), max_size=20))
def test_any_cut_of_any_arguments_gives_the_same_text(arguments: str, cuts: list[int]) -> None:
    text = unwrapped(arguments, cuts)
    assert text == unwrapped(arguments, [])
    text.encode()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", ""),
        ("{}", "{}"),
        ('{"input": 7}', '{"input": 7}'),
        ('{"a": "b", "c": "d"}', '{"a": "b", "c": "d"}'),
        ('{"code": "x"}', "x"),
        ('"x"', "x"),
        ("print(1)", "print(1)"),
        ('{"input": "unfinished \\', "unfinished "),
        (r'{"input": "\d+\."}', r"\d+\."),
        ('{"input": "two\nlines"}', "two\nlines"),
        (r'{"input": "\ud83d"}', "�"),
        (r'{"input": "\ud83d!"}', "�!"),
        (r'{"input": "\\ud83d"}', r"\ud83d"),
    ],
)
def test_unwrapping_by_example(arguments: str, text: str) -> None:
    assert unwrapped(arguments, []) == unwrapped(arguments, list(range(len(arguments)))) == text
