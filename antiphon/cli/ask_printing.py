"""How an answer is printed: plain into pipes, Markdown on a terminal, and nothing that a terminal obeys.

Where `rich` is not installed, a terminal gets the plain text too.
"""

import codecs
import os
import sys
from typing import TYPE_CHECKING, Protocol, TextIO

from antiphon.wires.terminal_text import printable, printable_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

_FENCES = ("```", "~~~")


class Printer(Protocol):
    """Takes an answer in pieces. Whatever happens, `close` ends it."""

    def text(self, words: str) -> None: ...

    def close(self) -> None: ...


def note(message: str) -> None:
    """A line for the reader, on standard error."""
    print(printable_line(message), file=sys.stderr, flush=True)


def printer_for(stream: TextIO, *, markdown: bool) -> Printer:
    if not stream.isatty():
        return PlainPrinter(stream, is_safe=False)
    if markdown and os.environ.get("TERM") != "dumb":
        try:
            from rich.console import Console
        except ImportError:
            return PlainPrinter(stream, is_safe=True)
        return MarkdownPrinter(Console(file=stream, highlight=False))
    return PlainPrinter(stream, is_safe=True)


class PlainPrinter:
    """The words as they are; with `is_safe`, without control characters."""

    def __init__(self, stream: TextIO, *, is_safe: bool) -> None:
        self._stream = stream
        self._is_safe = is_safe
        self._last = "\n"

    def text(self, words: str) -> None:
        if words:
            self._stream.write(printable(words) if self._is_safe else words)
            self._stream.flush()
            self._last = words[-1]

    def close(self) -> None:
        if self._last != "\n":
            self.text("\n")


class OutputFailed(Exception):
    """What was to be printed could not be; no `OSError`, which would be taken for one of the connection."""

    def __init__(self, reason: OSError) -> None:
        self.reason = reason
        super().__init__(str(reason))


class BytePrinter:
    """Bytes as they came into a pipe; as safe text on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if stream.isatty() else None

    def write(self, data: bytes) -> None:
        try:
            if self._decoder is None:
                self._stream.buffer.write(data)
                self._stream.buffer.flush()
            else:
                self._stream.write(printable(self._decoder.decode(data)))
                self._stream.flush()
        except OSError as error:
            raise OutputFailed(error) from None


class MarkdownBlocks:
    """Cuts Markdown into blocks that can be shown for good: between paragraphs, never inside a code block."""

    def __init__(self) -> None:
        self.open = ""
        self._line = ""
        self._fence = ""
        self._after_blank = False

    def feed(self, text: str) -> list[str]:
        """The blocks that are finished with this."""
        *lines, self._line = (self._line + text).split("\n")
        return [block for line in lines if (block := self._take(line))]

    def rest(self) -> str:
        """What is not finished."""
        return self.open + self._line

    def _take(self, line: str) -> str:
        finished, bare = "", line.strip()
        if not self._fence and self._after_blank and bare and not line.startswith((" ", "\t")):
            finished, self.open = self.open, ""
        if self._fence:
            if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
                self._fence = ""
        elif bare.startswith(_FENCES):
            self._fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        self._after_blank = not bare and not self._fence
        self.open += f"{line}\n"
        return finished


class MarkdownPrinter:
    """Finished blocks as Markdown; the end of the open one is shown as text until it is finished too."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live
        from rich.text import Text

        self._console = console
        self._blocks = MarkdownBlocks()
        self._text = Text
        # What goes to standard error is shown above the answer, unless it is not for this screen at all.
        self._live = Live(
            console=console,
            get_renderable=self._tail,
            refresh_per_second=10,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
        )
        self._is_live = False
        self._has_shown = False

    def text(self, words: str) -> None:
        if not self._is_live:
            self._is_live = True
            self._live.start()
        if finished := self._blocks.feed(printable(words)):
            self._live.refresh()  # what is shown below no longer has these
            for block in finished:
                self._show(block)

    def close(self) -> None:
        rest, self._blocks = self._blocks.rest(), MarkdownBlocks()
        if self._is_live:
            self._live.stop()
            self._is_live = False
        if rest.strip():
            self._show(rest)

    def _tail(self) -> "Text":
        """The open block, wrapped as a paragraph is, or as much of its end as the screen has room for."""
        width, rows = self._console.width, max(1, self._console.height - 2)
        made: list[Text] = []
        for line in self._blocks.rest().splitlines()[-rows:]:
            # What of a very long line cannot be seen is left out, so much at once that the rest seldom moves.
            hidden = max(0, len(line) // (width * rows) - 1) * width * rows
            made += self._text(line[hidden:]).wrap(self._console, width) or [self._text()]
        return self._text("\n", no_wrap=True, overflow="crop").join(made[-rows:])

    def _show(self, block: str) -> None:
        """One line is left between two blocks, whatever kind they are."""
        from rich.markdown import Markdown
        from rich.segment import Segment, Segments

        # Without hyperlinks: an address that is hidden behind words is what OSC 8 is misused for.
        lines = self._console.render_lines(Markdown(block, hyperlinks=False), pad=False)
        while lines and _is_blank(lines[0]):
            lines.pop(0)
        while lines and _is_blank(lines[-1]):
            lines.pop()
        between: list[list[Segment]] = [[]] if self._has_shown else []
        made = [segment for line in between + lines for segment in (*line, Segment.line())]
        self._console.print(Segments(made), end="")
        self._has_shown = True


def _is_blank(line: "list[Segment]") -> bool:
    """The edge of a code block is not: it has a colour."""
    coloured = any(segment.style and segment.style.bgcolor for segment in line)
    return not coloured and not "".join(segment.text for segment in line).strip()
