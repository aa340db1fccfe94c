"""The entries of a transcript: messages, answers, reasoning, calls and notices, drawn as lines."""

from collections.abc import Sequence
from typing import Literal

from rich.segment import Segment
from rich.style import Style

from antiphon.tui.figures import seconds, shorten
from antiphon.tui.markdown.code import CodeBlock
from antiphon.tui.markdown.document import MarkdownDocument
from antiphon.tui.markdown.spans import Line, Span, kept_lines, wrap
from antiphon.tui.palette import Palette
from antiphon.wires.terminal_text import printable, printable_line

_RESULT_LINES = 6
_ARGUMENT_LINES = 8


class Entry:
    """One block of the transcript. It is drawn again after `change`, or at another width."""

    response_id: str | None = None
    """The response that it belongs to; for a message, the one that answers it."""
    folds = False

    def __init__(self) -> None:
        self.is_folded = False
        self._shape: tuple[int, str] | None = None
        self.drawn: list[Line] = []

    def change(self) -> None:
        self._shape = None

    def forget(self) -> None:
        """Drops the lines, which are drawn again when they come into view."""
        self._shape = None
        self.drawn = []

    def fold(self) -> None:
        if self.folds:
            self.is_folded = not self.is_folded
            self.change()

    def lay_out(self, width: int, palette: Palette, until: float = float("inf")) -> bool:
        """Brings `drawn` up to date; returns false if the time ran out before."""
        if self._shape != (width, palette.name):
            self._shape = (width, palette.name)
            self.drawn = self.lines(width, palette)
        return True

    def lines(self, width: int, palette: Palette) -> list[Line]:
        return []

    def plain(self) -> str:
        """Returns the text to copy."""
        return ""


class UserEntry(Entry):
    """A message of the user, and the names of its attachments."""

    def __init__(self, text: str, attached: Sequence[str] = ()) -> None:
        super().__init__()
        self.text = printable(text)
        self.attached = [printable_line(name) for name in attached]
        self.point: object = None
        """Where the conversation stood before it."""

    def lines(self, width: int, palette: Palette) -> list[Line]:
        bar = Segment("▎ ", palette.mark)
        lines = kept_lines(self.text, palette.text, width - 2) if self.text else []
        lines += [[Segment(f"+ {shorten(name, width - 4)}", palette.dim)] for name in self.attached]
        return [[bar, *line] for line in lines]

    def plain(self) -> str:
        return self.text


class AnswerEntry(Entry):
    """The answer of a model in Markdown, or its refusal."""

    def __init__(self, *, refusal: bool = False) -> None:
        super().__init__()
        self.refusal = refusal
        self._document = MarkdownDocument()
        self._text: list[str] = []

    def feed(self, text: str) -> None:
        text = printable(text)
        self._text.append(text)
        self._document.feed(text)

    def close(self) -> None:
        self._document.close()

    def forget(self) -> None:
        super().forget()
        self._document.forget()

    def lay_out(self, width: int, palette: Palette, until: float = float("inf")) -> bool:
        if not self.refusal:
            self.drawn, complete = self._document.lines(width, palette, until)
            return complete
        lines, complete = self._document.lines(width - 2, palette, until)
        head = [Segment("The model refused", palette.caution + Style(bold=True))]
        bar = Segment("│ ", palette.caution)
        self.drawn = [head, *([bar, *line] for line in lines)]
        return complete

    def plain(self) -> str:
        return "".join(self._text)

    @property
    def code(self) -> list[str]:
        return self._document.blocks


class ReasoningEntry(Entry):
    """The reasoning of a model, folded, with its duration."""

    folds = True

    def __init__(self) -> None:
        super().__init__()
        self.is_folded = True
        self.seconds: float | None = None
        self.running = True
        self._text: list[str] = []

    def feed(self, text: str) -> None:
        self._text.append(printable(text))
        self.change()

    def close(self, taken: float | None) -> None:
        self.running = False
        self.seconds = taken
        self.change()

    def lines(self, width: int, palette: Palette) -> list[Line]:
        if self.running:
            words = "Thinking"
        elif self.seconds is None:
            words = "Reasoning"
        else:
            words = f"Thought for {seconds(self.seconds)}"
        text = self.plain().strip()
        mark = "  " if not text else "▸ " if self.is_folded else "▾ "
        lines: list[Line] = [[Segment(mark, palette.mark), Segment(words, palette.dim)]]
        if text and not self.is_folded:
            style = palette.dim + Style(italic=True)
            lines += [[Segment("  ", style), *line] for line in kept_lines(text, style, width - 2)]
        return lines

    def plain(self) -> str:
        return "".join(self._text)


CallState = Literal["writing", "asking", "running", "done", "failed", "denied"]
_MARKS: dict[CallState, str] = {
    "writing": "○",
    "asking": "?",
    "running": "◐",
    "done": "●",
    "failed": "✗",
    "denied": "✗",
}


