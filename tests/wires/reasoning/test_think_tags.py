"""Reasoning that a model writes into its text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.stream.deltas import ReasoningDelta, TextDelta
from antiphon.wires.reasoning.think_tags import ThinkTags

# What the model writes, its reasoning, its answer.
CASES = [
    ("<think>\nHm.</think>\n\nYes", "Hm.", "Yes"),
    (" \n<think>Hm.</think>Yes", "Hm.", "Yes"),
    ("<think></think>Yes", "", "Yes"),
    ("Yes <think>no</think>", "", "Yes <think>no</think>"),
    ("<thin air", "", "<thin air"),
    ("<think>a < b </thinking> c</think>d", "a < b </thinking> c", "d"),
    ("<think>never closed </thi", "never closed </thi", ""),
    ("  plain", "", "  plain"),
    ("  ", "", ""),
]


def split(pieces: list[str]) -> tuple[str, str]:
    tags = ThinkTags()
    deltas = [delta for piece in pieces for delta in tags.feed(piece)] + tags.end()
    assert all(isinstance(delta, ReasoningDelta | TextDelta) and delta.text for delta in deltas)
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return reasoning, "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.parametrize(("said", "reasoning", "text"), CASES)
def test_by_example(said: str, reasoning: str, text: str) -> None:
    assert split([said]) == split(list(said)) == (reasoning, text)


words = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "thin", "k>", "/", "\n", " ", "a"]), max_size=12
)


@given(words, st.lists(st.integers(0, 60), max_size=20))
def test_any_cut_gives_the_same(said: list[str], cuts: list[int]) -> None:
    text = "".join(said)
    ends = sorted(min(cut, len(text)) for cut in cuts)
    pieces = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    assert split(pieces) == split([text])
