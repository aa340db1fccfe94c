"""What the server keeps beside responses: conversations, models, counts, and receipts for deletions."""

from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from antiphon.client.errors import UnexpectedAnswer
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.decode import decode_output_item
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item
from antiphon.spec.tolerant_reader import TolerantReading

S = TypeVar("S", bound=Struct)


class Conversation(Struct, kw_only=True):
    """A conversation that the server keeps."""

    id: str
    object: str = "conversation"
    created_at: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


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
    """How many tokens an input has."""

    object: str = "response.input_tokens"
    input_tokens: int


class _List(Struct):
    data: list[Raw]
    last_id: str | None = None
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One page of items, and where the next one begins."""

    items: list[Item]
    next_after: str | None


def read_object(cls: type[S], body: bytes, what: str) -> S:
    """One object; fields that this package does not know ride along."""
    try:
        return TolerantReading().struct(cls, body, "")
    except SpecError as error:
        raise unexpected(what, error) from None


def read_models(body: bytes) -> list[Model]:
    return [read_object(Model, bytes(raw), "a model") for raw in _read_list(body, "a list of models").data]


def read_page(body: bytes) -> Page:
    found = _read_list(body, "a list of items")
    try:
        items = [decode_output_item(raw) for raw in found.data]
    except SpecError as error:
        raise unexpected("a list of items", error) from None
    last = found.last_id or (_id_of(items[-1]) if items else None)
    return Page(items, last if found.has_more and items else None)


def read_item(body: bytes) -> Item:
    try:
        return decode_output_item(body)
    except SpecError as error:
        raise unexpected("an item", error) from None


def unexpected(what: str, error: Exception) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"the server's answer is not {what}: {error}; check the address")


def _read_list(body: bytes, what: str) -> _List:
    try:
        return msgspec.json.decode(body, type=_List)
    except UNREADABLE as error:
        raise unexpected(what, error) from None


def _id_of(item: Item) -> str | None:
    return item.id or None
