"""How fast a target is: a moving estimate of the time to its first words, and of its tokens a second."""

from antiphon.engine.routing.shared_numbers import CellAttribute, Cells

SIZE = 4
EXPECTED_TOKENS = 200
"""How long an answer is taken to be before there is one."""
OLD = 300.0
"""After so many seconds without an answer an estimate may not be true any more."""
PATIENCE = 10.0
"""For so many seconds a request that measures the target is waited for, before another one does."""
_NEW = 0.2
"""What the newest answer counts for."""
_FEW = 50
"""So many tokens at least tell something about tokens a second."""
_SHORTEST = 0.05
"""Words that came within so many seconds say nothing about tokens a second."""


class Estimates:
    """Nothing is known as long as a number is 0. Times are those of the clock that breakers go by."""

    __slots__ = ("cells",)

    first_token = CellAttribute(0)
    """Seconds; known from answers of which somebody saw the beginning, and guessed from short ones."""
    speed = CellAttribute(1)
    """Tokens a second."""
    _answered_at = CellAttribute(2)
    _asked_at = CellAttribute(3)

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    def note_question(self, now: float) -> None:
        self._asked_at = now

    def note_answer(self, now: float, first_token: float, tokens: int, seconds: float) -> None:
        """An answer came: its first words after so long, then so many tokens in so many seconds."""
        self._begin(now)
        self.first_token = _smooth(self.first_token, max(first_token, 1e-6))
        if tokens and seconds >= _SHORTEST:
            self.speed = _smooth(self.speed, tokens / seconds)

    def note_whole_answer(self, now: float, tokens: int, seconds: float) -> None:
        """An answer came as a whole, after so long: how long its first words took is only estimated.

        Of a short answer that is all, and of one whose tokens no provider has counted as well.
        """
        self._begin(now)
        speaking = seconds - self.first_token
        if tokens >= _FEW and speaking >= _SHORTEST:
            self.speed = _smooth(self.speed, tokens / speaking)
        else:
            spoken = tokens / self.speed if self.speed else 0.0
            self.first_token = _smooth(self.first_token, max(seconds - spoken, 1e-6))

    def _begin(self, now: float) -> None:
        """What was known too long ago does not count any more."""
        if self.is_old(now):
            self.first_token = self.speed = 0.0
        self._answered_at = now

    def is_old(self, now: float) -> bool:
        """Has it not been answered for long?"""
        return now - self._answered_at >= OLD

    def is_measured(self, now: float) -> bool:
        """Was it asked a moment ago, so that its answer may still come?"""
        return bool(self._asked_at) and 0 <= now - self._asked_at < PATIENCE

    def duration(self, tokens: int = EXPECTED_TOKENS) -> float | None:
        """How many seconds an answer of so many tokens would take; None if nothing is known."""
        if not self._answered_at:
            return None
        return self.first_token + (tokens / self.speed if self.speed else 0.0)


def _smooth(before: float, measured: float) -> float:
    return before + _NEW * (measured - before) if before else measured
