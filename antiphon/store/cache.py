"""A cache bounded in bytes, and the counter by which processes on one database invalidate it."""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from pathlib import Path
from typing import Generic, TypeVar

from antiphon.store.files import make_room

T = TypeVar("T")

OVERHEAD = 400
PER_FRAGMENT = 50


def weight(fragments: tuple[bytes, ...]) -> int:
    return OVERHEAD + sum(map(len, fragments)) + PER_FRAGMENT * len(fragments)


class Cache(Generic[T]):
    """The entries used last, up to a number of bytes. One thread uses it."""

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


class Cell:
    """Eight bytes beside the database, shared by all its processes, that change when something is deleted."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(file).st_size < 8:
                make_room(file, 0, 8)
            self._bytes = mmap.mmap(file, 8)
        finally:
            os.close(file)

    def read(self) -> bytes:
        return self._bytes[:8]

    def change(self) -> None:
        self._bytes[:8] = os.urandom(8)
