"""Tells those who follow a response that there may be something new in its log."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ChangeWatch:
    """One who follows: `seen` before reading the log, then `wait`."""

    def __init__(self, changes: "Changes") -> None:
        self._changes = changes
        self._changed = asyncio.Event()

    def seen(self) -> None:
        """What has changed until now is about to be read."""
        self._changed.clear()

    def notify(self) -> None:
        self._changed.set()

    async def wait(self) -> None:
        """Wait for a change since `seen`, or until it is time to look without having heard of one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._changes.interval):
                await self._changed.wait()


class Changes:
    """Who follows which response in this process. The log is the truth; this only says when to read it."""

    def __init__(self, interval: float) -> None:
        """`interval` is how many seconds a follower waits at most before it looks by itself."""
        self.interval = interval
        self._watches: dict[str, set[ChangeWatch]] = {}

    @contextmanager
    def watch(self, id: str) -> Iterator[ChangeWatch]:
        watch = ChangeWatch(self)
        self._watches.setdefault(id, set()).add(watch)
        try:
            yield watch
        finally:
            watching = self._watches[id]
            watching.discard(watch)
            if not watching:
                del self._watches[id]

    def notify(self, id: str) -> None:
        """Something was written about this response."""
        for watch in self._watches.get(id, ()):
            watch.notify()

    def notify_all(self) -> None:
        """Something may have been written about any response."""
        for id in self._watches:
            self.notify(id)
