"""A text in Markdown as lines, kept up to date while the text grows."""

from time import perf_counter

from antiphon.tui.markdown import tables
from antiphon.tui.markdown.code import CodeBlock
from antiphon.tui.markdown.layout import Layout, mended
from antiphon.tui.markdown.source import MarkdownSource, Piece
from antiphon.tui.markdown.spans import Line
from antiphon.tui.palette import DARK, Palette


class MarkdownDocument:
    """`feed` it, then ask for its `lines`; the list that comes back is the same one, brought up to date.

    What is finished is laid out once. An open block of code and an open table grow by lines.
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
        """The code of every fenced block."""
        return [piece.text for piece in self._source.pieces if piece.kind == "fence"]

    def forget(self) -> None:
        """Drop what was laid out; it is made again when it is asked for."""
        self._shape = None
        self._lines = []

    def lines(self, width: int, palette: Palette, until: float = float("inf")) -> tuple[list[Line], bool]:
        """The lines, and whether that is all: laying out stops when the clock passes `until`."""
        count = self.finished(width, palette, until)
        if count is None:
            return self._lines, False
        self._draw_open(Layout(width, palette))
        return self._lines, True

    def finished(self, width: int, palette: Palette, until: float = float("inf")) -> int | None:
        """Lays out what cannot change any more: how many of the `lines` that are; None when time ran out."""
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
        """What a click on the next block of code says: the number of that block."""
        return str(self._fences) if self._can_copy else ""

    def _gap(self, piece: Piece) -> bool:
        return self._start > 0 and not piece.joined

    def _put(self, lines: list[Line], gap: bool) -> None:
        """Lines in the place of everything that is not finished."""
        del self._lines[self._start :]
        if gap and lines:
            self._lines.append([])
        self._lines += lines

    def _draw_open(self, layout: Layout) -> None:
        piece, tail = self._source.open, self._source.tail
        if piece is None:
            self._put(layout.text(mended(tail)) if tail.strip() else [], self._start > 0)
        elif piece.kind == "fence":
            self._grow(piece, CodeBlock(piece.language, layout.palette, layout.width, self._mark()), tail)
        elif piece.kind == "table" and len(piece.lines) > 1:
            self._grow_table(piece, layout, tail)
        else:
            text = "\n".join([*piece.lines, tail] if tail else piece.lines)
            self._put(layout.text(mended(text)), self._gap(piece))

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
            self._lines += block.unfinished(tail)

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
    """Import what reads Markdown and colours code, so that the first answer does not wait for it."""
    document = MarkdownDocument()
    document.feed("**a**\n\n```python\nb = 1\n```\n")
    document.lines(80, DARK)
