"""Where one target's text ends and another's goes on: what is said twice there is said once.

A target that goes on with a text repeats its last words, as it was asked to, or begins anew with all of it.
The overlap is the longest beginning of the new text that is also the end of the old one. Short ones are no
overlap but chance ("1000" and "000"), unless they are the whole of the old text. Blanks before the overlap
and after it may differ. A target that was given the text as its own beginning was asked for no repetition:
nothing but the whole text, if that is no short one, is a repetition then.
"""

from io import StringIO

from antiphon.stream.answer_limit import MOST_HELD, AnswerTooLong, length_of

LEAST = 8
"""Characters."""
MOST = 4000
"""An overlap of more characters than this is looked for as the whole of the old text alone."""
_ANCHOR = 60
_TOO_MUCH = (
    f"where the answer should continue, more than {MOST_HELD:,} bytes repeat earlier text, or are blank, "
    "so its end is missing"
)


def last_words(text: str) -> str:
    """What a target is asked to begin with: the last words of the text, whole ones."""
    if len(text) <= _ANCHOR:
        return text
    tail = text[-_ANCHOR:]
    words = tail.split(None, 1)
    return words[1] if len(words) == 2 else tail


class Seam:
    """Give it the new text piece by piece; it holds back what may still turn out to be a repetition.

    Each piece is looked at once, so a long repetition takes no longer than the text that it repeats.
    """

    def __init__(self, before: str, unsent: str = "", anchor: str = "") -> None:
        """`before` is what the client has; `unsent` the blanks at its end that the target was not given.

        `anchor` is what the target was asked to begin with; empty if it was asked for no repetition.
        """
        self._before = before
        self._unsent = unsent
        self._anchor = anchor
        self._tail = before[-MOST:] if anchor else ""
        self._held = StringIO()
        self._size = 0
        self._with_blanks = self._repetition()
        self._words: _Repetition | None = None  # the same without the blanks before it, once there are words
        self.is_closed = False
        """Nothing is held back any more."""
        self.removed = 0
        """How many characters were repetitions."""

    def feed(self, text: str) -> str:
        """As much of it as is known to be new; raises `AnswerTooLong` if too much would be held back."""
        if self.is_closed or not text:
            return text
        self._held.write(text)
        self._size += length_of(text)
        if not self._may_grow(text):
            return self.close()
        if self._size > MOST_HELD:
            raise AnswerTooLong(_TOO_MUCH)
        return ""

    def close(self, *, is_cut: bool = False) -> str:
        """Nothing more will come that could decide it; `is_cut` says that the target had not come to its end.

        What begins the repetition that was asked for is no new text, unless it is so short that it may be
        chance. Of a target that was cut nothing is taken that may have been one: its answer is not whole
        anyway, so nothing is missing in the middle of it.
        """
        held, self._held, self.is_closed = self._held.getvalue(), StringIO(), True
        words = held.lstrip()
        is_repetition = is_cut or (len(words) >= LEAST and self._anchor.startswith(words))
        self.removed = len(held) if is_repetition else self._overlap(held)
        return held[self.removed :]

    def _may_grow(self, text: str) -> bool:
        """Does what is held, with this text at its end, stand in the old text, so that more could follow?"""
        self._with_blanks.add(text)
        if self._words is not None:
            self._words.add(text)
        elif words := text.lstrip():
            self._words = self._repetition()
            self._words.add(words)
        if self._words is None:
            return True
        return self._with_blanks.may_grow() or self._words.may_grow()

    def _repetition(self) -> "_Repetition":
        is_looked_for = bool(self._anchor) or len(self._before) - len(self._unsent) >= LEAST
        return _Repetition(self._before if is_looked_for else "", self._tail)

    def _overlap(self, held: str) -> int:
        before = self._before
        if self._anchor and held.startswith(before):
            return len(before)
        blanks = len(held) - len(held.lstrip())
        for start in (0, blanks):
            for end in (before, before[: len(before) - len(self._unsent)]):
                if repeated := self._measure_repetition(end, held[start:]):
                    return self._without_blanks(held, start + repeated)
        return self._without_blanks(held, 0)

    def _measure_repetition(self, end: str, held: str) -> int:
        """How much of the old text, which may lack its blanks at the `end`, `held` begins with."""
        if len(end) >= LEAST and held.startswith(end):
            return len(end)
        return _overlap_of(end[-MOST:], held) if self._anchor else 0

    def _without_blanks(self, held: str, at: int) -> int:
        """Where the text goes on after the blanks that the client has already."""
        return at + _common_beginning(self._unsent, held[at:])


class _Repetition:
    """Words that may repeat the old text from its start, or some words of its end."""

    __slots__ = ("_before", "_recent", "_said", "_tail")

    def __init__(self, before: str, tail: str) -> None:
        self._before: str | None = before
        self._said = 0
        self._tail = tail
        self._recent: str | None = ""  # as long as they may stand in the tail

    def add(self, text: str) -> None:
        if self._before is not None and not self._before.startswith(text, self._said):
            self._before = None
        self._said += len(text)
        if self._recent is not None:
            recent = self._recent + text if self._said <= MOST else ""
            is_there = bool(recent) and self._tail.find(recent, 0, len(self._tail) - 1) >= 0
            self._recent = recent if is_there else None

    def may_grow(self) -> bool:
        """May more words follow that belong to the repetition?"""
        return self._recent is not None or (self._before is not None and self._said < len(self._before))


def _common_beginning(one: str, other: str) -> int:
    """How many characters two texts begin with that are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if other.startswith(one[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _overlap_of(before: str, held: str) -> int:
    """How long the longest beginning of `held` is that `before` ends with; 0 if that may be chance."""
    start = held[:LEAST]
    at = before.find(start) if len(start) == LEAST else -1
    while at >= 0:
        if held.startswith(before[at:]):
            return len(before) - at
        at = before.find(start, at + 1)
    return 0
