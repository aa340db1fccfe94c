"""Where one text goes on with another: no gap, no repetition, however the pieces fall."""

from time import process_time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.engine.routing.seam import LEAST, MOST, Seam, last_words

WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "and", "42", "ä", "."]), max_size=60)


def pieces(text: str, sizes: list[int]) -> list[str]:
    found, at = [], 0
    for size in sizes:
        found.append(text[at : at + size])
        at += size
    return [*found, text[at:]]


def joined(
    before: str,
    after: str,
    sizes: list[int],
    unsent: str = "",
    *,
    is_prefill: bool = False,
    is_cut: bool = False,
) -> str:
    seam = Seam(before, unsent, "" if is_prefill else last_words(before[: len(before) - len(unsent)]))
    said = "".join([seam.feed(piece) for piece in pieces(after, sizes)])
    return before + said + ("" if seam.is_closed else seam.close(is_cut=is_cut))


def longest_overlap(before: str, after: str) -> int:
    least = min(LEAST, len(before))
    lengths = [n for n in range(least, min(len(before), len(after)) + 1) if before.endswith(after[:n])]
    return max(lengths, default=0)


def is_begun(before: str, after: str) -> bool:
    """Is it a beginning of what the target was asked to repeat, and no more than that?"""
    return len(after.lstrip()) >= LEAST and last_words(before).startswith(after.lstrip())


def longest_repetition(before: str, after: str) -> int:
    """The longest overlap, or else the one after the blanks that `after` begins with."""
    blanks = len(after) - len(after.lstrip())
    later = longest_overlap(before, after[blanks:])
    return longest_overlap(before, after) or (blanks + later if later >= LEAST else 0)


@given(st.text("abc ", max_size=40), st.text("abc ", max_size=40), st.lists(st.integers(1, 5), max_size=30))
def test_the_longest_overlap_is_said_once_however_the_pieces_fall(
    before: str, after: str, sizes: list[int]
) -> None:
    if is_begun(before, after):
        assert joined(before, after, sizes) == before
    else:
        assert joined(before, after, sizes) == before + after[longest_repetition(before, after) :]


@given(WORDS, st.floats(0, 1), st.floats(0, 1), st.lists(st.integers(1, 9), max_size=30))
def test_a_text_that_was_cut_anywhere_and_repeated_from_anywhere_is_whole(
    words: list[str], cut: float, repeated: float, sizes: list[int]
) -> None:
    text = " ".join(words)
    at = round(cut * len(text))
    overlap = round(repeated * at)
    before, after = text[:at], text[at - overlap :]
    # Where a shorter or a longer overlap is there by chance, nobody can tell which one was meant.
    assume(longest_overlap(before, after) == (overlap if overlap >= min(LEAST, at) else 0))
    assume(not is_begun(before, after) or not text[at:])
    if overlap >= min(LEAST, at) or overlap == 0:
        assert joined(before, after, sizes) == text


@given(
    st.text("abc ", max_size=40), st.floats(0, 1), st.floats(0, 1), st.lists(st.integers(1, 5), max_size=30)
)
def test_whoever_is_cut_anywhere_says_nothing_twice_and_leaves_no_gap(
    text: str, cut: float, ended: float, sizes: list[int]
) -> None:
    """Repeated from anywhere, and cut before, in or after the end of that repetition."""
    at = round(cut * len(text))
    for start in range(at + 1):
        end = start + round(ended * (len(text) - start))
        before, after = text[:at], text[start:end]
        overlap = at - start
        # Where another overlap is there by chance, nobody can tell which one was meant.
        if longest_repetition(before, text[start:]) == overlap:
            assert text.startswith(joined(before, after, sizes, is_cut=True))


@given(WORDS, st.floats(0, 1), st.floats(0, 1), st.lists(st.integers(1, 9), max_size=30))
def test_whoever_ends_in_what_it_was_asked_to_repeat_adds_nothing(
    words: list[str], cut: float, ended: float, sizes: list[int]
) -> None:
    text = " ".join(words)
    before = text[: round(cut * len(text))]
    anchor = last_words(before)
    said = anchor[: round(ended * len(anchor))]
    assert joined(before, said, sizes, is_cut=True) == before
    assert joined(before, said, sizes) == (before if len(said) >= LEAST else before + chance(before, said))


