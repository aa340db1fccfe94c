"""Highlights code: line by line while it arrives, and once more as a whole."""

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from antiphon.tui.figures import shorten
from antiphon.tui.markdown.spans import Line, Span, chop, pad
from antiphon.tui.palette import Palette

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_WHOLE = 20_000
"""Characters of code that are coloured once more when the block is complete."""
_GROUP = 200


class CodeBlock:
    """Draws a block of code at one width."""

    def __init__(self, language: str, palette: Palette, width: int, mark: str = "") -> None:
        self._language = language
        self._palette = palette
        self._width = width
        self._mark = mark
        self._lexer = _lexer(language)

    def head(self) -> list[Line]:
        """Draws the line above the code: its language, and the mark to click for a copy."""
        palette = self._palette
        name = shorten(self._language, self._width - 9) or "code"
        if not self._mark:
            return [pad([Segment(f"  {name}", palette.code_dim)], self._width, palette.code_dim)]
        room = max(1, self._width - len(name) - 8)
        link = palette.code_dim + Style.from_meta({"copy": self._mark})
        return [[Segment(f"  {name}{' ' * room}", palette.code_dim), Segment("copy  ", link)]]

    def lines(self, lines: list[str]) -> list[Line]:
        """Draws some lines of the block, highlighted."""
        if not lines:
            return []
        return self._draw(
            _highlight("\n".join(lines), self._lexer, self._palette, self._palette.code)[: len(lines)]
        )

    def draw_open_line(self, line: str) -> list[Line]:
        """Draws the line that is still growing."""
        return self._draw([[(line, self._palette.code)]])

    def whole(self, lines: list[str]) -> list[Line]:
        """Draws all lines; only here strings over several lines get their colour."""
        if sum(map(len, lines)) <= _WHOLE:
            return self.lines(lines)
        return [drawn for at in range(0, len(lines), _GROUP) for drawn in self.lines(lines[at : at + _GROUP])]

    def _draw(self, lines: list[list[Span]]) -> list[Line]:
        base = self._palette.code
        inner = self._width - 4
        return [
            pad([Segment("  ", base), *piece], self._width, base)
            for spans in lines
            for piece in chop(spans, inner)
        ]


def highlight(text: str, language: str, palette: Palette) -> Text:
    """Highlights code on the plain background, for other widgets."""
    found = Text()
    for n, line in enumerate(_highlight(text, _lexer(language), palette, palette.text)):
        found.append("\n" if n else "")
        for piece, style in line:
            found.append(piece, style)
    return found


def _highlight(text: str, lexer: "Lexer | None", palette: Palette, base: Style) -> list[list[Span]]:
    if lexer is None:
        return [[(line, base)] for line in text.split("\n")]
    lines: list[list[Span]] = [[]]
    for token, value in lexer.get_tokens(text):
        style = _style(token, palette, base)
        first, *others = value.split("\n")
        lines[-1].append((first, style))
        lines += [[(one, style)] for one in others]
    return lines


@lru_cache(maxsize=1024)
def _style(token: tuple[str, ...], palette: Palette, base: Style) -> Style:
    name = ".".join(token)
    if name.startswith(("Comment", "Literal.String.Doc")):
        return base + Style(color=palette.soft, italic=True)
    if name.startswith(("Keyword", "Name.Tag", "Operator.Word", "Generic.Heading")):
        return base + Style(color=palette.accent)
    if name.startswith(("Literal.String", "Generic.Inserted")):
        return base + Style(color=palette.string)
    if name.startswith("Generic.Deleted"):
        return base + Style(color=palette.bad)
    if name.startswith(("Name.Function", "Name.Class", "Name.Decorator")):
        return base + Style(bold=True)
    if name.startswith("Literal.Number"):
        return base + Style(color=palette.warning)
    return base


@lru_cache(maxsize=64)
def _lexer(language: str) -> "Lexer | None":
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
