"""`client.conversations` and `client.models`."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Unpack
from urllib.parse import quote

from antiphon.client.resources.objects import (
    Conversation,
    Deleted,
    Model,
    Order,
    iterate_items,
    read_item,
    read_models,
    read_object,
    read_page,
)
from antiphon.client.resources.parameters import InputItem, RequestOptions, encode_body
from antiphon.client.transport.http import Http, path_to
from antiphon.spec.items import Item

_PATH = "/conversations"


class AsyncConversations:
    """Lists of items that responses continue and add to: `create(..., conversation=id)`."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.items = AsyncConversationItems(http)

    async def create(
        self,
        *,
        items: Iterable[InputItem] = (),
        metadata: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Conversation:
        body = {"items": list(items), "metadata": dict(metadata or {})} | dict(options.get("extra_body", {}))
        return await self._conversation("POST", _PATH, options, encode_body(body))

    async def retrieve(self, id: str, **options: Unpack[RequestOptions]) -> Conversation:
        return await self._conversation("GET", path_to(_PATH, id), options)

    async def update(
        self, id: str, *, metadata: Mapping[str, str], **options: Unpack[RequestOptions]
    ) -> Conversation:
        """Replace the metadata."""
        body = {"metadata": dict(metadata)} | dict(options.get("extra_body", {}))
        return await self._conversation("POST", path_to(_PATH, id), options, encode_body(body))

    async def delete(self, id: str, **options: Unpack[RequestOptions]) -> Deleted:
        answer = await self._http.answer(self._http.call("DELETE", path_to(_PATH, id), options))
        return read_object(Deleted, answer.body, "a deletion")

    async def _conversation(
        self, method: str, path: str, options: RequestOptions, body: bytes | None = None
    ) -> Conversation:
        call = self._http.call(method, path, options, body=body, repeatable=method == "GET")
        return read_object(Conversation, (await self._http.answer(call)).body, "a conversation")


class AsyncConversationItems:
    """`client.conversations.items`: what is in a conversation."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        id: str,
        *,
        order: Order | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Item]:
        """All items; pages of `limit` are fetched as they are needed."""
        path = path_to(_PATH, id, "items")
        return iterate_items(self._http, path, options, order=order, limit=limit, after=after)

    async def add(
        self, id: str, items: Iterable[InputItem], **options: Unpack[RequestOptions]
    ) -> tuple[Item, ...]:
        """Add items at the end; they come back with their ids."""
        body = encode_body({"items": [*items]} | dict(options.get("extra_body", {})))
        answer = await self._http.answer(
            self._http.call("POST", path_to(_PATH, id, "items"), options, body=body)
        )
        return tuple(read_page(answer.body).items)

    async def retrieve(self, id: str, item_id: str, **options: Unpack[RequestOptions]) -> Item:
        call = self._http.call("GET", self._path(id, item_id), options, repeatable=True)
        return read_item((await self._http.answer(call)).body)

    async def delete(self, id: str, item_id: str, **options: Unpack[RequestOptions]) -> Conversation:
        """Take an item out; the conversation comes back."""
        answer = await self._http.answer(self._http.call("DELETE", self._path(id, item_id), options))
        return read_object(Conversation, answer.body, "a conversation")

    def _path(self, id: str, item_id: str) -> str:
        return path_to(path_to(_PATH, id, "items"), item_id)


class AsyncModels:
    """The models of the server."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, **options: Unpack[RequestOptions]) -> tuple[Model, ...]:
        answer = await self._http.answer(self._http.call("GET", "/models", options, repeatable=True))
        return tuple(read_models(answer.body))

    async def retrieve(self, id: str, **options: Unpack[RequestOptions]) -> Model:
        """Returns one model; its name may have slashes."""
        call = self._http.call("GET", f"/models/{quote(id, safe='/')}", options, repeatable=True)
        return read_object(Model, (await self._http.answer(call)).body, "a model")
