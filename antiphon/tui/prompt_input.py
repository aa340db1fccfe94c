"""The input for messages: several lines, a history, and completion of commands and file names."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message
from textual.widgets import TextArea

_HISTORY = 200


class Completion(NamedTuple):
    """A possible replacement of the word at the cursor."""

    text: str
    about: str = ""


class PromptInput(TextArea):
    """The input: Enter sends; Shift+Enter, Ctrl+J, or a backslash before Enter begins a new line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", show=False),
    ]

    class Sent(Message):
        """The user sends a message."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Offered(Message):
        """The completions of the word at the cursor; an empty list hides them."""

        def __init__(self, found: Sequence[Completion]) -> None:
            super().__init__()
            self.found = found

    def __init__(self, complete: Callable[[str], Sequence[Completion]], *, id: str | None = None) -> None:
        super().__init__(
            id=id,
            placeholder="Message, /command or @file",
            compact=True,
            highlight_cursor_line=False,
            tab_behavior="focus",
        )
        self.cursor_blink = False
        self.sent_before: list[str] = []
        self.offered: Sequence[Completion] = ()
        self.choice = 0
        self._complete = complete
        self._place: int | None = None
        self._draft = ""

    # --- writing ------------------------------------------------------------------------------------------

    async def _on_key(self, event: Key) -> None:
        if self._take(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _take(self, key: str) -> bool:
        """Handles a key; returns whether it had a meaning here."""
        match key:
            case "enter":
                self._enter()
            case "tab" if self.offered:
                self.accept()
            case "escape" if self.offered:
                self._offer(())
            case "up" | "down" if self.offered:
                self.choice = (self.choice + (1 if key == "down" else -1)) % len(self.offered)
                self.post_message(self.Offered(self.offered))
            case "up" if self.navigator.is_first_wrapped_line(self.cursor_location):
                self._recall(-1)
            case "down" if self.navigator.is_last_wrapped_line(self.cursor_location):
                self._recall(1)
            case _:
                return False
        return True

    def _enter(self) -> None:
        row, column = self.cursor_location
        if self.document.get_line(row)[:column].endswith("\\"):
            self.action_delete_left()
            self.action_newline()
            return
        if self.offered and self.offered[self.choice].text != self._word():
            self.accept()
            return
        text = self.text.strip()
        if text:
            self.remember(text)
            self.clear()
            self._offer(())
            self.post_message(self.Sent(text))

    def action_newline(self) -> None:
        self.insert("\n")

    def write(self, text: str) -> None:
        """Replaces the text, and puts the cursor at its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.focus()

    # --- history ------------------------------------------------------------------------------------------

    def remember(self, text: str) -> None:
        if not self.sent_before or self.sent_before[-1] != text:
            self.sent_before.append(text)
            del self.sent_before[:-_HISTORY]
        self._place = None

    def _recall(self, step: int) -> None:
        if not self.sent_before:
            return
        if self._place is None:
            if step > 0:
                return
            self._draft = self.text
            self._place = len(self.sent_before)
        self._place = max(0, min(self._place + step, len(self.sent_before)))
        found = self._draft if self._place == len(self.sent_before) else self.sent_before[self._place]
        if self._place == len(self.sent_before):
            self._place = None
        self.load_text(found)
        self.move_cursor(self.document.end)

    # --- completion ---------------------------------------------------------------------------------------

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        word = self._word()
        self.choice = 0
        self._offer(self._complete(word) if word.startswith(("/", "@")) else ())

    def accept(self) -> None:
        """Replaces the word with the chosen completion."""
        chosen = self.offered[self.choice].text
        row, column = self.cursor_location
        start = (row, column - len(self._word()))
        self.replace(f"{chosen} ", start, (row, column))
        self._offer(())

    def _offer(self, found: Sequence[Completion]) -> None:
        if found or self.offered:
            self.offered = found
            self.post_message(self.Offered(found))

    def _word(self) -> str:
        """Returns the word before the cursor; a slash counts only at the beginning of a message."""
        row, column = self.cursor_location
        word = self.document.get_line(row)[:column].rpartition(" ")[2]
        if word.startswith("/") and (row or column != len(word)):
            return ""
        return word
