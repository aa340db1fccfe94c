"""The keys at the bottom of the screen."""

from textual.app import ComposeResult
from textual.widgets import Footer


class KeyFooter(Footer):
    """Textual's footer, which would keep every key that it ever showed in memory."""

    def compose(self) -> ComposeResult:
        self.mutate_reactive(Footer.compact)  # telling all its watchers, it forgets those that are gone
        yield from super().compose()
