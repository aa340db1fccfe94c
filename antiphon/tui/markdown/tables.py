"""Lays out tables of Markdown: narrow columns, and wrapped cells where the room is short."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment

from antiphon.tui.markdown.spans import Line, Span, wrap
from antiphon.tui.palette import Palette

_PIPE = re.compile(r"(?<!\\)\|")
_GAP = 3
MEASURED = 64
"""Rows that decide how wide the columns are; a table that is longer keeps the widths."""

_Inline = Callable[[str], list[Span]]


@dataclass(frozen=True, slots=True)
class Columns:
    widths: tuple[int, ...]
    rights: tuple[bool, ...]


def cells(line: str) -> list[str]:
    found = _PIPE.split(line.strip().removeprefix("|"))
    if found and not found[-1].strip():
        found.pop()
    return [cell.strip().replace("\\|", "|") for cell in found]


def columns(lines: Sequence[str], width: int, inline: _Inline) -> Columns:
    """Returns the widths of the columns; shrinks the widest first if they do not fit."""
    rows = [cells(line) for line in [lines[0], *lines[2 : 2 + MEASURED]]]
    count = max(1, len(rows[0]))
    widths = [3] * count
    for row in rows:
        for n, cell in enumerate(row[:count]):
            widths[n] = max(widths[n], sum(cell_len(text) for text, _ in inline(cell)))
    room = max(count * 3, width - _GAP * (count - 1))
    while sum(widths) > room and max(widths) > 3:
        widest = max(range(count), key=widths.__getitem__)
        widths[widest] -= max(1, min(widths[widest] - 3, sum(widths) - room) // 4)
    marks = cells(lines[1]) if len(lines) > 1 else []
    rights = [mark.endswith(":") and not mark.startswith(":") for mark in marks]
    return Columns(tuple(widths), tuple((rights + [False] * count)[:count]))


def row(line: str, shape: Columns, palette: Palette, inline: _Inline, *, head: bool = False) -> list[Line]:
    """Draws one row with as many lines as its highest cell needs."""
    given = cells(line)
    drawn: list[list[Line]] = []
    for n, width in enumerate(shape.widths):
        spans = inline(given[n]) if n < len(given) else []
        if head:
            spans = [(text, style + palette.heading) for text, style in spans]
        drawn.append(wrap(spans, width))
    lines: list[Line] = []
    for at in range(max(len(cell) for cell in drawn)):
        found: Line = []
        for n, (cell, width) in enumerate(zip(drawn, shape.widths, strict=True)):
            part = cell[at] if at < len(cell) else []
            space = Segment(" " * max(0, width - sum(cell_len(one.text) for one in part)), palette.text)
            found += [space, *part] if shape.rights[n] else [*part, space]
            if n < len(shape.widths) - 1:
                found.append(Segment(" " * _GAP, palette.text))
        lines.append(found)
    return lines


def rule(shape: Columns, palette: Palette) -> Line:
    return [Segment((" " * _GAP).join("─" * width for width in shape.widths), palette.rule)]


def table(lines: Sequence[str], width: int, palette: Palette, inline: _Inline) -> list[Line]:
    shape = columns(lines, width, inline)
    drawn = [*row(lines[0], shape, palette, inline, head=True), rule(shape, palette)]
    for line in lines[2:]:
        drawn += row(line, shape, palette, inline)
    return drawn
