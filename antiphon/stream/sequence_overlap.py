"""Where the end of one history is the beginning of another, found in one pass over both."""

from collections.abc import Hashable, Iterator, Sequence


def overlaps(end: Sequence[Hashable], start: Sequence[Hashable]) -> Iterator[int]:
    """How many of the last are the first of the other: every number that fits, the largest first.

    >>> list(overlaps("abcaba", "abaca"))
    [3, 1]
    """
    if not start:
        return
    back = [0] * len(start)  # how many of the first stand again just before each place
    for n in range(1, len(start)):
        k = back[n - 1]
        while k and start[k] != start[n]:
            k = back[k - 1]
        back[n] = k + (start[k] == start[n])
    k = 0
    for one in end[-len(start) :]:
        while k and (k == len(start) or start[k] != one):
            k = back[k - 1]
        k += start[k] == one
    while k:
        yield k
        k = back[k - 1]
