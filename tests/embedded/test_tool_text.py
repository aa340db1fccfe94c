"""Calls out of text: whatever the pieces and the spaces, the same calls come out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.embedded.tool_text import CallArguments, CallEnd, CallStart, ToolTextParser, ToolTextPiece

Call = tuple[str, dict[str, Any]]

texts = st.text(max_size=8)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
calls = st.tuples(texts.filter(bool), st.dictionaries(texts, values, max_size=3))
cuts = st.lists(st.integers(0, 10_000), max_size=20)


def written(call: Call, indent: int | None) -> str:
    return json.dumps({"name": call[0], "arguments": call[1]}, indent=indent)


def split(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def made(pieces: list[ToolTextPiece]) -> list[Call]:
    """The calls that pieces add up to; each must begin, have arguments and end."""
    result: list[Call] = []
    name, text = "", ""
    for piece in pieces:
        match piece:
            case CallStart():
                name, text = piece.name, ""
            case CallArguments():
                assert piece.text
                text += piece.text
            case CallEnd():
                result.append((name, json.loads(text)))
    return result


@given(st.lists(calls, min_size=1, max_size=3), cuts, st.sampled_from([None, 0, 2]))
def test_a_list_of_calls_however_it_is_cut(wanted: list[Call], places: list[int], indent: int | None) -> None:
    parser = ToolTextParser()
    text = f"[{', '.join(written(call, indent) for call in wanted)}]"
    pieces = [piece for part in split(text, places) for piece in parser.feed(part)]
    told = [written(call, None) for call in wanted]
    repeated = next((n for n, one in enumerate(told) if one in told[:n]), len(told))
    assert made(pieces) == wanted[:repeated]
    assert parser.done


@given(calls, cuts)
def test_a_single_call_however_it_is_cut(wanted: Call, places: list[int]) -> None:
    parser = ToolTextParser()
    text = written(wanted, 1)
    pieces = [piece for part in split(text, places) for piece in parser.feed(part)]
    assert made(pieces) == [wanted]


@given(calls, st.integers(0, 10_000))
def test_a_call_that_is_cut_off_never_ends(wanted: Call, place: int) -> None:
    text = written(wanted, None)
    parser = ToolTextParser()
    pieces = parser.feed(text[: place % len(text)])
    assert CallEnd() not in pieces
    assert len([piece for piece in pieces if isinstance(piece, CallStart)]) <= 1


def test_the_first_call_comes_piece_by_piece() -> None:
    parser = ToolTextParser()
    assert parser.feed('[ {"na') == []
    assert parser.feed('me" : "f",') == [CallStart("f")]
    assert parser.feed('"arguments": {"a" : "x y') == [CallArguments('{"a":"x y')]
    assert parser.feed('"\n} }') == [CallArguments('"}'), CallEnd()]
    assert parser.feed(', {"name": "g", "arguments": {') == []
    assert parser.feed("}}") == [CallStart("g"), CallArguments("{}"), CallEnd()]
    assert parser.feed("]") == []
    assert parser.done


WEATHER = "What's the weather in Boston and in Chicago?"


@pytest.mark.parametrize(
    ("said", "arguments", "kept"),
    [
        (WEATHER, [{"city": "Boston", "unit": "c"}, {"city": "Chicago", "unit": "f"}], 2),
        (WEATHER, [{"city": "boston"}, {"city": "Boston", "unit": "f"}, {"city": "Chicago"}], 1),
        (WEATHER, [{"city": "Boston"}, {"city": "Paris"}], 1),
        (WEATHER, [{"city": "Paris"}], 1),
        ("Add 10 and 20, then 10 and 30", [{"n": [10, 20.0]}, {"n": [10, 30]}, {"n": [30, 10]}], 2),
        ("nothing", [{}, {}], 1),
        ("yes", [{"a": {"b": ""}}, {"a": {"b": None, "c": True}}], 1),
    ],
)
def test_a_further_call_must_bring_more_of_what_the_user_said(
    said: str, arguments: list[dict[str, Any]], kept: int
) -> None:
    parser = ToolTextParser(said)
    pieces = parser.feed(json.dumps([{"name": "f", "arguments": one} for one in arguments]))
    assert [call[1] for call in made(pieces)] == arguments[:kept]
    assert parser.done
    assert parser.feed('{"name": "f", "arguments": {}}') == []
