"""A list to choose from, with a field that filters it: models, branches, messages, chats."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from antiphon.tui.figures import shorten
from antiphon.wires.terminal_text import printable_line


@dataclass(frozen=True, slots=True)
class ListChoice:
    """One line of the list."""

    value: Any
    title: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Picked:
    """The chosen value, and the action for it."""

    value: Any
    action: str = "open"


Find = Callable[[str], Awaitable[Sequence[ListChoice]]]


class Chooser(ModalScreen[Picked | None]):
    """Lets the user choose: `find` returns the choices for the typed text; `keys` are further actions."""

    # Before the keys of the field, which would delete letters with some of them.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close"),
        Binding("ctrl+r", "pick('ctrl+r')", "Rename", priority=True),
        Binding("ctrl+d", "pick('ctrl+d')", "Delete", priority=True),
        Binding("ctrl+k", "pick('ctrl+k')", "Pin", priority=True),
    ]

    def __init__(
        self,
        title: str,
        find: Find,
        *,
        about: str = "",
        keys: Sequence[tuple[str, str]] = (),
        searches: bool = True,
    ) -> None:
        super().__init__()
        self._title = title
        self._find = find
        self._about = about
        self._keys = dict(keys)
        self._searches = searches
        self._choices: list[ListChoice] = []

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, classes="title", markup=False)
            if self._searches:
                search = Input(placeholder="Search", select_on_focus=False)
                search.cursor_blink = False
                yield search
            yield OptionList()
            others = (f"{key} {what}" for key, what in self._keys.items())
            told = "   ".join(["enter open" if self._keys else "enter choose", *others, "esc close"])
            about = f"{self._about}\n" if self._about else ""
            yield Static(f"{about}{told}", classes="about", markup=False)

    async def on_mount(self) -> None:
        await self._search("")

    @on(Input.Changed)
    async def _search_again(self, event: Input.Changed) -> None:
        await self._search(event.value)

    async def _search(self, words: str) -> None:
        self._choices = list(await self._find(words))
        options = self.query_one(OptionList)
        width = max(20, min(self.app.size.width - 14, 66))
        options.clear_options()
        for choice in self._choices:
            options.add_option(Option(_line(choice, width)))
        if self._choices:
            options.highlighted = 0

    def on_key(self, event: Key) -> None:
        options = self.query_one(OptionList)
        if event.key == "down":
            options.action_cursor_down()
        elif event.key == "up":
            options.action_cursor_up()
        elif event.key == "enter":
            self._pick("open")
        else:
            return
        event.stop()

    def action_pick(self, action: str) -> None:
        if action in self._keys:
            self._pick(action)

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _open_picked(self) -> None:
        self._pick("open")

    def _pick(self, action: str) -> None:
        place = self.query_one(OptionList).highlighted
        if place is not None and place < len(self._choices):
            self.dismiss(Picked(self._choices[place].value, action))


class TextPrompt(ModalScreen[str | None]):
    """Asks for one line of text."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]
    CSS = """
    TextPrompt { align: center middle; background: $background 60%; }
    TextPrompt > Vertical { width: 76; max-width: 94%; height: auto; background: $panel; border: round $line;
      padding: 1 2; }
    TextPrompt Input { border: none; height: 1; padding: 0; background: $panel; margin-top: 1; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, markup=False)
            title = Input(self._text)
            title.cursor_blink = False
            yield title

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


def _line(choice: ListChoice, width: int) -> Text:
    about = printable_line(choice.about)
    title = shorten(printable_line(choice.title), width - len(about) - 2)
    line = Text(title)
    if about:
        line.append(" " * max(2, width - line.cell_len - len(about)))
        line.append(about, style="dim")
    line.no_wrap = True
    return line
