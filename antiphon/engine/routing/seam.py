"""Where one target's text ends and another's goes on: what is said twice there is said once.

Whoever goes on with a text tends to repeat its last words, or all of it. The overlap is the longest beginning
of the new text that is also the end of the old one. Short ones are no overlap but chance ("1000" and "000"),
unless they are the whole of the old text. Blanks before the overlap and after it may differ.
"""

LEAST = 8
"""Characters."""


class Seam:
    """Give it the new text piece by piece; it holds back what may still turn out to be a repetition."""

    def __init__(self, before: str, unsent: str = "") -> None:
        """`before` is what the client has; `unsent` the blanks at its end that the target was not given."""
        self._before = before
        self._unsent = unsent
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

    def close(self) -> str:
        """Nothing more will come that could decide it."""
        held, self._held, self.is_closed = self._held, "", True
        self.removed = self._overlap(held)
        return held[self.removed :]

    def _may_grow(self) -> bool:
        """Does what is held stand in the old text, so that more of it could follow?"""
        held, before = self._held, self._before
        if self._unsent.startswith(held) or not (words := held.lstrip()):
            return True
        return any(before.find(one, 0, len(before) - 1) >= 0 for one in (held, words))

    def _overlap(self, held: str) -> int:
        before = self._before
        if held.startswith(before):
            return len(before)
        blanks = len(held) - len(held.lstrip())
        for start in (0, blanks):
            for end in (before, before[: len(before) - len(self._unsent)]):
                if repeated := _repeated(end, held[start:]):
                    return self._without_blanks(held, start + repeated)
        return self._without_blanks(held, 0)

    def _without_blanks(self, held: str, at: int) -> int:
        """Where the text goes on after the blanks that the client has already."""
        for ours, theirs in zip(self._unsent, held[at:], strict=False):
            if ours != theirs:
                break
            at += 1
        return at


def _repeated(before: str, held: str) -> int:
    """How long the longest beginning of `held` is that `before` ends with; 0 if that may be chance."""
    start = held[:LEAST]
    at = before.find(start) if len(start) == LEAST else -1
    while at >= 0:
        if held.startswith(before[at:]):
            return len(before) - at
        at = before.find(start, at + 1)
    return 0
