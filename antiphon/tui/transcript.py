"""The view of a conversation: draws its entries through Textual's line API, at most a few times a second.

It stores the lines of visible entries, and the heights of others, which it draws again when they are
scrolled to. After a resize the newest entries are laid out first and the others while there is time.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from time import perf_counter
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from antiphon.tui.entries import AnswerEntry, Entry, UserEntry
from antiphon.tui.markdown.spans import Line, width_of
from antiphon.tui.palette import DARK, Palette
from antiphon.tui.widgets import LineView

WIDEST = 100
"""Columns that text may have; longer lines are hard to read."""
_TICK = 0.05
_BUDGET = 0.02
"""Seconds that one tick may spend on laying out."""
_GUTTER = 2
_KEPT = 60
"""Entries that keep their lines although they cannot be seen."""


class Transcript(LineView):
    """Shows entries one below the other, and follows the end until the user scrolls up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "select(-1)", "Previous", show=False),
        Binding("down,j", "select(1)", "Next", show=False),
        Binding("enter,space", "fold", "Fold"),
        Binding("c", "copy", "Copy"),
        Binding("e", "edit", "Edit from here"),
        Binding("r", "retry", "Retry from here"),
        Binding("escape", "leave", "Back", show=False),
    ]

    class Chosen(Message):
        """The user chose an action for an entry."""

        def __init__(self, action: str, entry: Entry, text: str = "") -> None:
            super().__init__()
            self.action = action
            self.entry = entry
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.palette: Palette = DARK
        self.entries: list[Entry] = []
        self.follows = True
        self._starts: list[int] = [0]  # the line at which each entry begins, and the end
        self._stale: list[int] = []  # entries that are to be laid out when there is time
        self._dirty: set[int] = set()
        self._places: dict[int, int] = {}
        self._chosen: int | None = None
        self._is_waiting = False
        self._laid_out_for = 0

    # --- changing it --------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        self._places[id(entry)] = len(self.entries)
        self.entries.append(entry)
        self._starts.append(self._starts[-1])
        if isinstance(entry, UserEntry):
            self.follows = True
        if len(self.entries) > _KEPT:
            self.entries[-_KEPT - 1].forget()  # it is drawn again if somebody scrolls to it
        self.redraw(entry)

    def redraw(self, entry: Entry) -> None:
        """Has the entry drawn again with the next tick."""
        place = self._places.get(id(entry))
        if place is not None:
            self._dirty.add(place)
            self._wake()

    def remove_from(self, entry: Entry) -> None:
        """Removes this entry and everything below it."""
        place = self._places.get(id(entry))
        if place is None:
            return
        for gone in self.entries[place:]:
            del self._places[id(gone)]
        del self.entries[place:]
        del self._starts[place + 1 :]
        self._dirty = {one for one in self._dirty if one < place}
        self._stale = [one for one in self._stale if one < place]
        self._chosen = None
        self._update_size()
        self.refresh()

    def show(self, entries: Iterable[Entry]) -> None:
        """Replaces the entries, and scrolls to their end."""
        self.entries = list(entries)
        self._places = {id(entry): n for n, entry in enumerate(self.entries)}
        self._starts = [0] * (len(self.entries) + 1)
        self._dirty.clear()
        self._chosen = None
        self._update_size()  # first of all, so that no place in the old entries is kept
        self.follows = True
        self._lay_out_anew()

    def draw_with(self, palette: Palette) -> None:
        self.palette = palette
        self._lay_out_anew()

    def settle(self) -> None:
        """Draws all changed entries now."""
        while self.size.width and not self.is_laid_out:
            self._tick(float("inf"))

    @property
    def is_laid_out(self) -> bool:
        """Whether the drawn lines have all changes."""
        return not (self._dirty or self._stale)

    # --- laying out ---------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return max(16, min(self.scrollable_content_region.width - _GUTTER - 1, WIDEST))

    def _on_resize(self, event: Resize) -> None:
        if self._width != self._laid_out_for:
            self._lay_out_anew()
        else:
            self._update_size()

    def _lay_out_anew(self) -> None:
        self._stale = list(range(len(self.entries)))
        self._laid_out_for = self._width
        self._tick(_BUDGET)
        self._wake()

    def _wake(self) -> None:
        if not self._is_waiting and self.is_attached:
            self._is_waiting = True
            self.set_timer(_TICK, self._on_tick)

    def _on_tick(self) -> None:
        self._is_waiting = False
        self._tick(_BUDGET)
        if not self.is_laid_out:
            self._wake()

    def _tick(self, budget: float) -> None:
        if not self.is_attached or self.size.width == 0:
            return
        until = perf_counter() + budget
        heights: dict[int, int] = {}
        for place in sorted(self._dirty, reverse=True):
            if self.entries[place].lay_out(self._width, self.palette, until):
                self._dirty.discard(place)
            heights[place] = len(self.entries[place].drawn)
        while self._stale and (perf_counter() < until):
            place = self._stale.pop()
            self.entries[place].lay_out(self._width, self.palette)
            heights[place] = len(self.entries[place].drawn)
            if len(self.entries) - place > _KEPT:
                self.entries[place].forget()
        if heights:
            self._take_heights(heights)
            self._update_size()
        self.refresh()

    def _take_heights(self, heights: dict[int, int]) -> None:
        first = min(heights)
        sizes = [end - start for start, end in pairwise(self._starts[first:])]
        for place, height in heights.items():
            sizes[place - first] = height + (1 if place else 0) if height else 0
        del self._starts[first + 1 :]
        for size in sizes:
            self._starts.append(self._starts[-1] + size)

    def _update_size(self) -> None:
        # Lines above what is read may have come or gone; the end stays the end.
        self.virtual_size = Size(self._width + _GUTTER, self._starts[-1] + 1)
        if self.follows:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.follows = new_value >= self.max_scroll_y - 1

    # --- drawing ------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        width = self.size.width
        strip = self._line(line)
        if (selection := self.text_selection) is not None and (span := selection.get_span(line)) is not None:
            strip = _highlight(strip, span, self.screen.get_component_rich_style("screen--selection"))
        base = Style(color=self.palette.ink, bgcolor=self.palette.paper)
        return strip.apply_offsets(0, line).crop_extend(0, width, base).apply_style(base)

    def _line(self, line: int) -> Strip:
        if line >= self._starts[-1] or not self.entries:
            return Strip.blank(0)
        place = bisect_right(self._starts, line) - 1
        lines = self._lines_of(place)
        at = line - self._starts[place] - (self._starts[place + 1] - self._starts[place] - len(lines))
        chosen = place == self._chosen and self.has_focus
        bar = Segment("▌ " if chosen else "  ", self.palette.mark)
        if not 0 <= at < len(lines):
            return Strip([Segment("  ", self.palette.text)], 2)
        return Strip([bar, *lines[at]], 2 + width_of(lines[at]))

    def _lines_of(self, place: int) -> list[Line]:
        """Returns the lines of the last layout; the next tick updates changed ones."""
        entry = self.entries[place]
        if not entry.drawn:
            entry.lay_out(self._width, self.palette)
        return entry.drawn

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines = [self._line(line).text.rstrip() for line in range(self._starts[-1])]
        return selection.extract("\n".join(lines)), "\n"

    def text(self) -> str:
        """Returns all entries as plain text, for readers without a screen."""
        self.settle()
        return "\n".join(self._line(line).text.rstrip() for line in range(self._starts[-1]))

    # --- choosing -----------------------------------------------------------------------------------------

    @property
    def chosen_entry(self) -> Entry | None:
        return self.entries[self._chosen] if self._chosen is not None else None

    def on_focus(self) -> None:
        if self._chosen is None and self.entries:
            self.action_select(-1)

    def action_select(self, step: int) -> None:
        """Selects the next entry, or the one before."""
        place = len(self.entries) if self._chosen is None else self._chosen
        place += step
        if 0 <= place < len(self.entries):
            self._chosen = place
            self._reveal(place)
            self.refresh()

    def _reveal(self, place: int) -> None:
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if self._starts[place] < top:
            self.scroll_to(y=self._starts[place], animate=False)
        elif self._starts[place + 1] > top + height:
            self.scroll_to(y=min(self._starts[place], self._starts[place + 1] - height), animate=False)

    def action_fold(self) -> None:
        if (entry := self.chosen_entry) is not None and entry.folds:
            entry.fold()
            self.redraw(entry)

    def action_copy(self) -> None:
        if (entry := self.chosen_entry) is not None:
            self.post_message(self.Chosen("copy", entry, entry.plain()))

    def action_edit(self) -> None:
        self._for_message("edit")

    def action_retry(self) -> None:
        self._for_message("retry")

    def action_leave(self) -> None:
        self.screen.focus_next("PromptInput")

    def _for_message(self, action: str) -> None:
        """Runs an action for the selected message, or the message that led to the selected entry."""
        place = self._chosen if self._chosen is not None else len(self.entries) - 1
        for entry in reversed(self.entries[: place + 1]):
            if isinstance(entry, UserEntry):
                self.post_message(self.Chosen(action, entry, entry.text))
                return

    def on_click(self, event: Click) -> None:
        line = event.y + self.scroll_offset.y
        if not self.entries or line >= self._starts[-1]:
            return
        place = bisect_right(self._starts, line) - 1
        entry = self.entries[place]
        mark = event.style.meta.get("copy")
        if mark is not None and isinstance(entry, AnswerEntry):
            self.post_message(self.Chosen("copy", entry, entry.code[int(mark)]))
            return
        self._chosen = place
        if entry.folds:
            entry.fold()
            self.redraw(entry)
        self.refresh()


def _highlight(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    start, end = span
    end = strip.cell_length if end == -1 else min(end, strip.cell_length)
    if start >= end:
        return strip
    parts = list(strip.divide([start, end, strip.cell_length]))
    parts[1] = Strip(
        [Segment(one.text, (one.style or Style()) + style) for one in parts[1]], parts[1].cell_length
    )
    return Strip.join(parts)
