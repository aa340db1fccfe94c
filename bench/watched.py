"""`python -m bench.watched CONFIG PORT FILE`: the gateway, with a clock on its event loop that ticks.

Each tick should come a millisecond after the last.
FILE has two numbers, which whoever measures sets to zero: the longest time between two ticks, and the most
CPU time that the thread of the loop spent between two. No callback was longer than the first.
"""

import asyncio
import mmap
import socket
import struct
import sys
import time
from pathlib import Path

from antiphon.config import load
from antiphon.providers.registry import TYPES
from antiphon.server.app import App
from antiphon.server.process import GatewayServer, bind

TICK = 0.001
WORST = struct.Struct("dd")


class Clock:
    """Notes in a shared page by how much the event loop comes late."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), WORST.size)
        self._loop = asyncio.get_running_loop()
        self._tick(time.perf_counter(), time.thread_time())

    def _tick(self, wall: float, cpu: float) -> None:
        now, spent = time.perf_counter(), time.thread_time()
        worst = WORST.unpack(self._page)
        self._page[:] = WORST.pack(max(worst[0], now - wall), max(worst[1], spent - cpu))
        self._loop.call_later(TICK, self._tick, now, spent)


class Watched(GatewayServer):
    def watch(self, file: Path) -> "Watched":
        self._file = file
        return self

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._clock = Clock(self._file)


def main(config: str, port: str, file: str) -> None:
    loaded = load(config, types=TYPES)
    with bind("127.0.0.1", int(port)) as listener:
        Watched(App(loaded), loaded).watch(Path(file)).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
