"""How the parts of the SQLite store reach its database."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DatabaseAccess(ABC):
    """What a part of the store reads and writes with; the store itself has it."""

    @abstractmethod
    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T: ...

    @abstractmethod
    async def _write(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[], None] | None = None
    ) -> T: ...

    @abstractmethod
    async def _remove(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[], None] | None = None
    ) -> T: ...
