"""Lists that come in pages, as one list."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal, TypeVar

from antiphon.client.resources.objects import Page, read_page
from antiphon.client.resources.parameters import RequestOptions
from antiphon.client.transport.http import Http
from antiphon.spec.items import Item

T = TypeVar("T")
Order = Literal["asc", "desc"]


def items(
    http: Http,
    path: str,
    options: RequestOptions,
    *,
    order: Order | None,
    limit: int | None,
    after: str | None,
) -> AsyncIterator[Item]:
    return pages(http, path, options, read_page, {"order": order, "limit": limit, "after": after})


async def pages(
    http: Http,
    path: str,
    options: RequestOptions,
    read: Callable[[bytes], Page[T]],
    query: Mapping[str, str | int | None],
) -> AsyncIterator[T]:
    """What is in a list, page after page; a server whose pages lead in a circle ends it."""
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
