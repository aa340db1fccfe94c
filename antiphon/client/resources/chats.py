"""`client.chats`: the chats of an Antiphon gateway."""

from collections.abc import AsyncIterator
from typing import Unpack

from antiphon.client.resources.objects import (
    Chat,
    ChatResponse,
    Deleted,
    iterate_pages,
    read_chat_responses,
    read_chats,
    read_object,
)
from antiphon.client.resources.parameters import RequestOptions, encode_body
from antiphon.client.transport.http import Http, path_to

_PATH = "/antiphon/chats"


class AsyncChats:
    """Trees of responses with a title: `create(..., chat=id)`. Elsewhere than with Antiphon, a 404."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        *,
        search: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Chat]:
        """All chats, the one that changed last first; pages of `limit` are fetched as they are needed.

        With `search`, only those with all of its words in their title and texts.
        """
        query = {"search": search or None, "limit": limit, "after": after}
        return iterate_pages(self._http, _PATH, options, read_chats, query)

    async def create(
        self,
        *,
        title: str | None = None,
        pinned: bool = False,
        current: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Chat:
        """Make a chat; `current` is a response that it begins with, and all that this one continues."""
        return await self._chat("POST", _PATH, options, _encode_edit(title, pinned or None, current))

    async def retrieve(self, id: str, **options: Unpack[RequestOptions]) -> Chat:
        return await self._chat("GET", path_to(_PATH, id), options)

    async def update(
        self,
        id: str,
        *,
        title: str | None = None,
        pinned: bool | None = None,
        current: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Chat:
        """Rename a chat, pin it, or move it to another response; what is left out stays.

        An empty title takes the title away, and the next response gives the chat another.
        """
        return await self._chat("POST", path_to(_PATH, id), options, _encode_edit(title, pinned, current))

    async def delete(self, id: str, **options: Unpack[RequestOptions]) -> Deleted:
        """Delete a chat and its responses."""
        answer = await self._http.answer(self._http.call("DELETE", path_to(_PATH, id), options))
        return read_object(Deleted, answer.body, "a deletion")

    def responses(
        self,
        id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[ChatResponse]:
        """The whole tree, each response after the one that it continues; fetched in pages of `limit`."""
        query = {"limit": limit, "after": after}
        return iterate_pages(self._http, path_to(_PATH, id, "responses"), options, read_chat_responses, query)

    async def _chat(
        self, method: str, path: str, options: RequestOptions, body: dict[str, object] | None = None
    ) -> Chat:
        sent = None if body is None else encode_body(body | dict(options.get("extra_body", {})))
        call = self._http.call(method, path, options, body=sent, repeatable=method == "GET")
        return read_object(Chat, (await self._http.answer(call)).body, "a chat")


def _encode_edit(title: str | None, pinned: bool | None, current: str | None) -> dict[str, object]:
    body = {"title": title, "pinned": pinned, "current": current}
    return {name: value for name, value in body.items() if value is not None}
