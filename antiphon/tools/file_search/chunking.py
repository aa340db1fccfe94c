"""Cuts a text into chunks that overlap, between words, by an estimate of its tokens."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

# A word with the space before it; a sign, or a letter of a script without spaces, stands for itself.
_UNIT = re.compile(r"\s*(?:[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0003ffff]{1,24}|\S|\Z)")
_LETTERS = 5
"""How many letters of a word are one token, about."""


class Chunking(NamedTuple):
    size: int = 800
    """Tokens of a chunk, at most."""
    overlap: int = 400
    """Tokens that a chunk has in common with the one before, at most."""


def spans(text: str, chunking: Chunking) -> Iterator[tuple[int, int]]:
    """Where each chunk begins and ends. Together they are the whole text; a blank one has none."""
    if not text or text.isspace():
        return
    ends, totals = _units(text)  # where each word ends, and how many tokens there are up to it
    first = 0
    while first < len(ends):
        before = totals[first - 1] if first else 0
        last = max(first, bisect_right(totals, before + chunking.size) - 1)
        yield (ends[first - 1] if first else 0), ends[last]
        if last + 1 == len(ends):
            return
        first = max(first + 1, bisect_left(totals, totals[last] - chunking.overlap) + 1)


def _units(text: str) -> tuple[array[int], array[int]]:
    ends, totals, total = array("q"), array("q"), 0
    for unit in _UNIT.finditer(text):
        start, end = unit.span()
        if start == end:
            break
        total += max(1, -(-len(unit[0].lstrip()) // _LETTERS))
        ends.append(end)
        totals.append(total)
    return ends, totals
