"""Where the client finds an item that a provider is given."""

from collections.abc import Sequence

from antiphon.spec.items import Item
from antiphon.spec.request import Request


def input_places(request: Request, items: Sequence[Item]) -> list[str]:
    """For each item `input[N]`, if it is the one that the request brought there; else nothing.

    Counting does not tell, since a provider may be given more items than there were: what came before, a
    hosted call as a call and its output, what the model said in its earlier turns. An item that was changed
    on the way is known by its id.
    """
    given = request.input if isinstance(request.input, list) else []
    by_id = {item.id: n for n, item in enumerate(given) if item.id}
    places = {id(item): n for n, item in enumerate(given)}
    found = (places.get(id(item), by_id.get(item.id)) for item in items)
    return ["" if n is None else f"input[{n}]" for n in found]
