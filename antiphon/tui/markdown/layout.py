"""Draws a piece of Markdown, parsed by markdown-it, as lines."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from antiphon.tui.markdown import tables
from antiphon.tui.markdown.code import CodeBlock
from antiphon.tui.markdown.source import Piece
from antiphon.tui.markdown.spans import Line, Span, wrap
from antiphon.tui.palette import Palette

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_BULLETS = "•◦▪"
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}

_REMEMBERED = 2000
_inline: dict[tuple[str, str], list[Span]] = {}  # cells of tables are measured and then drawn


@lru_cache(maxsize=1)
def _parser() -> "Callable[[str, bool], SyntaxTreeNode]":
    """Makes a parser of blocks, or of inline text; imports it late, so that the prompt appears sooner."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return lambda source, inline: SyntaxTreeNode(
        parser.parseInline(source) if inline else parser.parse(source)
    )


class Layout:
    """Draws pieces at one width, with one palette."""

    def __init__(self, width: int, palette: Palette) -> None:
        self.width = max(width, 12)
        self.palette = palette

    def piece(self, piece: Piece, mark: str = "") -> list[Line]:
        """Draws a whole piece."""
        match piece.kind:
            case "fence":
                block = CodeBlock(piece.language, self.palette, self.width, mark)
                return [*block.head(), *block.whole(piece.lines)]
            case "table":
                return tables.table(piece.lines, self.width, self.palette, self.inline)
            case _:
                return self.text(piece.text)

    def text(self, source: str) -> list[Line]:
        return self._blocks(_parser()(source, False).children, self.width, 0)

    def inline(self, source: str) -> list[Span]:
        """Draws inline text with its emphasis."""
        found = _inline.get((source, self.palette.name))
        if found is None:
            root = _parser()(source, True)
            found = self._spans(root.children[0].children, self.palette.text) if root.children else []
            if len(_inline) > _REMEMBERED:
                _inline.clear()
            _inline[source, self.palette.name] = found
        return found

    # --- blocks -------------------------------------------------------------------------------------------

    def _blocks(
        self, nodes: "Iterable[SyntaxTreeNode]", width: int, depth: int, gap: bool = True
    ) -> list[Line]:
        lines: list[Line] = []
        for node in nodes:
            drawn = self._block(node, width, depth)
            if lines and drawn and gap:
                lines.append([])
            lines += drawn
        return lines

    def _block(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Line]:
        palette = self.palette
        match node.type:
            case "heading":
                style = palette.heading + palette.mark if node.tag in ("h1", "h2") else palette.heading
                return wrap(self._inside(node, style), width)
            case "paragraph":
                return wrap(self._inside(node, palette.text), width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width, depth)
            case "blockquote":
                inner = self._blocks(node.children, width - 2, depth)
                return [[Segment("│ ", palette.mark), *line] for line in inner]
            case "fence" | "code_block":
                language = node.info.split()[0] if node.type == "fence" and node.info.strip() else ""
                block = CodeBlock(language, palette, width)
                return [*block.head(), *block.whole(node.content.removesuffix("\n").split("\n"))]
            case "hr":
                return [[Segment("─" * width, palette.rule)]]
            case "table":
                return self._table(node, width)
            case "html_block":
                return wrap([(node.content.rstrip("\n"), palette.dim)], width)
            case _:
                return self._blocks(node.children, width, depth)

    def _list(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Line]:
        lines: list[Line] = []
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        for item in node.children:
            mark = f"{number}. " if number is not None else f"{_BULLETS[depth % len(_BULLETS)]} "
            drawn = self._blocks(item.children, width - len(mark), depth + 1, gap=False) or [[]]
            lines.append([Segment(mark, self.palette.mark), *drawn[0]])
            lines += [[Segment(" " * len(mark), self.palette.text), *line] for line in drawn[1:]]
            number = number + 1 if number is not None else None
        return lines

    def _table(self, node: "SyntaxTreeNode", width: int) -> list[Line]:
        """Draws a nested table; top-level tables are drawn from their source."""
        rows: list[str] = []
        for part in node.children:
            for line in part.children:
                rows.append(
                    " | ".join(cell.children[0].content if cell.children else "" for cell in line.children)
                )
                if part.type == "thead":
                    rows.append("|".join("---" for _ in line.children))
        return tables.table(rows, width, self.palette, self.inline)

    # --- words --------------------------------------------------------------------------------------------

    def _inside(self, node: "SyntaxTreeNode", style: Style) -> list[Span]:
        return [span for child in node.children for span in self._spans(child.children, style)]

    def _spans(self, nodes: "Iterable[SyntaxTreeNode]", style: Style) -> list[Span]:
        spans: list[Span] = []
        for node in nodes:
            spans += self._span(node, style)
        if spans and spans[0][0][:4] in _BOXES:
            first = spans[0][0]
            spans[0] = (_BOXES[first[:4]] + first[4:], spans[0][1])
        return spans

    def _span(self, node: "SyntaxTreeNode", style: Style) -> list[Span]:
        palette = self.palette
        match node.type:
            case "text" | "text_special":
                return [(node.content, style)]
            case "softbreak":
                return [(" ", style)]
            case "hardbreak":
                return [("\n", style)]
            case "code_inline":
                return [(node.content, style + palette.inline_code)]
            case "strong":
                return self._spans(node.children, style + Style(bold=True))
            case "em":
                return self._spans(node.children, style + Style(italic=True))
            case "s":
                return self._spans(node.children, style + Style(strike=True))
            case "link":
                return self._link(node, style)
            case "image":
                described = node.content or "without a description"
                return [(f"[image: {described}]", style + palette.dim), *self._target(node, "src", described)]
            case "html_inline":
                return [(node.content, palette.dim)]
            case _:
                return self._spans(node.children, style)

    def _link(self, node: "SyntaxTreeNode", style: Style) -> list[Span]:
        words = self._spans(node.children, style + Style(underline=True))
        return [*words, *self._target(node, "href", "".join(text for text, _ in words))]

    def _target(self, node: "SyntaxTreeNode", name: str, words: str) -> list[Span]:
        """Draws the address of a link, which a terminal would hide."""
        address = str(node.attrs.get(name, ""))
        if not address or address in (words, f"mailto:{words}") or address.startswith("data:"):
            return []
        return [(f" ({address})", self.palette.dim)]


def close_markup(text: str) -> str:
    """Closes the open markup of a piece that is still growing, so that it looks the same
    before and after the closing mark arrives."""
    for mark in ("`", "**", "~~"):
        if text.count(mark) % 2:
            text = text.removesuffix(mark) if text.endswith(mark) else text + mark
    return text
