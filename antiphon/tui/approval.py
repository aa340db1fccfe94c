"""Asks the user whether a call may run: yes, no, or always for this tool."""

import asyncio
from time import monotonic
from typing import ClassVar, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from antiphon.tui.figures import shorten
from antiphon.tui.prompt_input import PromptInput
from antiphon.wires.terminal_text import printable, printable_line

ApprovalAnswer = Literal["yes", "no", "always"]
_SHOWN = 600
_ANSWERS = ("y", "n", "a", "escape")


class ApprovalPrompt(Vertical, can_focus=True):
    """The prompt of the question. It has the focus while it asks; the keys are y, n and a.

    It may appear while the user is typing a message, so it ignores keys that come too soon: letters
    of that message would approve a call that the user has not read.
    """

    PAUSE: ClassVar[float] = 0.5
    """Seconds without a key before the next key counts as an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('yes')", "Allow"),
        Binding("n,escape", "answer('no')", "Refuse"),
        Binding("a", "answer('always')", "Always"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._waiting: asyncio.Future[ApprovalAnswer] | None = None
        self._turn = asyncio.Lock()
        self._since = 0.0  # when it was shown, or the last key that was no answer

    def compose(self) -> ComposeResult:
        yield Static(id="question", markup=False)
        yield Static("y allow   n refuse   a always in this chat", id="keys", markup=False)

    @property
    def is_asking(self) -> bool:
        return self._waiting is not None

    async def ask(self, name: str, arguments: str, where: str) -> ApprovalAnswer:
        """Waits for the user; one question at a time."""
        async with self._turn:
            place = f" on {printable_line(where)}" if where else ""
            given = shorten(printable(arguments).strip(), _SHOWN)
            self.query_one("#question", Static).update(f"May {printable_line(name)}{place} run?\n{given}")
            self._waiting = asyncio.get_running_loop().create_future()
            self._since = monotonic()
            self.add_class("shown")
            self.focus()
            self.app.refresh_bindings()
            try:
                return await self._waiting
            finally:
                self._waiting = None
                self.remove_class("shown")
                if self.is_attached:
                    self.app.refresh_bindings()
                    self.screen.query_one(PromptInput).focus()

    def action_answer(self, verdict: ApprovalAnswer) -> None:
        now = monotonic()
        if now - self._since < self.PAUSE:
            self._since = now
        elif self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(verdict)

    def on_key(self, event: events.Key) -> None:
        if event.key not in _ANSWERS:
            self._since = monotonic()
