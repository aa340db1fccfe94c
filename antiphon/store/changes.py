"""Notifies the followers of a response that its log may have new events."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ChangeWatch:
    """A follower of one response: it calls `mark_read`, reads the log, and then awaits `wait`."""

    def __init__(self, changes: "Changes") -> None:
        self._changes = changes
        self._changed = asyncio.Event()

    def mark_read(self) -> None:
        """Forgets all changes until now, because the caller is about to read them."""
        self._changed.clear()

    def notify(self) -> None:
        self._changed.set()

    async def wait(self) -> None:
        """Waits for a change since `mark_read`, or until it is time to look without a notification."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._changes.interval):
                await self._changed.wait()


class Changes:
    """The followers of each response in this process. Events are read from the log; this only says when."""

    def __init__(self, interval: float) -> None:
        """`interval` is the number of seconds after which a follower looks without a notification."""
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
        """Wakes the followers of this response after a write."""
        for watch in self._watches.get(id, ()):
            watch.notify()

    def notify_all(self) -> None:
        """Wakes all followers, because any response may have changed."""
        for id in self._watches:
            self.notify(id)
