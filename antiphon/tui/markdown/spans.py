"""Breaks styled text into lines of a width in terminal cells."""

import re
from collections.abc import Iterable

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style

Span = tuple[str, Style]
Line = list[Segment]

_WORDS = re.compile(r"\n|[^\S\n]+|[^\s]+")


def width_of(line: Line) -> int:
    return sum(cell_len(segment.text) for segment in line)


def wrap(spans: Iterable[Span], width: int) -> list[Line]:
    """Breaks text at spaces, and inside of words that are too long, into lines of this width."""
    wrapping = _Wrapping(max(width, 4))
    for text, style in spans:
        for piece in _WORDS.findall(text):
            if piece == "\n":
                wrapping.end_word()
                wrapping.end_line()
            elif piece.isspace():
                wrapping.end_word()
                wrapping.space(style)
            else:
                wrapping.word.append((piece, style))
                wrapping.word_width += len(piece) if piece.isascii() else cell_len(piece)
    wrapping.end_word()
    wrapping.end_line()
    return wrapping.lines


class _Wrapping:
    """The lines so far, the line that is being filled, and the word that is being read."""

    def __init__(self, width: int) -> None:
        self.lines: list[Line] = []
        self.word: list[Span] = []
        self.word_width = 0
        self._width = width
        self._line: list[Span] = []
        self._used = 0

    def space(self, style: Style) -> None:
        if self._used:
            self._add(" ", style)
            self._used += 1

    def end_word(self) -> None:
        if not self.word:
            return
        if self._used and self._used + self.word_width > self._width:
            self.end_line()
        if self.word_width > self._width:
            *whole, last = chop(self.word, self._width)
            self.lines += whole
            self._line = [(segment.text, segment.style or Style()) for segment in last]
            self._used = width_of(last)
        else:
            for text, style in self.word:
                self._add(text, style)
            self._used += self.word_width
        self.word = []
        self.word_width = 0

    def end_line(self) -> None:
        line = self._line
        if line and line[-1][0].endswith(" "):
            text, style = line.pop()
            if text := text.rstrip(" "):
                line.append((text, style))
        self.lines.append([Segment(text, style) for text, style in line])
        self._line = []
        self._used = 0

    def _add(self, text: str, style: Style) -> None:
        line = self._line
        if line and line[-1][1] is style:
            line[-1] = (line[-1][0] + text, style)
        else:
            line.append((text, style))


def chop(spans: Iterable[Span], width: int) -> list[Line]:
    """Breaks code into lines of this width, anywhere, and keeps every space."""
    width = max(width, 4)
    lines: list[Line] = [[]]
    used = 0
    for text, style in spans:
        while text:
            if used + cell_len(text) <= width:
                lines[-1].append(Segment(text, style))
                used += cell_len(text)
                break
            head = chop_cells(text, width - used)[0] if used < width else ""
            if head and used + cell_len(head) <= width:
                lines[-1].append(Segment(head, style))
                text = text[len(head) :]
            lines.append([])
            used = 0
    return lines


def kept_lines(text: str, style: Style, width: int) -> list[Line]:
    """Keeps the line breaks and the indentation of plain text, and wraps lines that are too long."""
    lines: list[Line] = []
    for line in text.expandtabs(4).split("\n"):
        if cell_len(line) <= width:
            lines.append([Segment(line, style)] if line else [])
            continue
        indent = line[: len(line) - len(line.lstrip())][: max(0, width // 2)]
        margin = [Segment(indent, style)] if indent else []
        lines += [[*margin, *piece] for piece in wrap([(line, style)], width - len(indent))]
    return lines


def pad(line: Line, width: int, style: Style) -> Line:
    """Pads the line with spaces to this width."""
    missing = width - width_of(line)
    return [*line, Segment(" " * missing, style)] if missing > 0 else line
