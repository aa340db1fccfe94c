"""One model process for the host: which gateway process runs it, and how all of them use it and its cache.

The owner holds a lock for as long as its child lives, and writes the address and the key into a file that
only its user can read. A process that uses the model holds a shared lock, so that the owner does not unload
it.

llama.cpp ends every stream with an error when the model's cache overflows, so each request waits until as
much of it is free as it may fill. A share of the cache is a lock on a file, too: all processes see it, and
the kernel frees it when its holder ends.
"""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from antiphon.embedded.locks import FileLock
from antiphon.wires.slots import FairSlots


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model answers, and what it takes."""

    url: str
    key: str
    n_ctx: int
    """Tokens of context for one request."""
    model: str
    tools: bool = False
    """Its chat template takes tools and shows calls."""
    thinks: bool = False
    """Its chat template has a switch for thinking."""

    def __repr__(self) -> str:
        return f"Endpoint({self.url}, {self.model}, n_ctx={self.n_ctx})"


class ProcessSharing:
    """The files by which processes with the same settings agree."""

    def __init__(self, folder: Path, *settings: object) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
        self.path = folder / name
        self._address = folder / f"{name}.json"
        self._use = folder / f"{name}.use"
        self._owner = FileLock(folder / f"{name}.owner")
        self._unloading = FileLock(self._use)

    def try_to_own(self) -> bool:
        """Become the owner, unless another process is; return whether this process is the owner."""
        return self._owner.acquire(wait=False)

    def release_ownership(self) -> None:
        """Takes the address back and lets another process become the owner."""
        if self._owner.is_held:
            self._address.unlink(missing_ok=True)
            self._owner.release()

    def write_endpoint(self, endpoint: Endpoint) -> None:
        temporary = self._address.with_suffix(f".{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(endpoint), file)
            temporary.replace(self._address)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self.touch()

    def read_endpoint(self) -> Endpoint | None:
        try:
            return Endpoint(**json.loads(self._address.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def is_owned(self) -> bool:
        """Does any process run the model?"""
        look = FileLock(self._owner.path, shared=True)
        free = look.acquire(wait=False)
        look.release()
        return not free

    def use(self) -> FileLock:
        """A lock to hold while using the model; it is refused only while the owner unloads."""
        return FileLock(self._use, shared=True)

    def touch(self) -> None:
        """Record that the model was in use until now."""
        self._use.touch(mode=0o600)

    def unused_for(self) -> float:
        try:
            return max(0.0, time.time() - self._use.stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    def begin_unloading(self) -> bool:
        """Lock the model against use; False if a process uses it."""
        return self._unloading.acquire(wait=False)

    def end_unloading(self) -> None:
        self._unloading.release()


SHARES: Final = 32
_POLL_INTERVAL: Final = 0.05


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
            # One request takes shares at a time, so that small ones do not overtake a large one for ever.
            async with self._turn.hold(tenant, on_wait):
                turn = FileLock(self._turn_of_host)
                try:
                    while not (turn.acquire(wait=False) and self._take(needed, held)):
                        on_wait()
                        await asyncio.sleep(_POLL_INTERVAL)
                finally:
                    turn.release()
            yield
        finally:
            for lock in held:
                lock.release()

    def _take(self, needed: int, held: list[FileLock]) -> bool:
        """Take free shares; return whether they are enough by now."""
        for path in self._paths:
            if len(held) == needed:
                break
            lock = FileLock(path)
            if lock.acquire(wait=False):
                held.append(lock)
        return len(held) == needed
