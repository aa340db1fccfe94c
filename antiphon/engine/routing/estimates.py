"""How fast a target is: a moving estimate of the time to its first words, and of its tokens a second."""

from antiphon.engine.routing.shared_numbers import CellAttribute, Cells

SIZE = 2
_NEW = 0.2
"""What the newest answer counts for."""
_SHORTEST = 0.05
"""An answer that came within so many seconds says nothing about tokens a second."""


class Estimates:
    """Nothing is known as long as a number is 0."""

    __slots__ = ("cells",)

    first_token = CellAttribute(0)
    """Seconds."""
    speed = CellAttribute(1)
    """Tokens a second."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    def answered(self, first_token: float, tokens: int, seconds: float) -> None:
        """An answer came: its first words after so long, then so many tokens in so many seconds."""
        cells = self.cells
        before = cells[0]
        cells[0] = before + _NEW * (first_token - before) if before else max(first_token, 1e-6)
        if tokens and seconds >= _SHORTEST:
            before, now = cells[1], tokens / seconds
            cells[1] = before + _NEW * (now - before) if before else now

    def duration(self, tokens: int) -> float | None:
        """How many seconds an answer of so many tokens would take; None if nothing is known."""
        if not self.first_token:
            return None
        return self.first_token + (tokens / self.speed if self.speed else 0.0)
