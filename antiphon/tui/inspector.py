"""The inspector: shows the traffic of a response, live and afterwards."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, Static, TabbedContent, TabPane, Tree
from textual.widgets.tree import TreeNode

from antiphon.tui.event_list import EventList, pretty
from antiphon.tui.markdown.code import highlight
from antiphon.tui.palette import DARK, PALETTES
from antiphon.tui.recording import CallRecording, TimedEvent
from antiphon.tui.widgets import KeyFooter
from antiphon.wires.terminal_text import printable, printable_line

_TICK = 0.1
_BUDGET = 0.02
_ITEM_EVENTS = ("response.output_item.added", "response.output_item.done")


class Inspector(Screen[None]):
    """Shows the recordings of this chat, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f12,escape", "close", "Close"),
        Binding("slash", "filter", "Filter"),
        Binding("ctrl+s", "save", "Save capture", priority=True),
        Binding("left_square_bracket", "turn(-1)", "Earlier", key_display="["),
        Binding("right_square_bracket", "turn(1)", "Later", key_display="]"),
    ]

    def __init__(self, recordings: Sequence[CallRecording], folder: Path) -> None:
        super().__init__()
        self._recordings = recordings
        self._place = len(recordings) - 1
        self._follows = True
        self._folder = folder
        self._drawn: tuple[int, int, bool] = (-1, -1, False)
        self._items: list[tuple[int, Any, Any]] = []

    def compose(self) -> ComposeResult:
        yield Static(id="verdict", markup=False)
        with TabbedContent(initial="tab-events"):
            with TabPane("Events", id="tab-events"):
                field = Input(
                    placeholder="Filter: words, -word leaves out", id="filter", select_on_focus=False
                )
                field.cursor_blink = False
                yield field
                yield EventList(id="events")
                with VerticalScroll(id="detail"):
                    yield Static(id="payload", markup=False)
            with TabPane("Items", id="tab-items"):
                yield Tree("output", id="items")
            with TabPane("Request", id="tab-request"), VerticalScroll():
                yield Static(id="request", markup=False)
            with TabPane("Receipts", id="tab-receipts"), VerticalScroll():
                yield Static(id="receipts", markup=False)
            with TabPane("Verdict", id="tab-verdict"), VerticalScroll():
                yield Static(id="violations", markup=False)
        yield KeyFooter(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#items", Tree).show_root = False
        events = self.query_one(EventList)
        events.palette = PALETTES.get(self.app.theme, DARK)
        events.focus()
        self.bring_up_to_date()
        self.set_interval(_TICK, self.bring_up_to_date)

    @property
    def recording(self) -> CallRecording | None:
        if not self._recordings:
            return None
        if self._follows:
            self._place = len(self._recordings) - 1
        return self._recordings[min(self._place, len(self._recordings) - 1)]

    def bring_up_to_date(self) -> None:
        """Shows the events since the last update."""
        recording = self.recording
        if recording is None:
            self.query_one("#verdict", Static).update(
                "Nothing was asked yet: send a message, then look again."
            )
            return
        judged = recording.audit(perf_counter() + _BUDGET)
        state = (id(recording), len(recording.arrivals), recording.ended and judged)
        if state == self._drawn and judged:
            return
        another = state[0] != self._drawn[0]
        self._drawn = state
        events = self.query_one(EventList)
        events.broken = {one.position: one.message for one in recording.violations}
        events.show(recording.arrivals, self.query_one("#filter", Input).value)
        self.query_one("#verdict", Static).update(self._verdict(recording, judged), layout=False)
        self.query_one("#violations", Static).update(_violations(recording))
        self._show_items(recording)
        if another or recording.ended:
            self._show_request(recording)
            self._show_receipts(recording)

    def _verdict(self, recording: CallRecording, judged: bool) -> Text:
        count = len(recording.arrivals)
        place = f"response {self._place + 1} of {len(self._recordings)}"
        state = "stopped" if recording.is_left else "complete" if recording.ended else "open"
        if recording.is_translated:
            verdict, style = "chat completions, translated: nothing to judge", ""
        elif recording.ended and not recording.is_judged:
            verdict, style = "no stream: nothing to judge", ""
        elif recording.violations:
            verdict, style = f"✗ {len(recording.violations)} rules broken", "$error"
        elif not judged:
            verdict, style = "judging", ""
        else:
            is_whole = recording.ended and not recording.is_left
            verdict, style = "✓ conforms" if is_whole else "✓ conforms so far", "$success"
        colour = self.app.theme_variables.get(style.removeprefix("$"), "") if style else ""
        text = Text(f"{place} · {count} events · {state} · ")
        return text.append(verdict, style=colour)

    # --- tabs ---------------------------------------------------------------------------------------------

    def _show_items(self, recording: CallRecording) -> None:
        tree = self.query_one("#items", Tree)
        found: dict[int, dict[str, Any]] = {}
        for arrival in recording.arrivals:
            if arrival.type in _ITEM_EVENTS and isinstance(payload := arrival.payload, dict):
                item = payload.get("item")
                found[int(payload.get("output_index", 0))] = item if isinstance(item, dict) else {}
        shown = [(index, item.get("type"), item.get("status")) for index, item in sorted(found.items())]
        if shown == self._items:
            return
        self._items = shown
        tree.clear()
        for index, item in sorted(found.items()):
            status = f"  {item['status']}" if item.get("status") else ""
            node = tree.root.add(_label(f"{index}  {item.get('type', 'item')}{status}"), expand=True)
            _grow(node, item)

    def _show_request(self, recording: CallRecording) -> None:
        head = f"{recording.method} {recording.url}"
        answer = f"{recording.status or 'no answer yet'}"
        headers = "\n".join(f"{name}: {value}" for name, value in recording.headers.items())
        text = Text(printable(f"{head}\n\n"))
        text.append(printable(pretty(recording.request)))
        text.append(printable(f"\n\n{answer}\n{headers}"), style="dim")
        self.query_one("#request", Static).update(text)

    def _show_receipts(self, recording: CallRecording) -> None:
        receipts: list[Any] = []
        for arrival in recording.arrivals[-2:]:
            payload = arrival.payload
            if isinstance(payload, dict) and isinstance(response := payload.get("response"), dict):
                receipts = response.get("antiphon:receipts") or []
        text = Text()
        for one in receipts:
            if isinstance(one, dict):
                text.append(printable_line(f"{one.get('param', '')}  {one.get('action', '')}"), style="bold")
                text.append(printable(f"\n{one.get('reason', '')}  ({one.get('provider', '')})\n\n"))
        none = "No receipts: nothing of the request was dropped, rewritten or added."
        self.query_one("#receipts", Static).update(text if receipts else none)

    @on(EventList.Chosen)
    def _show_event(self, event: EventList.Chosen) -> None:
        arrival: TimedEvent | None = event.arrival
        if arrival is None:
            return
        self.query_one("#detail").add_class("shown")
        detail = self.query_one("#payload", Static)
        payload = arrival.payload
        if isinstance(payload, str):
            detail.update(printable(payload))
            return
        palette = PALETTES.get(self.app.theme, DARK)
        detail.update(highlight(printable(pretty(payload)), "json", palette))

    @on(Input.Changed, "#filter")
    def _filter_events(self) -> None:
        self._drawn = (-1, -1, False)
        self.bring_up_to_date()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.query_one(EventList).focus()

    # --- keys ---------------------------------------------------------------------------------------------

    def action_close(self) -> None:
        if self.query_one("#filter", Input).has_focus:
            self.query_one(EventList).focus()
        else:
            self.dismiss()

    def action_filter(self) -> None:
        self.query_one(TabbedContent).active = "tab-events"
        self.query_one("#filter", Input).focus()

    def action_turn(self, step: int) -> None:
        if self._recordings:
            self._place = max(0, min(self._place + step, len(self._recordings) - 1))
            self._follows = self._place == len(self._recordings) - 1
            self.bring_up_to_date()

    def action_save(self) -> None:
        """Saves the stream unchanged, for `antiphon audit`."""
        recording = self.recording
        if recording is None or not recording.arrivals:
            self.notify("There is no stream to save yet.")
            return
        number = 1
        while (path := self._folder / f"antiphon-capture-{number}.sse").exists():
            number += 1
        try:
            path.write_bytes(recording.capture())
        except OSError as error:
            self.notify(f"{path} cannot be written: {error.strerror}", severity="error")
            return
        self.notify(f"Saved {path.name}; antiphon audit < {path.name} judges it.")


def _violations(recording: CallRecording) -> Text:
    if not recording.violations:
        is_whole = recording.ended and not recording.is_left
        return Text("No rule was broken." if is_whole else "No rule was broken so far.")
    text = Text()
    for one in recording.violations[:200]:
        text.append(f"{one.level}  {one.rule}", style="bold")
        text.append(printable(f"\n#{one.position} {one.event_type or 'stream'}: {one.message}\n\n"))
    return text


def _grow(node: "TreeNode[Any]", value: Any) -> None:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in pairs:
        if isinstance(inner, dict | list) and inner:
            _grow(node.add(_label(str(name))), inner)
        else:
            shown = inner if isinstance(inner, str) else pretty(inner)
            node.add_leaf(_label(f"{name}: {shown[:300]}"))


def _label(text: str) -> Text:
    return Text(printable_line(text))
