"""Caches of values that were read from the database, bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from antiphon.store.base import Context, ItemPosition, NewResponse, fragment

T = TypeVar("T")

OVERHEAD = 400
PER_FRAGMENT = 50
MAX_FRAGMENTS = 128
"""A context of more fragments is joined into one, so that the cost of a turn does not grow with their number.
"""


def weight(fragments: tuple[bytes, ...]) -> int:
    return OVERHEAD + sum(map(len, fragments)) + PER_FRAGMENT * len(fragments)


class Cache(Generic[T]):
    """Keeps the entries used last, up to a number of bytes. Only one thread may use it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[tuple[str, str], tuple[T, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._entries

    def get(self, tenant: str, id: str) -> T | None:
        entry = self._entries.get((tenant, id))
        if entry is None:
            return None
        self._entries.move_to_end((tenant, id))
        return entry[0]

    def put(self, tenant: str, id: str, value: T, size: int) -> None:
        key = tenant, id
        if key in self._entries:
            self.drop(tenant, id)
        if size > self._limit:
            return
        self._entries[key] = (value, size)
        self.bytes += size
        while self.bytes > self._limit:
            self.bytes -= self._entries.popitem(last=False)[1][1]

    def drop(self, tenant: str, id: str) -> None:
        entry = self._entries.pop((tenant, id), None)
        if entry is not None:
            self.bytes -= entry[1]

    def clear(self) -> None:
        self._entries.clear()
        self.bytes = 0


class ContextCache(Cache[Context]):
    """The contexts of responses that have ended, with counters of hits and misses."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.hits = self.misses = 0

    def keep(self, tenant: str, context: Context) -> None:
        self.put(tenant, context.response, context, weight(context.fragments()))

    def remember(self, response: NewResponse, place: ItemPosition) -> None:
        """Keeps the context of a response that was just stored at this place."""
        previous = response.previous
        before: tuple[bytes, ...] = ()
        if previous is not None:
            before = previous.fragments()
            if len(before) > MAX_FRAGMENTS:
                before = (fragment(before),)
            if previous.place is not None and previous.place.chain == place.chain:
                # The chain goes on from here, so its earlier head makes room.
                self.drop(response.tenant, previous.response)
        context = Context(
            response.id,
            response.status,
            before,
            response.input,
            response.output,
            place,
            response.model,
            response.created_at,
        )
        self.keep(response.tenant, context)
