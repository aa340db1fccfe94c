"""A heartbeat for an owner whose event loop is late.

The heartbeat is the event loop's own business, and a loop that is busy with one long piece of work says
nothing. Its work must not be taken for that of a dead process, so a thread says for it that it lives.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from antiphon.engine.job import Pace


class Lease(threading.Thread):
    """Asks the loop whether it is there, and calls `beat` for as long as there is no answer."""

    def __init__(self, beat: Callable[[], None], pace: Pace) -> None:
        super().__init__(name="antiphon-lease", daemon=True)
        self._beat = beat
        self._late = pace.stale / 5
        self._hung = pace.hung
        self._loop = asyncio.get_running_loop()
        self._told = threading.Event()

    def run(self) -> None:
        while not self._told.wait(self._late):
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # it is closed
                return
            ends = time.monotonic() + self._hung
            while not answered.wait(self._late) and not self._told.is_set():
                if time.monotonic() < ends:
                    self._beat()

    def stop(self) -> None:
        self._told.set()
