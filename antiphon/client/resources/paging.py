"""Lists that come in pages, as one list."""

from collections.abc import AsyncIterator
from typing import Literal

from antiphon.client.resources.objects import read_page
from antiphon.client.resources.parameters import RequestOptions
from antiphon.client.transport.http import Http
from antiphon.spec.items import Item

Order = Literal["asc", "desc"]


async def items(
    http: Http,
    path: str,
    options: RequestOptions,
    *,
    order: Order | None,
    limit: int | None,
    after: str | None,
) -> AsyncIterator[Item]:
    """The items of a list, page after page; a server whose pages lead in a circle ends it."""
    seen = {after}
    while True:
        query = {"order": order, "limit": limit, "after": after}
        answer = await http.answer(http.call("GET", path, options, query=query, repeatable=True))
        page = read_page(answer.body)
        for item in page.items:
            yield item
        after = page.next_after
        if after is None or after in seen:
            return
        seen.add(after)
