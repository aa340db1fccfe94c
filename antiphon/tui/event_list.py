"""A list of events, of any length, that draws only the visible ones."""

from typing import ClassVar

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from antiphon.tui.figures import shorten
from antiphon.tui.palette import DARK, Palette
from antiphon.tui.recording import TimedEvent
from antiphon.tui.widgets import LineView
from antiphon.wires.terminal_text import printable, printable_line

_BEFORE = 20
"""Columns of the mark, the number and the time."""
_PREVIEW = 400


class EventList(LineView):
    """The events with number, time and type; one of them is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move(-10)", "Page up", show=False),
        Binding("pagedown", "move(10)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
    ]

    class Chosen(Message):
        """The user selected another event."""

        def __init__(self, arrival: TimedEvent | None) -> None:
            super().__init__()
            self.arrival = arrival

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.palette: Palette = DARK
        self.broken: dict[int, str] = {}
        """Rules that events broke, by the place of the event."""
        self._all: list[TimedEvent] = []
        self._shown: list[int] = []
        self._seen = 0
        self._filter = ""
        self.place: int | None = None

    def show(self, arrivals: list[TimedEvent], words: str) -> None:
        """Shows the events that fit the filter; may be called again with a longer list."""
        if arrivals is not self._all or words != self._filter or len(arrivals) < self._seen:
            self._all, self._filter = arrivals, words
            self._shown, self._seen, self.place = [], 0, None
        wanted = words.casefold().split()
        for n in range(self._seen, len(arrivals)):
            if all(_fits(arrivals[n], word) for word in wanted):
                self._shown.append(n)
        self._seen = len(arrivals)
        at_end = self.scroll_offset.y >= self.max_scroll_y - 1
        self.virtual_size = Size(self.size.width, len(self._shown))
        if at_end and self.place is None:
            self.scroll_end(animate=False, immediate=True)
        self.refresh()

    @property
    def count(self) -> int:
        return len(self._shown)

    def action_move(self, step: int) -> None:
        if self._shown:
            last = len(self._shown) - 1
            place = last + step + 1 if self.place is None else self.place + step
            self._choose(max(0, min(place, last)))

    def on_click(self, event: Click) -> None:
        line = event.y + self.scroll_offset.y
        if line < len(self._shown):
            self._choose(line)

    def _choose(self, place: int) -> None:
        self.place = place
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if place < top or place >= top + height:
            self.scroll_to(y=max(0, place - height // 2), animate=False)
        self.refresh()
        self.post_message(self.Chosen(self._all[self._shown[place]]))

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        width = self.size.width
        base = Style(color=self.palette.ink, bgcolor=self.palette.paper)
        if line >= len(self._shown):
            return Strip.blank(width, base)
        place = self._shown[line]
        arrival = self._all[place]
        number = arrival.sequence_number
        bad = place in self.broken
        kind = f"{shorten(printable_line(arrival.type), 40):<28} "
        preview = shorten(printable(_preview(arrival)), max(0, width - _BEFORE - len(kind)))
        strip = Strip(
            [
                Segment("▌ " if line == self.place else "✗ " if bad else "  ", self._tone(bad)),
                Segment(f"{'' if number is None else number:>5}", self.palette.dim),
                Segment(f"{arrival.at:>9.3f} s  ", self.palette.dim),
                Segment(kind, self.palette.text),
                Segment(preview, self.palette.dim),
            ]
        )
        return strip.crop_extend(0, width, base).apply_style(base)

    def _tone(self, bad: bool) -> Style:
        return self.palette.failure if bad else self.palette.mark


def _fits(arrival: TimedEvent, word: str) -> bool:
    """Returns whether the type or the data has all words, and none of those with a minus."""
    if word.startswith("-") and len(word) > 1:
        return word[1:] not in arrival.type.casefold()
    return word in arrival.type.casefold() or word in arrival.event.data.casefold()


def _preview(arrival: TimedEvent) -> str:
    """Returns the new part of an event."""
    if arrival.event.is_done:
        return ""
    payload = arrival.payload
    if not isinstance(payload, dict):
        return arrival.event.data[:_PREVIEW]
    for name in ("delta", "text", "arguments", "refusal"):
        if isinstance(value := payload.get(name), str):
            return msgspec.json.encode(value[:_PREVIEW]).decode()
    for name in ("item", "part"):
        if isinstance(value := payload.get(name), dict):
            return "  ".join(str(value[key]) for key in ("type", "name", "status", "id") if value.get(key))
    if isinstance(value := payload.get("response"), dict):
        return "  ".join(str(value[key]) for key in ("status", "model", "id") if value.get(key))
    rest = {name: value for name, value in payload.items() if name not in ("type", "sequence_number")}
    return msgspec.json.encode(rest).decode()[:_PREVIEW]


def pretty(value: object) -> str:
    """Formats JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
