"""How fast a target is: a moving estimate of the time to its first words, and of its tokens a second."""

from antiphon.engine.routing.cells import Cell, Cells

SIZE = 2
_NEW = 0.2
"""What the newest answer counts for."""
_SHORTEST = 0.05
"""An answer that came within so many seconds says nothing about tokens a second."""


class Estimates:
    """Nothing is known as long as a number is 0."""

    __slots__ = ("cells",)

    first_token = Cell(0)
    """Seconds."""
    speed = Cell(1)
    """Tokens a second."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    def answered(self, first_token: float, tokens: int, seconds: float) -> None:
        """An answer came: its first words after so long, then so many tokens in so many seconds."""
        cells = self.cells
        cells[0] = _moved(cells[0], max(first_token, 1e-6))
        if tokens and seconds >= _SHORTEST:
            cells[1] = _moved(cells[1], tokens / seconds)

    def duration(self, tokens: int) -> float | None:
        """How many seconds an answer of so many tokens would take; None if nothing is known."""
        if not self.first_token:
            return None
        return self.first_token + (tokens / self.speed if self.speed else 0.0)


def _moved(before: float, new: float) -> float:
    return new if not before else before + _NEW * (new - before)