class CallEntry(Entry):
    """A tool call: its growing arguments, then its result and its duration."""

    folds = True

    def __init__(self, name: str, where: str = "") -> None:
        super().__init__()
        self.name = printable_line(name)
        self.where = printable_line(where)
        self.state: CallState = "writing"
        self.seconds: float | None = None
        self.is_folded = True
        self._arguments: list[str] = []
        self.result = ""

    def feed(self, arguments: str) -> None:
        self._arguments.append(printable(arguments))
        self.change()

    def move(self, state: CallState) -> None:
        self.state = state
        self.change()

    def finish(self, result: str, *, failed: bool = False, taken: float | None = None) -> None:
        self.result = printable(result)
        self.seconds = taken
        self.move("failed" if failed else "done")

    def lines(self, width: int, palette: Palette) -> list[Line]:
        tone = {"done": palette.mark, "failed": palette.failure, "denied": palette.failure}
        mark = tone.get(self.state, palette.dim)
        head: list[Span] = [(self.name, palette.heading)]
        if self.where:
            head.append((f" on {self.where}", palette.dim))
        told = {"asking": "waits for your approval", "running": "runs", "denied": "was not allowed"}
        if self.state in told:
            head.append((f" · {told[self.state]}", palette.dim))
        if self.seconds is not None:
            head.append((f" · {seconds(self.seconds)}", palette.dim))
        lines = [[Segment(f"{_MARKS[self.state]} ", mark), *line] for line in wrap(head, width - 2)[:1]]
        lines += self._part("".join(self._arguments), _ARGUMENT_LINES, width, palette, palette.dim)
        style = palette.failure if self.state in ("failed", "denied") else palette.text
        lines += self._part(self.result, _RESULT_LINES, width, palette, style)
        return lines

    def _part(self, text: str, most: int, width: int, palette: Palette, style: Style) -> list[Line]:
        text = text.strip()
        if not text:
            return []
        lines = kept_lines(text, style, width - 4)
        if self.is_folded and len(lines) > most:
            more = f"… {len(lines) - most} more lines"
            # Of arguments that are being written the newest part is shown.
            lines = (
                lines[-most:] if self.state == "writing" else [*lines[:most], [Segment(more, palette.dim)]]
            )
        return [[Segment("  │ ", palette.rule), *line] for line in lines]

    def plain(self) -> str:
        return f"{self.name}({''.join(self._arguments)})\n{self.result}".rstrip()


Tone = Literal["info", "warning", "error"]


class NoticeEntry(Entry):
    """A message of the interface: what happened, its code, and what to do."""

    def __init__(
        self, title: str, text: str = "", *, hint: str = "", code: str = "", tone: Tone = "info"
    ) -> None:
        super().__init__()
        self.title = printable_line(title)
        self.text = printable(text)
        self.hint = printable(hint)
        self.code = printable_line(code)
        self.tone: Tone = tone

    def lines(self, width: int, palette: Palette) -> list[Line]:
        tones = {"info": palette.dim, "warning": palette.caution, "error": palette.failure}
        tone = tones[self.tone]
        head: list[Span] = [(self.title, tone + Style(bold=self.tone != "info"))]
        if self.code:
            head.append((f" · {self.code}", palette.dim))
        lines = wrap(head, width - 2)
        if self.text:
            lines += kept_lines(self.text, palette.text, width - 2)
        if self.hint:
            lines += wrap([(self.hint, palette.dim)], width - 2)
        return [[Segment("│ ", tone), *line] for line in lines]

    def plain(self) -> str:
        return "\n".join(part for part in (f"{self.title} {self.code}".strip(), self.text, self.hint) if part)


class SourcesEntry(Entry):
    """The citations of an answer."""

    def __init__(self) -> None:
        super().__init__()
        self._sources: list[tuple[str, str]] = []

    def add(self, title: str, address: str) -> None:
        found = (printable_line(title), printable_line(address))
        if found not in self._sources:
            self._sources.append(found)
            self.change()

    def lines(self, width: int, palette: Palette) -> list[Line]:
        lines: list[Line] = [[Segment("Sources", palette.dim)]]
        for number, (title, address) in enumerate(self._sources, 1):
            spans: list[Span] = [(f"{title} " if title else "", palette.text), (address, palette.dim)]
            first, *others = wrap(spans, width - 4)
            lines.append([Segment(f"{number:>2}  ", palette.mark), *first])
            lines += [[Segment("    ", palette.text), *line] for line in others]
        return lines

    def plain(self) -> str:
        return "\n".join(f"{title} {address}".strip() for title, address in self._sources)


class ItemEntry(Entry):
    """An item that the server made by itself, such as a search or an image, in one line."""

    folds = True

    def __init__(self, kind: str, described: str = "", detail: str = "") -> None:
        super().__init__()
        self.kind = printable_line(kind)
        self.described = printable_line(described)
        self.detail = printable(detail)
        self.is_folded = True

    def tell(self, described: str, detail: str) -> None:
        self.described = described
        self.detail = detail
        self.change()

    def lines(self, width: int, palette: Palette) -> list[Line]:
        mark = "  " if not self.detail else "▸ " if self.is_folded else "▾ "
        spans: list[Span] = [
            (self.kind, palette.dim),
            (f" · {self.described}" if self.described else "", palette.text),
        ]
        lines = [[Segment(mark, palette.mark), *line] for line in wrap(spans, width - 2)]
        if self.detail and not self.is_folded:
            block = CodeBlock("json", palette, width - 2)
            lines += [[Segment("  ", palette.text), *line] for line in block.lines(self.detail.split("\n"))]
        return lines

    def plain(self) -> str:
        return f"{self.kind} {self.described}\n{self.detail}".strip()


def as_markdown(entries: Sequence[Entry]) -> str:
    """Returns a transcript as Markdown, with messages as quotations."""
    parts: list[str] = []
    for entry in entries:
        if isinstance(entry, UserEntry):
            parts.append("\n".join(f"> {line}" for line in entry.text.split("\n")))
        elif text := entry.plain():
            parts.append(text)
    return "\n\n".join(parts) + "\n"
