"""`client.chats`, for programs without an event loop."""

from collections.abc import Iterator
from typing import Unpack

from antiphon.client.resources.chats import AsyncChats
from antiphon.client.resources.objects import Chat, ChatResponse, Deleted
from antiphon.client.resources.parameters import RequestOptions
from antiphon.client.sync.loop_thread import Portal
from antiphon.client.sync.streams import each


class Chats:
    """Trees of responses with a title: `create(..., chat=id)`. Elsewhere than with Antiphon, a 404."""

    def __init__(self, portal: Portal, inner: AsyncChats) -> None:
        self._portal = portal
        self._inner = inner

    def list(
        self,
        *,
        search: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Iterator[Chat]:
        """All chats, the one that changed last first; pages of `limit` are fetched as they are needed.

        With `search`, only those with all of its words in their title and texts.
        """
        return each(self._portal, self._inner.list(search=search, limit=limit, after=after, **options))

    def create(
        self,
        *,
        title: str | None = None,
        pinned: bool = False,
        current: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Chat:
        """Make a chat; `current` is a response that it begins with, and all that this one continues."""
        return self._portal.call(self._inner.create(title=title, pinned=pinned, current=current, **options))

    def retrieve(self, id: str, **options: Unpack[RequestOptions]) -> Chat:
        return self._portal.call(self._inner.retrieve(id, **options))

    def update(
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
        return self._portal.call(
            self._inner.update(id, title=title, pinned=pinned, current=current, **options)
        )

    def delete(self, id: str, **options: Unpack[RequestOptions]) -> Deleted:
        """Delete a chat and its responses."""
        return self._portal.call(self._inner.delete(id, **options))

    def responses(
        self,
        id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Iterator[ChatResponse]:
        """The whole tree, each response after the one that it continues; fetched in pages of `limit`."""
        return each(self._portal, self._inner.responses(id, limit=limit, after=after, **options))
