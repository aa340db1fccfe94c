"""A thread that sends heartbeats for background work while the event loop is busy.

The event loop sends the heartbeats itself. While it is busy with one long piece of work it sends none, and
its responses would be taken for those of a dead process; so this thread sends them instead.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from antiphon.engine.background.job import Pace


class LateLoop(threading.Thread):
    """Asks the event loop for a sign, and calls `beat` while none comes."""

    def __init__(self, beat: Callable[[], None], pace: Pace) -> None:
        super().__init__(name="antiphon-late-loop", daemon=True)
        self._beat = beat
        self._late = pace.stale / 5
        self._hung = pace.hung
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(self._late):
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # it is closed
                return
            ends = time.monotonic() + self._hung
            while not answered.wait(self._late) and not self._stopped.is_set():
                if time.monotonic() < ends:
                    self._beat()

    def stop(self) -> None:
        self._stopped.set()
