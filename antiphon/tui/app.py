"""The application: its screen and its keys.

A thread imports the client after the first paint, so that the prompt appears at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.containers import Horizontal, Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from antiphon.tui import commands
from antiphon.tui.approval import ApprovalPrompt
from antiphon.tui.attachments import CannotAttach, FileFinder, content
from antiphon.tui.chooser import Chooser, ListChoice
from antiphon.tui.entries import AnswerEntry, Entry, NoticeEntry, UserEntry
from antiphon.tui.figures import day, shorten
from antiphon.tui.options import ChatOptions
from antiphon.tui.palette import DARK, LIGHT, PALETTES
from antiphon.tui.preload import load_client
from antiphon.tui.prompt_input import Completion, PromptInput
from antiphon.tui.status import Status
from antiphon.tui.style import CSS as STYLE
from antiphon.tui.transcript import Transcript
from antiphon.tui.widgets import KeyFooter, Welcome
from antiphon.wires.terminal_text import printable_line

if TYPE_CHECKING:
    from antiphon.tui.chat_list import ChatActions
    from antiphon.tui.current_chat import CurrentChat, Point, Settings
    from antiphon.tui.server_connection import ServerConnection
    from antiphon.tui.turns import Turns


class ChatApp(App[None]):
    """`antiphon chat`."""

    CSS = STYLE
    TITLE = "Antiphon"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {commands.CommandProvider}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop"),
        Binding("ctrl+n", "new_chat", "New"),
        Binding("ctrl+o", "chats", "Chats"),
        Binding("f12", "inspect", "Inspector"),
        Binding("ctrl+y", "copy_answer", "Copy", show=False, priority=True),
        Binding("ctrl+t", "theme", "Light/dark", show=False),
        Binding("ctrl+c", "interrupt", "Stop", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", show=False),
        Binding("ctrl+p", "command_palette", "Commands", show=False),
    ]

    def __init__(self, options: ChatOptions) -> None:
        super().__init__()
        for palette in PALETTES.values():
            self.register_theme(palette.theme())
        self.theme = (LIGHT if options.light else DARK).name
        self.options = options
        self.files = FileFinder(options.folder)
        self.attached: list[tuple[str, dict[str, Any]]] = []
        self.ready = asyncio.Event()
        """Set once the client is there and the server has been asked."""
        self._waiting: list[str] = []
        self._from: Point | None = None
        self.settings: Settings
        self.connection: ServerConnection
        self.talk: CurrentChat
        self.turns: Turns
        self.chats: ChatActions

    # --- the screen ---------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield Welcome(id="welcome")
        transcript = Transcript(id="transcript")
        transcript.display = False
        yield transcript
        yield ApprovalPrompt(id="approval")
        with Vertical(id="below"):
            yield OptionList(id="offers")
            yield Static(id="queue", markup=False)
            with Vertical(id="frame"):
                yield Static(id="attached", markup=False)
                with Horizontal():
                    yield Static(">", id="prompt")
                    yield PromptInput(self._complete, id="composer")
        yield Static(id="status", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda _: self._recolour())
        self._recolour()
        offers = self.query_one("#offers", OptionList)
        offers.can_focus = False
        self.query_one(PromptInput).focus()
        self.show_head()
        self.call_after_refresh(self._start)

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    def _recolour(self) -> None:
        self.transcript.draw_with(PALETTES.get(self.theme, DARK))

    def on_resize(self) -> None:
        self.call_later(self.show_head)  # after the application has its new size
        self.call_later(self.show_status)

    # --- the start ----------------------------------------------------------------------------------------

    @work(exclusive=True, group="start", exit_on_error=True)
    async def _start(self) -> None:
        await asyncio.to_thread(load_client)
        from antiphon import AntiphonError
        from antiphon.tui.chat_list import ChatActions
        from antiphon.tui.chats import LocalChats, chats_of
        from antiphon.tui.current_chat import CurrentChat, Settings
        from antiphon.tui.server_connection import ServerConnection
        from antiphon.tui.turns import Turns

        options = self.options
        self.settings = Settings(options.model, options.effort, options.system, options.background)
        try:
            self.connection = ServerConnection(options, self._show_server)
        except AntiphonError as error:
            self._show(NoticeEntry("Antiphon cannot start like this", str(error), tone="error"))
            return
        if await self.connection.look():
            book = await chats_of(self.connection.client, options.data)
        else:
            book = LocalChats(options.data)
            self.connection.wait()
        self.talk = CurrentChat(self.connection.client, book, self.settings)
        transcript = self.transcript
        self.turns = Turns(
            self.connection,
            self.talk,
            self._show,
            transcript.redraw,
            self._drop,
            self.query_one(ApprovalPrompt).ask,
            self._show_turn,
        )
        try:
            self.settings.tools = await self.connection.tools()
        except AntiphonError as error:
            self._show(NoticeEntry("A tool cannot be used", str(error), tone="error"))
        self.chats = ChatActions(self)
        self.ready.set()
        self._show_server()
        if options.resume or options.chat:
            await self.chats.open_first(options.chat)
        for text in self._waiting:
            self._send(text)

    async def on_unmount(self) -> None:
        if self.ready.is_set():
            await self.turns.close()
            await self.connection.close()

    # --- what is shown ------------------------------------------------------------------------------------

    def _show(self, entry: Entry) -> None:
        transcript = self.transcript
        if not transcript.display:
            self.query_one("#welcome").display = False
            transcript.display = True
        transcript.add(entry)

    def _show_all(self, entries: Sequence[Entry]) -> None:
        self.query_one("#welcome").display = not entries
        self.transcript.display = bool(entries)
        self.transcript.show(entries)

    def _drop(self, response_id: str) -> None:
        for entry in self.transcript.entries:
            if entry.response_id == response_id and not isinstance(entry, UserEntry):
                self.transcript.remove_from(entry)
                return

    def say(self, text: str) -> None:
        """Shows a notice of the interface itself."""
        self._show(NoticeEntry("Antiphon", text))

    def show_head(self) -> None:
        title, where = "New chat", ""
        if self.ready.is_set():
            chat = self.talk.chat
            title = printable_line(chat.title) if chat is not None else title
            where = self.connection.name
            if self.talk.book.is_local:
                where = f"{where}  ·  local chats"
        width = max(10, self.size.width - 6)
        where = shorten(printable_line(where), width // 2)
        title = shorten(title, width - len(where) - 2)
        line = f"{title}{where:>{max(0, width - len(title))}}"
        self.query_one("#head", Static).update(line, layout=False)

    def show_status(self) -> None:
        line = self.query_one("#status", Static)
        line.update(self._status().line(max(10, self.size.width - 6)), layout=False)

    def _status(self) -> Status:
        if not self.ready.is_set():
            return Status(self.options.model or "", state="starting")
        state = "answering" if self.turns.is_running else ""
        if not self.connection.is_up:
            state = "no server"
        show = self.turns.answering
        times = (show.first, show.last) if show is not None else (None, None)
        return self.settings.status(self.talk.last, self.connection.models, times, state)

    def _show_server(self) -> None:
        """Shows whether the server answers."""
        if not self.is_running:
            return
        self.show_status()
        self.show_head()
        if not self.ready.is_set():
            return
        from antiphon.tui.notices import ServerAway, update_outage

        is_shown = update_outage(self.transcript, self.connection.problem)
        if self.connection.is_up:
            self.turns.take_up()
            if self.talk.book.is_local and self.talk.chat is None:
                self._find_chats()
        elif not is_shown and not self.turns.is_running:  # a turn says so itself
            self._show(ServerAway(self.connection.problem))

    @work(group="chat")
    async def _find_chats(self) -> None:
        """Looks for chats on a server that did not answer at the start."""
        from antiphon.tui.chats import chats_of

        self.talk.book = await chats_of(self.connection.client, self.options.data)
        self.show_head()

    def _show_turn(self) -> None:
        """Shows the state of the turn and the queued messages."""
        if not self.is_running:
            return
        self.show_status()
        self.show_head()
        waiting = self.turns.queue
        queue = self.query_one("#queue", Static)
        queue.set_class(bool(waiting), "shown")
        queue.update("\n".join(f"next: {shorten(printable_line(one.text), 70)}" for one in waiting[:3]))
        self.refresh_bindings()

    # --- the composer -------------------------------------------------------------------------------------

    def _complete(self, word: str) -> Sequence[Completion]:
        if word.startswith("/"):
            return commands.matching(word[1:])
        return [Completion(f"@{name}") for name in self.files.find(word[1:])]

    @on(PromptInput.Offered)
    def _show_completions(self, event: PromptInput.Offered) -> None:
        offers = self.query_one("#offers", OptionList)
        composer = self.query_one(PromptInput)
        offers.set_class(bool(event.found), "shown")
        offers.clear_options()
        width = max(20, self.size.width - 10)
        for one in event.found:
            line = f"{printable_line(one.text):<16} {one.about}".rstrip()
            offers.add_option(Option(shorten(line, width).replace("[", "\\[")))
        if event.found:
            offers.highlighted = composer.choice

    @on(OptionList.OptionSelected, "#offers")
    def _offer_clicked(self, event: OptionList.OptionSelected) -> None:
        composer = self.query_one(PromptInput)
        composer.choice = event.option_index
        composer.accept()

    @on(PromptInput.Sent)
    async def _send_message(self, event: PromptInput.Sent) -> None:
        if event.text.startswith("/") and not event.text.startswith("//"):
            if self.ready.is_set():
                await commands.run(self, event.text)
            else:
                self.notify("Antiphon is starting; a moment.")
        elif self.ready.is_set():
            self._send(event.text)
        else:
            self._waiting.append(event.text)
            self.notify("Antiphon is starting; the message is sent in a moment.")

    def _send(self, text: str) -> None:
        from antiphon.tui.turns import Draft

        text = text.removeprefix("/") if text.startswith("//") else text
        for word in text.split():
            if word.startswith("@") and (self.options.folder / word[1:]).is_file():
                self.attach(word[1:])
        point, self._from = self._from, None
        if point is not None and (entry := self._edited) is not None:
            self.transcript.remove_from(entry)
        self._edited = None
        draft = Draft(text, [part for _, part in self.attached], [name for name, _ in self.attached], point)
        self.attached.clear()
        self._show_attached()
        self.turns.send(draft)

    _edited: UserEntry | None = None

    def attach(self, name: str) -> None:
        """Attaches a file to the next message."""
        if any(known == name for known, _ in self.attached):
            return
        try:
            self.attached.append((name, content(self.options.folder / Path(name).expanduser())))
        except CannotAttach as reason:
            self.say(str(reason))
        self._show_attached()

    def _show_attached(self) -> None:
        attached = self.query_one("#attached", Static)
        attached.set_class(bool(self.attached), "shown")
        attached.update("  ".join(f"+ {printable_line(name)}" for name, _ in self.attached))

    # --- going back ---------------------------------------------------------------------------------------

    @on(Transcript.Chosen)
    def _act_on_entry(self, event: Transcript.Chosen) -> None:
        if event.action == "copy":
            self.copy_to_clipboard(event.text)
            self.notify("Copied")
        elif isinstance(event.entry, UserEntry):
            if event.action == "edit":
                self._edit_from(event.entry)
            else:
                self._retry_from(event.entry)

    def _messages(self) -> list[UserEntry]:
        return [entry for entry in self.transcript.entries if isinstance(entry, UserEntry)]

    def edit(self) -> None:
        """Lets the user choose a message and edit it."""
        messages = self._messages()
        if not messages:
            self.say("There is no message to edit yet.")
            return
        choices = [ListChoice(entry, entry.text) for entry in reversed(messages)]
        self.choose("Edit a message and continue from there", choices, self._edit_from)

    def _edit_from(self, entry: UserEntry) -> None:
        self._from, self._edited = entry.point, entry  # type: ignore[assignment]
        self.refresh_bindings()
        self.query_one(PromptInput).write(entry.text)
        self.notify("Sending this begins a branch; earlier answers are kept. Esc cancels.")

    def retry(self) -> None:
        messages = self._messages()
        if messages:
            self._retry_from(messages[-1])
        else:
            self.say("There is nothing to ask again yet.")

    def _retry_from(self, entry: UserEntry) -> None:
        if self.turns.is_running:
            self.notify("An answer is being written; Esc stops it.")
            return
        self._from, self._edited = entry.point, entry  # type: ignore[assignment]
        self.refresh_bindings()
        self._send(entry.text)

    def choose_branch(self) -> None:
        leaves = self.talk.leaves()
        if len(leaves) < 2:
            self.say("This chat has one branch; /edit and /retry begin others.")
            return
        now = time()
        choices = [
            ListChoice(node.id, self.talk.last_words(node.id), day(node.created_at, now))
            for node in reversed(leaves)
        ]
        self.choose("Branches of this chat", choices, self._move)

    @work(group="chat")
    async def _move(self, response_id: str) -> None:
        self._show_all(await self.talk.move(response_id))
        self.show_status()

    # --- chats --------------------------------------------------------------------------------------------

    def action_new_chat(self) -> None:
        if not self.ready.is_set() or self._is_busy():
            return
        self.talk.begin()
        self.show_chat([])
        self.query_one(PromptInput).focus()

    def _is_busy(self) -> bool:
        if self.turns.is_running and not self.settings.background:
            self.notify("An answer is being written; Esc stops it.")
            return True
        return False

    @work(group="chat")
    async def action_chats(self) -> None:
        if self.ready.is_set() and not self._is_busy():
            await self.chats.choose()

    async def rename(self, title: str) -> None:
        if self.talk.chat is None or not title:
            self.say("Send a message first; then /rename TITLE names the chat.")
            return
        self.talk.chat = await self.talk.book.update(self.talk.chat.id, title=title)
        self.show_head()

    def show_chat(self, entries: Sequence[Entry]) -> None:
        """Shows the current chat and its conversation."""
        self.turns.begin()
        self._from = self._edited = None
        self._show_all(entries)
        self.show_head()
        self.show_status()
        chat = self.talk.chat
        if chat is not None and chat.running is not None:
            self._drop(chat.running)
            self.turns.follow(chat.running)

    # --- choices ------------------------------------------------------------------------------------------

    def use_model(self, name: str) -> None:
        self.settings.model = name
        self.show_status()

    def use_effort(self, effort: str) -> None:
        self.settings.effort = effort
        self.show_status()

    @work(group="choose")
    async def choose(self, title: str, choices: Sequence[ListChoice], use: Any) -> None:
        async def find(words: str) -> list[ListChoice]:
            return [choice for choice in choices if words.casefold() in choice.title.casefold()]

        picked = await self.push_screen_wait(Chooser(title, find))
        if picked is not None:
            use(picked.value)

    # --- keys ---------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Hides the keys that have no effect at the moment."""
        if action == "stop":
            return self.ready.is_set() and (self.turns.is_running or self._edited is not None)
        if action in ("new_chat", "chats", "inspect"):
            return len(self.screen_stack) < 2 and not self.query_one(ApprovalPrompt).is_asking
        return True

    def action_stop(self) -> None:
        if self.ready.is_set() and self.turns.stop():
            if waiting := self.turns.queue:
                self.query_one(PromptInput).write("\n\n".join(draft.text for draft in waiting))
                waiting.clear()
            return
        if self._edited is not None:
            self._from = self._edited = None
            self.query_one(PromptInput).clear()
        self.query_one(PromptInput).focus()

    def action_interrupt(self) -> None:
        if selected := self.query_one(PromptInput).selected_text or self.screen.get_selected_text():
            self.copy_to_clipboard(selected)
            self.notify("Copied")
        elif not (self.ready.is_set() and self.turns.stop()):
            self.notify("Ctrl+Q leaves.")

    def action_copy_answer(self) -> None:
        answers = [entry for entry in self.transcript.entries if isinstance(entry, AnswerEntry)]
        if answers:
            self.copy_to_clipboard(answers[-1].plain())
            self.notify("Copied the last answer")

    def action_theme(self) -> None:
        self.theme = (LIGHT if self.theme == DARK.name else DARK).name

    def action_inspect(self) -> None:
        if self.ready.is_set():
            from antiphon.tui.inspector import Inspector

            self.push_screen(Inspector(self.talk.recordings, self.options.folder))
