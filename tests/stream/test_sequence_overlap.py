"""Where the end of one history is the beginning of another."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from antiphon.stream import sequence_overlap as module
from antiphon.stream.sequence_overlap import overlaps

few = st.text(alphabet="ab", max_size=12)


@given(few, few)
def test_every_length_that_fits_is_found_the_longest_first(end: str, start: str) -> None:
    fits = [n for n in range(min(len(end), len(start)), 0, -1) if end.endswith(start[:n])]
    assert list(overlaps(end, start)) == fits


def test_a_long_history_is_looked_through_once() -> None:
    """A search that began anew for each length would compare a hundred million times."""
    assert next(overlaps("a" * 20_000, "a" * 10_000 + "b" * 10_000)) == 10_000


def test_the_examples_are_right() -> None:
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0
