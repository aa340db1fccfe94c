"""Prints an answer: plain text into pipes, and on a terminal Markdown without control characters.

If `rich` is not installed, a terminal gets the plain text too.
"""

import codecs
import os
import sys
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TextIO

from antiphon.wires.terminal_text import printable, printable_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segments

    from antiphon.tui.markdown.spans import Line


class Printer(Protocol):
    """Prints an answer that comes in pieces; the caller always ends it with `close`."""

    def text(self, words: str) -> None: ...

    def close(self) -> None: ...


def note(message: str) -> None:
    """Prints a line for the user on standard error."""
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
    """Prints the text unchanged, or with `is_safe` without control characters."""

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
    """Printing failed. It is no `OSError`, because the caller takes that for a broken connection."""

    def __init__(self, reason: OSError) -> None:
        self.reason = reason
        super().__init__(str(reason))


class BytePrinter:
    """Prints bytes unchanged into a pipe, and as safe text on a terminal."""

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


class MarkdownPrinter:
    """Draws Markdown as `antiphon chat` does. What is finished is printed for good; the rest is drawn again
    below it while it grows."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        from antiphon.tui.markdown.document import MarkdownDocument
        from antiphon.tui.palette import TERMINAL

        self._console = console
        self._palette = TERMINAL
        self._document = MarkdownDocument(can_copy=False)
        self._width = console.width
        self._printed = 0
        """How many lines of the document were printed."""
        # Another thread draws what is not finished. Nothing is waited for while this lock is held.
        self._lock = Lock()
        # What goes to standard error is shown above the answer, unless it is not for this screen at all.
        self._live = Live(
            console=console,
            get_renderable=self._tail,
            refresh_per_second=10,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
        )
        self._is_live = False

    def text(self, words: str) -> None:
        if not self._is_live:
            self._is_live = True
            self._live.start()
        with self._lock:
            self._fit_width()
            self._document.feed(printable(words))
            lines = self._take_finished()
        if lines:
            self._live.refresh()  # what is shown below no longer has these
            self._print(lines)

    def close(self) -> None:
        if self._is_live:
            self._live.stop()
            self._is_live = False
        self._fit_width()
        self._document.close()
        self._print(self._take_finished())

    def _fit_width(self) -> None:
        """Lays out for the current width of the terminal; earlier lines stay as they were printed."""
        if self._width != self._console.width:
            self._width = self._console.width
            self._printed = self._document.lay_out_finished(self._width, self._palette) or 0

    def _take_finished(self) -> "list[Line]":
        """Returns the finished lines that were not printed yet."""
        count = self._document.lay_out_finished(self._width, self._palette) or 0
        if count == self._printed:
            return []
        lines = self._document.lines(self._width, self._palette)[0][self._printed : count]
        self._printed = count
        return lines

    def _tail(self) -> "Segments":
        """Returns the open piece, or as much of its end as fits the screen."""
        rows = max(1, self._console.height - 2)
        with self._lock:
            lines = self._document.lines(self._width, self._palette)[0]
            return _segments(lines[self._printed :][-rows:])

    def _print(self, lines: "list[Line]") -> None:
        self._console.print(_segments(lines), end="")


def _segments(lines: "Iterable[Line]") -> "Segments":
    """Strips the blanks at the ends of lines, which a user would copy along with the text."""
    from rich.segment import Segment, Segments

    made: list[Segment] = []
    for line in lines:
        end = len(line)
        while end and line[end - 1].text.isspace():
            end -= 1
        made += [*line[:end], Segment.line()]
    return Segments(made)
