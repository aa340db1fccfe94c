"""Pages of items, as `input_items` and conversations list them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from antiphon.server.api.objects import ItemList
from antiphon.server.exchange import Exchange
from antiphon.spec.codec import Opaque
from antiphon.spec.content import InputText, OutputText
from antiphon.spec.error_paths import describe, wrong
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import Compaction, Item, ItemReference, Message

_MOST = 100
_USUAL = 20


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page is asked for."""

    after: str | None
    limit: int
    newest_first: bool

    @classmethod
    def of(cls, exchange: Exchange) -> "Paging":
        order = exchange.query("order")
        if order is None:
            order = "desc"
        if order not in ("asc", "desc"):
            raise wrong("order", f"expected 'asc' or 'desc', got {order[:60]!r}")
        return cls(exchange.query("after"), page_limit(exchange, _MOST), order == "desc")


def page_limit(exchange: Exchange, most: int) -> int:
    """How many a page may have, as `limit` says."""
    given = exchange.query("limit")
    if given is None:
        return _USUAL
    if not (given.isascii() and given.isdecimal() and len(given) < 5 and 1 <= int(given) <= most):
        raise wrong("limit", f"expected a number from 1 to {most}, got {describe(given)}")
    return int(given)


def unknown_cursor(after: str | None, what: str = "item") -> SpecError:
    message = f"there is no {what} {(after or '')[:100]!r} here to continue after"
    return SpecError(ErrorPayload("not_found", message, "cursor_not_found", "after"))


def make_item_list(items: Sequence[Item], *, more: bool = False) -> ItemList:
    return ItemList.of([to_long_form(item) for item in items], more=more)


def to_long_form(item: Item) -> Item:
    """The item in its long form: content as parts, and a status, however short it came in."""
    if isinstance(item, Opaque | Compaction | ItemReference):
        return item
    changes: dict[str, Any] = {}
    if item.status is None:
        changes["status"] = "completed"
    if isinstance(item, Message) and isinstance(item.content, str):
        part = OutputText if item.role == "assistant" else InputText
        changes["content"] = [part(item.content)]
    return replace(item, **changes) if changes else item
