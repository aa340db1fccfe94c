"""Small widgets: lines that scroll, the keys at the bottom, and the screen of an empty chat."""

from textual.app import ComposeResult
from textual.containers import Center
from textual.scroll_view import ScrollView
from textual.widgets import Footer, Static

# Two arcs, one answering the other: the mark of the web app, as a terminal can draw it.
_MARK = """\
╭───╮
  ╰───╯"""
_HINT = """\
Ask something, or write / for commands and @ for files.

[$foreground]Enter[/] sends, [$foreground]Esc[/] stops, [$foreground]F12[/] shows the events."""


class LineView(ScrollView, can_focus=True):
    """Lines that scroll, as in the transcript and in the list of events."""

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """Puts a bar that appears after the scrolling at the position of the lines, not at the top."""
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y


class KeyFooter(Footer):
    """Textual's footer without its leak: the original keeps every key that it ever showed in memory."""

    def compose(self) -> ComposeResult:
        self.mutate_reactive(Footer.compact)  # which drops the watchers that are gone
        yield from super().compose()


class Welcome(Center):
    """The screen of an empty chat: the mark, and how to begin."""

    def compose(self) -> ComposeResult:
        yield Static(f"[$primary]{_MARK}[/]\n\n{_HINT}", id="welcome-text")
