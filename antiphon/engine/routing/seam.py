"""Where one target's text ends and another's goes on: what is said twice there is said once.

Whoever goes on with a text tends to repeat its last words, or all of it. The overlap is the longest beginning
of the new text that is also the end of the old one. Short ones are no overlap but chance ("1000" and "000"),
unless they are the whole of the old text.
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
        return self._unsent.startswith(held) or before.find(held, 0, len(before) - 1) >= 0

    def _overlap(self, held: str) -> int:
        before = self._before
        start = held[: min(LEAST, len(before))]
        at = before.find(start) if len(start) == min(LEAST, len(before)) else -1
        while at >= 0:
            if held.startswith(before[at:]):
                return len(before) - at
            at = before.find(start, at + 1)
        return len(self._unsent) if self._unsent and held.startswith(self._unsent) else 0