def chance(before: str, said: str) -> str:
    """What is so short that it is taken for new, unless it is the whole of the old text."""
    return "" if said == before else said


@given(st.text("abc ", min_size=1, max_size=40), st.text("abc ", max_size=40), st.booleans())
def test_of_a_text_that_was_given_as_a_beginning_only_the_whole_is_a_repetition(
    before: str, after: str, is_begun_anew: bool
) -> None:
    assume(before == before.rstrip())
    said = before + after if is_begun_anew else after
    repeated = len(before) if len(before) >= LEAST and said.startswith(before) else 0
    if not repeated and len(before) >= LEAST and said.lstrip().startswith(before):
        repeated = len(said) - len(said.lstrip()) + len(before)
    assert joined(before, said, [3] * 20, is_prefill=True) == before + said[repeated:]


def test_digits_after_a_beginning_that_was_given_are_all_new() -> None:
    rest = "00000000 bytes"
    assert joined("n = 100000000", rest, [4], is_prefill=True) == "n = 10000000000000000 bytes"
    assert joined("n = 100000000", rest, [4]) == "n = 100000000 bytes"
    assert joined("The cat ", " sat", [1], " ", is_prefill=True) == "The cat sat"
    assert joined("Yes", "Ye", [1], is_prefill=True, is_cut=True) == "YesYe"
    assert joined("The cat sat", "The cat sat down", [2] * 9, is_prefill=True) == "The cat sat down"


@pytest.mark.parametrize("character", ["-", "ä"])
@pytest.mark.parametrize("size", [10, MOST, 50_000, 99_999, 100_000])
def test_a_long_text_of_one_character_holds_nothing_up(character: str, size: int) -> None:
    before = character * 100_000
    seam = Seam(before, "", last_words(before))
    began = process_time()
    seam.feed(character * size + " end")
    assert process_time() - began < 0.05


def test_a_long_overlap_is_found_up_to_a_bound_and_as_the_whole() -> None:
    before = "".join(f"{n}, " for n in range(10_000))
    for repeated in (before, before[-MOST:], before[-100:]):
        assert joined(before, repeated + "end", [7] * 20_000) == before + "end"
    earlier = before[5000:5050]
    assert Seam(before, "", last_words(before)).feed(earlier) == earlier


def test_last_words_are_whole_ones() -> None:
    assert last_words("as it is") == "as it is"
    words = " ".join(["abcdefg"] * 20)
    assert last_words(words) == " ".join(["abcdefg"] * 7)
    assert last_words("x" * 100) == "x" * 60


def test_chance_is_no_overlap() -> None:
    assert joined("it costs 1000", "000 euros", [2, 2]) == "it costs 1000000 euros"
    assert joined("Hello, wor", "ld!", [1]) == "Hello, world!"


def test_who_starts_over_is_heard_from_where_the_first_stopped() -> None:
    assert joined("The cat", "The cat sat.", [1] * 12) == "The cat sat."
    assert joined("I", "I am", [1]) == "I am"


def test_blanks_that_were_not_sent_are_not_doubled() -> None:
    assert joined("The cat ", " sat", [1], unsent=" ") == "The cat sat"
    assert joined("The cat ", "sat", [1], unsent=" ") == "The cat sat"
    assert joined("a:\n\n", "\n\n- b", [1, 1], unsent="\n\n") == "a:\n\n- b"


def test_a_repetition_is_found_when_its_blanks_differ() -> None:
    line = "Line one is here."
    assert joined(f"{line}\n\n", f"{line}\nLine two.", [5] * 4, unsent="\n\n") == f"{line}\n\nLine two."
    assert joined(f"{line} ", f"{line}\n\nLine two.", [1] * 30, unsent=" ") == f"{line} \n\nLine two."
    assert (
        joined("Line one is here, and", "\nLine one is here, and two.", [1, 3])
        == "Line one is here, and two."
    )
    assert joined("I ", "It was", [1], unsent=" ") == "I It was"
