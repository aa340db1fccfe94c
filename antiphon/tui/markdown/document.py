"""Keeps the lines of a growing Markdown text up to date."""

from time import perf_counter

from antiphon.tui.markdown import tables
from antiphon.tui.markdown.code import CodeBlock
from antiphon.tui.markdown.layout import Layout, close_markup
from antiphon.tui.markdown.source import MarkdownSource, Piece
from antiphon.tui.markdown.spans import Line
from antiphon.tui.palette import DARK, Palette


class MarkdownDocument:
    """`feed` it, then ask for its `lines`; the list that comes back is the same one, brought up to date.

    Each finished part is laid out once. An open block of code and an open table grow by lines.
    """

    def __init__(self, *, can_copy: bool = True) -> None:
        self._can_copy = can_copy
        """Can the user click on the word "copy" above a block of code?"""
        self._source = MarkdownSource()
        self._shape: tuple[int, str] | None = None
        self._lines: list[Line] = []
        self._done = 0
        self._fences = 0
        self._start = 0
        self._open_lines = 0
        self._fixed = 0
        self._columns: tables.Columns | None = None

    def feed(self, text: str) -> None:
        self._source.feed(text)

    def close(self) -> None:
        self._source.close()

    @property
    def blocks(self) -> list[str]:
        """Returns the code of every fenced block."""
        return [piece.text for piece in self._source.pieces if piece.kind == "fence"]

    def forget(self) -> None:
        """Drops the lines; the next call of `lines` lays them out again."""
        self._shape = None
        self._lines = []

    def lines(self, width: int, palette: Palette, until: float = float("inf")) -> tuple[list[Line], bool]:
        """Returns the lines, and whether they are complete: layout stops when the clock passes `until`."""
        count = self.lay_out_finished(width, palette, until)
        if count is None:
            return self._lines, False
        self._draw_open(Layout(width, palette))
        return self._lines, True

    def lay_out_finished(self, width: int, palette: Palette, until: float = float("inf")) -> int | None:
        """Lays out the parts that can no longer change; returns their number of lines, None on a timeout."""
        if self._shape != (width, palette.name):
            self._shape = (width, palette.name)
            self._lines = []
            self._done = self._fences = self._start = self._open_lines = 0
            self._columns = None
        layout = Layout(width, palette)
        pieces = self._source.pieces
        while self._done < len(pieces) and pieces[self._done].closed:
            if perf_counter() > until:
                return None
            piece = pieces[self._done]
            self._put(layout.piece(piece, self._mark()), self._gap(piece))
            self._done += 1
            self._fences += piece.kind == "fence"
            self._start = len(self._lines)
            self._open_lines = 0
            self._columns = None
        return self._start

    def _mark(self) -> str:
        """Returns the mark for clicks on the next block of code: its number."""
        return str(self._fences) if self._can_copy else ""

    def _gap(self, piece: Piece) -> bool:
        return self._start > 0 and not piece.joined

    def _put(self, lines: list[Line], gap: bool) -> None:
        """Replaces the unfinished lines."""
        del self._lines[self._start :]
        if gap and lines:
            self._lines.append([])
        self._lines += lines

    def _draw_open(self, layout: Layout) -> None:
        piece, tail = self._source.open, self._source.tail
        if piece is None:
            self._put(layout.text(close_markup(tail)) if tail.strip() else [], self._start > 0)
        elif piece.kind == "fence":
            self._grow(piece, CodeBlock(piece.language, layout.palette, layout.width, self._mark()), tail)
        elif piece.kind == "table" and len(piece.lines) > 1:
            self._grow_table(piece, layout, tail)
        else:
            text = "\n".join([*piece.lines, tail] if tail else piece.lines)
            self._put(layout.text(close_markup(text)), self._gap(piece))

    def _grow(self, piece: Piece, block: CodeBlock, tail: str) -> None:
        if self._open_lines == 0:
            self._put(block.head(), self._gap(piece))
            self._fixed = len(self._lines)
        del self._lines[self._fixed :]
        known = max(0, self._open_lines - 1)
        self._lines += block.lines(piece.lines[known:])
        self._fixed = len(self._lines)
        self._open_lines = len(piece.lines) + 1
        if tail.strip(" `~"):
            self._lines += block.draw_open_line(tail)

    def _grow_table(self, piece: Piece, layout: Layout, tail: str) -> None:
        lines = [*piece.lines, tail] if "|" in tail.strip().strip("|") else piece.lines
        columns = self._columns
        if columns is None or self._open_lines < tables.MEASURED:
            columns = tables.columns(lines, layout.width, layout.inline)
        if self._open_lines == 0 or columns != self._columns:
            self._columns = columns
            self._put(
                [
                    *tables.row(lines[0], columns, layout.palette, layout.inline, head=True),
                    tables.rule(columns, layout.palette),
                ],
                self._gap(piece),
            )
            self._fixed = len(self._lines)
            self._open_lines = 2
        del self._lines[self._fixed :]
        for line in piece.lines[self._open_lines :]:
            self._lines += tables.row(line, columns, layout.palette, layout.inline)
        self._fixed = len(self._lines)
        self._open_lines = len(piece.lines)
        if len(lines) > len(piece.lines):
            self._lines += tables.row(tail, columns, layout.palette, layout.inline)


def warm_up() -> None:
    """Imports the Markdown parser and the highlighter, so that the first answer need not wait for them."""
    document = MarkdownDocument()
    document.feed("**a**\n\n```python\nb = 1\n```\n")
    document.lines(80, DARK)
