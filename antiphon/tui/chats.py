"""The chats that a user can list and continue: on the server, or in files of this terminal."""

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from antiphon import (
    AntiphonError,
    AsyncClient,
    IncompleteDetails,
    Item,
    Message,
    Response,
    ResponseError,
    StatusError,
    Usage,
    decode_item,
    decode_response,
    encode,
)
from antiphon.spec.codec import UNREADABLE

_MOST = 200
"""Chats that a list shows; a search finds the others."""


@dataclass(slots=True)
class ListedChat:
    """One chat: its title, and the response that it stands at."""

    id: str
    title: str = ""
    current: str | None = None
    running: str | None = None
    created_at: float = 0
    updated_at: float = 0
    expires_at: float | None = None
    pinned: bool = False


@dataclass(slots=True)
class Node:
    """One response of a chat, with the new part of its input."""

    id: str
    previous: str | None
    created_at: float
    status: str
    model: str
    input: list[Item] = field(default_factory=list)
    output: list[Item] = field(default_factory=list)
    usage: Usage | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None

    @classmethod
    def of(cls, response: Response, input: Sequence[Item], previous: str | None) -> "Node":
        return cls(
            response.id,
            previous,
            response.created_at,
            response.status,
            response.model,
            list(input),
            response.output,
            response.usage,
            response.error,
            response.incomplete_details,
        )

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(item.get_text() for item in self.output if isinstance(item, Message))


class ChatBook(Protocol):
    """Stores chats."""

    is_local: bool

    async def search(self, words: str = "") -> list[ListedChat]:
        """Returns the chats whose title or text has these words, the newest first."""

    async def create(self, title: str) -> ListedChat: ...

    async def update(self, id: str, **changes: Any) -> ListedChat:
        """Sets `title`, `pinned`, or `current`, which moves to another branch."""

    async def delete(self, id: str) -> None: ...

    async def nodes(self, id: str) -> list[Node]:
        """Returns all responses of a chat, the oldest first."""

    async def keep(
        self, id: str, response: Response, input: Sequence[Item], previous: str | None, *, running: bool
    ) -> None:
        """Adds a response to the chat when it is complete, or runs in the background."""


class LocalChats:
    """Stores each chat in a file that only the user can read, for servers that store no chats."""

    is_local = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def search(self, words: str = "") -> list[ListedChat]:
        found: list[ListedChat] = []
        wanted = words.casefold()
        for file in self._folder.glob("chat_*.json"):
            try:
                data = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
                if not wanted or wanted in data["title"].casefold() or wanted in _words(data).casefold():
                    found.append(_chat(data))
            except (OSError, *UNREADABLE, KeyError, TypeError):
                continue  # not one of ours, or half written by a machine that lost power
        return sorted(found, key=lambda chat: (chat.pinned, chat.updated_at), reverse=True)

    async def create(self, title: str) -> ListedChat:
        now = time.time()
        chat = ListedChat(f"chat_{secrets.token_hex(12)}", title, created_at=now, updated_at=now)
        self._write({**_plain(chat), "responses": []})
        return chat

    async def update(self, id: str, **changes: Any) -> ListedChat:
        data = self._read(id) | changes
        self._write(data)
        return _chat(data)

    async def delete(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)

    async def nodes(self, id: str) -> list[Node]:
        return [
            Node.of(
                decode_response(encode(one["response"])),
                [decode_item(encode(item)) for item in one["input"]],
                one.get("previous"),
            )
            for one in self._read(id)["responses"]
        ]

    async def keep(
        self, id: str, response: Response, input: Sequence[Item], previous: str | None, *, running: bool
    ) -> None:
        data = self._read(id)
        kept = {
            "id": response.id,
            "previous": previous,
            "response": msgspec.json.decode(encode(response)),
            "input": msgspec.json.decode(encode(list(input))),
        }
        others = [one for one in data["responses"] if one["id"] != response.id]
        data["responses"] = [*others, kept]
        running_id = response.id if running else None
        data |= {"current": response.id, "running": running_id, "updated_at": time.time()}
        self._write(data)

    def _path(self, id: str) -> Path:
        return self._folder / f"{Path(id).name}.json"

    def _read(self, id: str) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self._path(id).read_bytes(), type=dict[str, Any])
        except (OSError, *UNREADABLE) as error:
            raise AntiphonError(f"the chat {id} cannot be read: {error}") from None

    def _write(self, data: dict[str, Any]) -> None:
        """Writes the file whole or not at all."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._path(data["id"])
            draft = path.with_suffix(".new")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(data))
            draft.replace(path)
        except OSError as error:
            raise AntiphonError(f"the chat cannot be kept in {self._folder}: {error.strerror}") from None


def _words(data: dict[str, Any]) -> str:
    """Returns the texts of a chat, for a search."""
    found: list[str] = []
    for one in data["responses"]:
        for item in [*one["input"], *one["response"].get("output", ())]:
            content = item.get("content")
            if isinstance(content, str):
                found.append(content)
            elif isinstance(content, list):
                found += [str(part.get("text", "")) for part in content]
    return "\n".join(found)


def _chat(data: dict[str, Any]) -> ListedChat:
    known: dict[str, Any] = {name: data[name] for name in ListedChat.__dataclass_fields__ if name in data}
    return ListedChat(**known)


def _plain(chat: ListedChat) -> dict[str, Any]:
    return {name: getattr(chat, name) for name in ListedChat.__dataclass_fields__}


class ServerChats:
    """Uses the chats of an Antiphon gateway, which other programs show too."""

    is_local = False

    def __init__(self, client: AsyncClient) -> None:
        self._chats = client.chats

    async def search(self, words: str = "") -> list[ListedChat]:
        found: list[ListedChat] = []
        async for chat in self._chats.list(search=words or None, limit=50):
            found.append(_of_server(chat))
            if len(found) == _MOST:
                break
        return found

    async def create(self, title: str) -> ListedChat:
        return _of_server(await self._chats.create(title=title))

    async def update(self, id: str, **changes: Any) -> ListedChat:
        return _of_server(await self._chats.update(id, **changes))

    async def delete(self, id: str) -> None:
        await self._chats.delete(id)

    async def nodes(self, id: str) -> list[Node]:
        return [
            Node(
                one.id,
                one.previous_response_id,
                one.created_at,
                one.status,
                one.model,
                one.input,
                one.output,
                one.usage,
                one.error,
                one.incomplete_details,
            )
            async for one in self._chats.responses(id)
        ]

    async def keep(
        self, id: str, response: Response, input: Sequence[Item], previous: str | None, *, running: bool
    ) -> None:
        """Does nothing, because each response names its chat to the server."""


def _of_server(chat: Any) -> ListedChat:
    found = ListedChat(**{name: getattr(chat, name) for name in ListedChat.__dataclass_fields__})
    found.title = found.title or "Chat"
    return found


async def chats_of(client: AsyncClient, folder: Path) -> ChatBook:
    """Returns the server's chats if it stores chats, else those of this machine."""
    chats = ServerChats(client)
    try:
        await chats.search()
    except StatusError:
        return LocalChats(folder)
    return chats
