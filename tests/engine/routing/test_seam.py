"""Where one text goes on with another: no gap, no repetition, however the pieces fall."""

from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.engine.routing.seam import LEAST, Seam

WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "and", "42", "ä", "."]), max_size=60)


def pieces(text: str, sizes: list[int]) -> list[str]:
    found, at = [], 0
    for size in sizes:
        found.append(text[at : at + size])
        at += size
    return [*found, text[at:]]


def joined(before: str, after: str, sizes: list[int], unsent: str = "") -> str:
    seam = Seam(before, unsent)
    said = "".join([seam.feed(piece) for piece in pieces(after, sizes)])
    return before + said + ("" if seam.is_closed else seam.close())


def longest_overlap(before: str, after: str) -> int:
    least = min(LEAST, len(before))
    lengths = [n for n in range(least, min(len(before), len(after)) + 1) if before.endswith(after[:n])]
    return max(lengths, default=0)


def longest_repetition(before: str, after: str) -> int:
    """The longest overlap, or else the one after the blanks that `after` begins with."""
    blanks = len(after) - len(after.lstrip())
    later = longest_overlap(before, after[blanks:])
    return longest_overlap(before, after) or (blanks + later if later >= LEAST else 0)


@given(st.text("abc ", max_size=40), st.text("abc ", max_size=40), st.lists(st.integers(1, 5), max_size=30))
def test_the_longest_overlap_is_said_once_however_the_pieces_fall(
    before: str, after: str, sizes: list[int]
) -> None:
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
    if overlap >= min(LEAST, at) or overlap == 0:
        assert joined(before, after, sizes) == text


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
