"""Lines that scroll: what the transcript and the list of events have in common."""

from textual.scroll_view import ScrollView


class LineView(ScrollView, can_focus=True):
    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """A bar that comes later than the scrolling shows where the lines are, and not their beginning."""
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y
