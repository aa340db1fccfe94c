"""Where one target's text ends and another's goes on: what is said twice there is said once.

Whoever goes on with a text repeats its last words, because that was asked for, or begins anew with all of it.
The overlap is the longest beginning of the new text that is also the end of the old one. Short ones are no
overlap but chance ("1000" and "000"), unless they are the whole of the old text. Blanks before the overlap
and after it may differ. A target that was given the text as its own beginning was asked for no repetition:
nothing but the whole text, if that is no short one, is a repetition then.
"""

LEAST = 8
"""Characters."""
MOST = 4000
"""An overlap of more characters than this is looked for as the whole of the old text alone."""
_ANCHOR = 60


def last_words(text: str) -> str:
    """What a target is asked to begin with: the last words of the text, whole ones."""
    if len(text) <= _ANCHOR:
        return text
    tail = text[-_ANCHOR:]
    words = tail.split(None, 1)
    return words[1] if len(words) == 2 else tail


class Seam:
    """Give it the new text piece by piece; it holds back what may still turn out to be a repetition."""

    def __init__(self, before: str, unsent: str = "", anchor: str = "") -> None:
        """`before` is what the client has; `unsent` the blanks at its end that the target was not given.

        `anchor` is what the target was asked to begin with; empty if it was asked for no repetition.
        """
        self._before = before
        self._unsent = unsent
        self._anchor = anchor
        self._tail = before[-MOST:] if anchor else ""
        self._held = ""
        self.is_closed = False
        """Nothing is held back any more."""
        self.removed = 0
        """How many characters were repetitions."""

    def feed(self, text: str) -> str:
        """As much of it as is known to be new."""
        if self.is_closed:
            return text
        self._held += text
        if self._may_grow():
            return ""
        return self.close()

    def close(self, *, is_cut: bool = False) -> str:
        """Nothing more will come that could decide it; `is_cut` says that the target had not come to its end.

        What begins the repetition that was asked for is no new text, unless it is so short that it may be
        chance. Of a target that was cut nothing is taken that may have been one: its answer is not whole
        anyway, so nothing is missing in the middle of it.
        """
        held, self._held, self.is_closed = self._held, "", True
        words = held.lstrip()
        is_repetition = is_cut or (len(words) >= LEAST and self._anchor.startswith(words))
        self.removed = len(held) if is_repetition else self._overlap(held)
        return held[self.removed :]

    def _may_grow(self) -> bool:
        """Does what is held stand in the old text, so that more of it could follow?"""
        held = self._held
        if self._unsent.startswith(held) or not (words := held.lstrip()):
            return True
        return any(self._is_begun(one) for one in (held, words))

    def _is_begun(self, words: str) -> bool:
        before, tail = self._before, self._tail
        if len(words) < len(before) and before.startswith(words):
            return bool(self._anchor) or len(before) - len(self._unsent) >= LEAST
        return tail.find(words, 0, len(tail) - 1) >= 0

    def _overlap(self, held: str) -> int:
        before = self._before
        if self._anchor and held.startswith(before):
            return len(before)
        blanks = len(held) - len(held.lstrip())
        for start in (0, blanks):
            for end in (before, before[: len(before) - len(self._unsent)]):
                if repeated := self._repeated(end, held[start:]):
                    return self._without_blanks(held, start + repeated)
        return self._without_blanks(held, 0)

    def _repeated(self, end: str, held: str) -> int:
        """How much of the old text, which may lack its blanks at the `end`, `held` begins with."""
        if len(end) >= LEAST and held.startswith(end):
            return len(end)
        return _overlap_of(end[-MOST:], held) if self._anchor else 0

    def _without_blanks(self, held: str, at: int) -> int:
        """Where the text goes on after the blanks that the client has already."""
        for ours, theirs in zip(self._unsent, held[at:], strict=False):
            if ours != theirs:
                break
            at += 1
        return at


def _overlap_of(before: str, held: str) -> int:
    """How long the longest beginning of `held` is that `before` ends with; 0 if that may be chance."""
    start = held[:LEAST]
    at = before.find(start) if len(start) == LEAST else -1
    while at >= 0:
        if held.startswith(before[at:]):
            return len(before) - at
        at = before.find(start, at + 1)
    return 0
