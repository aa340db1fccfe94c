"""The model's cache, which its requests share: each waits until as much is free as it may fill.

llama.cpp ends every stream with an error when the cache overflows. The gateway processes of a host use one
model, so a share is a lock on a file: the others see it, and it is free again when its holder is gone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from antiphon.embedded.locks import FileLock
from antiphon.wires.slots import FairSlots

SHARES: Final = 32
_RETRY: Final = 0.05


class CacheShares:
    """The shares of a cache of `context` tokens, for the processes that meet at `path`."""

    def __init__(self, path: Path, context: int) -> None:
        self._paths = [path.with_name(f"{path.name}.share{n}") for n in range(SHARES)]
        self._context = context
        self._turn = FairSlots(1)
        self._turn_of_host = path.with_name(f"{path.name}.turn")

    @asynccontextmanager
    async def hold(self, tokens: int, tenant: str, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        """Keep room for so many tokens, or for all that there are; `on_wait` is called if it is not free."""
        needed = -(-min(tokens, self._context) * SHARES // self._context)
        held: list[FileLock] = []
        try:
            # One takes shares at a time, so that a large request is not overtaken by small ones for ever.
            async with self._turn.taken(tenant, on_wait):
                turn = FileLock(self._turn_of_host)
                try:
                    while not (turn.acquire(wait=False) and self._take(needed, held)):
                        on_wait()
                        await asyncio.sleep(_RETRY)
                finally:
                    turn.release()
            yield
        finally:
            for lock in held:
                lock.release()

    def _take(self, needed: int, held: list[FileLock]) -> bool:
        """Take what is free; is it enough by now?"""
        for path in self._paths:
            if len(held) == needed:
                break
            lock = FileLock(path)
            if lock.acquire(wait=False):
                held.append(lock)
        return len(held) == needed
