"""The list of chats: search, open, rename, delete, pin."""

from time import time
from typing import TYPE_CHECKING

from antiphon import AntiphonError
from antiphon.tui.chats import ListedChat
from antiphon.tui.chooser import Chooser, ListChoice, Picked, TextPrompt
from antiphon.tui.figures import day, shorten
from antiphon.wires.terminal_text import printable_line

if TYPE_CHECKING:
    from antiphon.tui.app import ChatApp

_KEYS = (("ctrl+r", "rename"), ("ctrl+d", "delete"), ("ctrl+k", "pin"))


class ChatActions:
    """The commands of the application on whole chats."""

    def __init__(self, app: "ChatApp") -> None:
        self._app = app

    async def choose(self) -> None:
        """Shows the list until the user opens a chat or leaves the list."""
        app = self._app
        local = "This server stores no chats: these are files on this machine."
        about = local if app.talk.book.is_local else ""
        while True:
            picked = await app.push_screen_wait(Chooser("Chats", self._find, about=about, keys=_KEYS))
            if picked is None:
                return
            if picked.action == "open":
                await self.open(picked.value)
                return
            try:
                await self._change(picked)
            except AntiphonError as error:
                app.notify(printable_line(str(error)), severity="error")

    async def open_first(self, id: str | None) -> None:
        """Opens the chat with this id, else the one that was used last."""
        chats = [chat for chat in await self._search("") if id in (None, chat.id)]
        if chats:
            await self.open(max(chats, key=lambda chat: chat.updated_at))
        else:
            self._app.say("There is no such chat; this is a new one.")

    async def open(self, chat: ListedChat) -> None:
        try:
            entries = await self._app.talk.resume(chat)
        except AntiphonError as error:
            self._app.notify(printable_line(str(error)), severity="error")
            return
        self._app.show_chat(entries)

    async def _search(self, words: str) -> list[ListedChat]:
        try:
            return await self._app.talk.book.search(words)
        except AntiphonError as error:
            self._app.notify(printable_line(str(error)), severity="error")
            return []

    async def _find(self, words: str) -> list[ListChoice]:
        now = time()
        return [
            ListChoice(chat, f"{'• ' if chat.pinned else ''}{chat.title}", _when(chat, now))
            for chat in await self._search(words)
        ]

    async def _change(self, picked: Picked) -> None:
        chat, app = picked.value, self._app
        is_shown = app.talk.chat is not None and app.talk.chat.id == chat.id
        match picked.action:
            case "ctrl+r":
                if title := await app.push_screen_wait(TextPrompt("Title of the chat", chat.title)):
                    changed = await app.talk.book.update(chat.id, title=title)
                    if is_shown:
                        app.talk.chat = changed
                        app.show_head()
            case "ctrl+k":
                await app.talk.book.update(chat.id, pinned=not chat.pinned)
            case "ctrl+d":
                if not await self._is_certain(chat):
                    return
                await app.talk.book.delete(chat.id)
                if is_shown:
                    app.action_new_chat()

    async def _is_certain(self, chat: ListedChat) -> bool:
        async def find(words: str) -> list[ListChoice]:
            return [ListChoice(True, "Delete it for good"), ListChoice(False, "Keep it")]

        title = f"Delete “{shorten(printable_line(chat.title), 40)}”?"
        picked = await self._app.push_screen_wait(Chooser(title, find, searches=False))
        return picked is not None and bool(picked.value)


def _when(chat: ListedChat, now: float) -> str:
    """Returns when the chat was last used, and until when the server keeps it."""
    used = day(chat.updated_at, now)
    if chat.pinned:
        return f"{used}  ·  pinned"
    return f"{used}  ·  kept until {day(chat.expires_at, now)}" if chat.expires_at else used
