"""The objects of a server beside responses (conversations, chats, models), and its lists, page after page."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from antiphon.client.errors import UnexpectedAnswer
from antiphon.client.resources.parameters import RequestOptions
from antiphon.client.transport.http import Http
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.decode import decode_output_item
from antiphon.spec.errors import ResponseError, SpecError
from antiphon.spec.items import Item
from antiphon.spec.response import IncompleteDetails, Usage
from antiphon.spec.tolerant_decoder import TolerantDecoder

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


class _Named(Protocol):
    @property
    def id(self) -> str: ...


N = TypeVar("N", bound=_Named)


class Conversation(Struct, kw_only=True):
    """A conversation that the server keeps."""

    id: str
    object: str = "conversation"
    created_at: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


class Chat(Struct, kw_only=True):
    """A chat that an Antiphon gateway keeps: a tree of responses, each under the one that it continues."""

    id: str
    object: str = "antiphon.chat"
    title: str | None = None
    current: str | None = None
    """The response that the chat goes on from."""
    running: str | None = None
    """The newest response in the background that has not ended."""
    created_at: int = 0
    updated_at: int = 0
    expires_at: int | None = None
    pinned: bool = False


class ChatResponse(Struct, kw_only=True):
    """A response in the tree of its chat; `input` are the items that its turn added."""

    id: str
    previous_response_id: str | None = None
    created_at: int = 0
    status: str = "completed"
    model: str = ""
    input: list[Item] = field(default_factory=list)
    output: list[Item] = field(default_factory=list)
    usage: Usage | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None


class Deleted(Struct, kw_only=True):
    """Confirmation that something was deleted."""

    id: str
    object: str = ""
    deleted: bool = True


class Model(Struct, kw_only=True):
    """A model that the server offers."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = ""


class InputTokens(Struct, kw_only=True):
    """The number of tokens of an input."""

    object: str = "response.input_tokens"
    input_tokens: int


class _List(Struct):
    data: list[Raw]
    last_id: str | None = None
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, and the cursor of the next one."""

    items: list[T]
    next_after: str | None


def read_object(cls: type[S], body: bytes, what: str) -> S:
    """Reads one object; keeps fields that this package does not know."""
    try:
        return TolerantDecoder().struct(cls, body, "")
    except SpecError as error:
        raise unexpected_answer(what, error) from None


def read_models(body: bytes) -> list[Model]:
    return [read_object(Model, bytes(raw), "a model") for raw in _read_list(body, "a list of models").data]


def read_page(body: bytes) -> Page[Item]:
    return _page(body, decode_output_item, "a list of items")


def read_chats(body: bytes) -> Page[Chat]:
    return _page(body, lambda raw: TolerantDecoder().struct(Chat, bytes(raw), ""), "a list of chats")


def read_chat_responses(body: bytes) -> Page[ChatResponse]:
    return _page(body, _chat_response, "a list of responses")


def _chat_response(raw: Raw) -> ChatResponse:
    reading = TolerantDecoder()
    fields = reading.split(raw, "")
    items = {name: reading.items(fields.pop(name), name) for name in ("input", "output") if name in fields}
    return msgspec.structs.replace(reading.fields(ChatResponse, fields, ""), **items)


def _page(body: bytes, read: Callable[[Raw], N], what: str) -> Page[N]:
    found = _read_list(body, what)
    try:
        items = [read(raw) for raw in found.data]
    except SpecError as error:
        raise unexpected_answer(what, error) from None
    last = found.last_id or (items[-1].id or None if items else None)
    return Page(items, last if found.has_more and items else None)


def read_item(body: bytes) -> Item:
    try:
        return decode_output_item(body)
    except SpecError as error:
        raise unexpected_answer("an item", error) from None


def unexpected_answer(what: str, error: Exception) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"the server's answer is not {what}: {error}; check the address")


def _read_list(body: bytes, what: str) -> _List:
    try:
        return msgspec.json.decode(body, type=_List)
    except UNREADABLE as error:
        raise unexpected_answer(what, error) from None


Order = Literal["asc", "desc"]


def iterate_items(
    http: Http,
    path: str,
    options: RequestOptions,
    *,
    order: Order | None,
    limit: int | None,
    after: str | None,
) -> AsyncIterator[Item]:
    return iterate_pages(http, path, options, read_page, {"order": order, "limit": limit, "after": after})


async def iterate_pages(
    http: Http,
    path: str,
    options: RequestOptions,
    read: Callable[[bytes], Page[T]],
    query: Mapping[str, str | int | None],
) -> AsyncIterator[T]:
    """Yields the items of a list, page after page; ends if a server repeats a page."""
    after = query["after"]
    seen = {after}
    while True:
        asked = {**query, "after": after}
        answer = await http.answer(http.call("GET", path, options, query=asked, repeatable=True))
        page = read(answer.body)
        for item in page.items:
            yield item
        after = page.next_after
        if after is None or after in seen:
            return
        seen.add(after)
