"""Cuts growing Markdown into pieces that can be laid out on their own.

A piece is a paragraph, a heading, one item of a list, a quotation, a table or a fenced block of code. Only
the last piece can change, so the caller keeps the layout of the others.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

_Kind = Literal["text", "item", "quote", "table", "fence"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*?)[ \t]*")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_ITEM = re.compile(r"( {0,3})([-*+]|\d{1,9}[.)])(?:( +)\S.*|[ \t]*)")
_QUOTE = re.compile(r" {0,3}>")
_DELIMITER = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")

LONGEST = 4096
"""Characters after which a paragraph without an end goes on in a new piece."""


@dataclass(slots=True)
class Piece:
    """A group of lines that are laid out together."""

    kind: _Kind
    lines: list[str] = field(default_factory=list)
    language: str = ""
    closed: bool = False
    joined: bool = False
    """It goes on where the piece before it stopped, without a gap."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class MarkdownSource:
    """Takes text by `feed`; `pieces` has everything up to the last line end, `tail` the rest."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.tail = ""
        self._fence = ""
        self._indent = 0
        self._blank = False
        self._size = 0

    @property
    def open(self) -> Piece | None:
        """Returns the piece that may still grow."""
        return self.pieces[-1] if self.pieces and not self.pieces[-1].closed else None

    def feed(self, text: str) -> None:
        *lines, self.tail = (self.tail + text).split("\n")
        for line in lines:
            self._take(line.rstrip("\r").expandtabs(4))
        if len(self.tail) > LONGEST and not self._fence:
            self._cut()

    def close(self) -> None:
        """Ends the text: the last line counts as a complete one."""
        tail, self.tail = self.tail, ""
        if tail:
            self._take(tail.expandtabs(4))
        self._end()

    def _take(self, line: str) -> None:
        if self._fence:
            self._take_code(line)
            return
        piece = self.open
        if not line.strip():
            if piece is not None and piece.kind == "item":
                self._blank = True
            else:
                self._end()
            return
        if piece is not None and piece.kind == "item" and self._is_indented(line):
            if self._blank:
                piece.lines.append("")
            self._add(piece, line)
        elif (fence := _FENCE.fullmatch(line)) is not None:
            self._begin("fence").language = fence[2].split()[0] if fence[2] else ""
            self._fence = fence[1]
        elif _RULE.fullmatch(line) or _HEADING.match(line):
            self._add(self._begin("text"), line)
            self._end()
        elif (item := _ITEM.fullmatch(line)) is not None:
            self._indent = len(item[1]) + len(item[2]) + min(len(item[3] or " "), 4)
            follows = bool(self.pieces) and self.pieces[-1].kind == "item"
            piece = self._begin("item")
            piece.joined = follows
            self._add(piece, line)
        else:
            self._take_words(line)

    def _take_words(self, line: str) -> None:
        piece = self.open
        if piece is not None and piece.kind == "item" and self._blank:
            piece = None
        if piece is not None and piece.kind == "table" and "|" not in line:
            piece = None
        if _QUOTE.match(line) and (piece is None or piece.kind != "quote"):
            piece = self._begin("quote")
        if piece is None:
            piece = self._begin("text")
        if piece.kind == "text" and _DELIMITER.fullmatch(line) and piece.lines and "|" in piece.lines[-1]:
            header = piece.lines.pop()
            if not piece.lines:
                self.pieces.pop()
            piece = self._begin("table")
            piece.lines.append(header)
        self._add(piece, line)
        if self._size > LONGEST and piece.kind == "text":
            self._end()
            self._begin("text").joined = True

    def _take_code(self, line: str) -> None:
        mark = self._fence
        found = line.strip()
        if found.startswith(mark) and not found.strip(mark[0]) and len(line) - len(line.lstrip()) < 4:
            self._fence = ""
            self._end()
        else:
            self.pieces[-1].lines.append(line)

    def _cut(self) -> None:
        """Cuts a very long line at its last gap, and makes the part before it a piece."""
        at = self.tail.rfind(" ", LONGEST // 2)
        at = at + 1 if at > 0 else len(self.tail)
        piece = self.open or self._begin("text")
        piece.lines.append(self.tail[:at])
        self.tail = self.tail[at:]
        self._end()
        self._begin("text").joined = True

    def _is_indented(self, line: str) -> bool:
        indent = len(line) - len(line.lstrip())
        if indent >= self._indent:
            return True
        # A line that just goes on belongs to the item too, unless a blank line or a block came between.
        return not (
            self._blank
            or _ITEM.fullmatch(line)
            or _FENCE.fullmatch(line)
            or _HEADING.match(line)
            or _RULE.fullmatch(line)
        )

    def _add(self, piece: Piece, line: str) -> None:
        self._blank = False
        piece.lines.append(line)
        self._size += len(line)

    def _begin(self, kind: _Kind) -> Piece:
        self._end()
        self._size = 0
        self._blank = False
        piece = Piece(kind)
        self.pieces.append(piece)
        return piece

    def _end(self) -> None:
        piece = self.open
        if piece is None:
            return
        piece.closed = True
        if not piece.lines and piece.kind != "fence":
            self.pieces.pop()
