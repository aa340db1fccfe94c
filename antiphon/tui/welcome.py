"""What stands where the first answer will be: the mark, and how to begin."""

from textual.app import ComposeResult
from textual.containers import Center
from textual.widgets import Static

# Two arcs, one answering the other: the mark of the web app, as a terminal can draw it.
_MARK = """\
╭───╮
  ╰───╯"""
_WORDS = """\
Ask something, or write / for commands and @ for files.

[$foreground]Enter[/] sends, [$foreground]Esc[/] stops, [$foreground]F12[/] shows the events."""


class Welcome(Center):
    """An empty chat."""

    def compose(self) -> ComposeResult:
        yield Static(f"[$primary]{_MARK}[/]\n\n{_WORDS}", id="welcome-text")
