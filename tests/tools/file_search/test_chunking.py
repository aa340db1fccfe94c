"""Chunks: together they are the whole text, none is too long, and no two differ by nothing."""

import string
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from antiphon.tools.file_search.chunking import Chunking, spans

LETTERS = string.ascii_letters + " \n\t.,0123456789_äß漢字 あ\u2028🦜"
TEXTS = st.text(st.sampled_from(LETTERS), max_size=400) | st.text(max_size=100)
SIZES = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size // 2)))


@given(TEXTS, SIZES)
def test_chunks_are_together_the_whole_text(text: str, sizes: tuple[int, int]) -> None:
    found = list(spans(text, Chunking(*sizes)))
    if not text or text.isspace():
        assert found == []
        return
    assert found[0][0] == 0
    assert found[-1][1] == len(text)
    for (start, end), (following, last) in pairwise(found):
        assert start < following <= end < last


@given(st.integers(1, 500), SIZES)
def test_a_chunk_has_so_many_words_and_shares_so_many(count: int, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    text = " ".join(["word"] * count)  # each is one token
    cut = [text[start:end].split() for start, end in spans(text, Chunking(size, overlap))]
    assert all(len(chunk) == size for chunk in cut[:-1])
    assert len(cut[-1]) <= size
    new = sum(len(chunk) for chunk in cut) - overlap * (len(cut) - 1)
    assert new == count


def test_a_text_without_spaces_is_cut_too() -> None:
    for text in ("x" * 10_000, "漢" * 10_000):
        found = list(spans(text, Chunking(100, 0)))
        assert len(found) > 10
        assert "".join(text[start:end] for start, end in found) == text


def test_words_stay_whole() -> None:
    text = "Donaudampfschiffe fahren " * 300
    for start, end in spans(text, Chunking(100, 50)):
        assert set(text[start:end].split()) <= {"Donaudampfschiffe", "fahren"}
