"""Watches one sandbox from a thread of its own, and takes its files out once everything in it has ended.

Nothing else that the gateway does delays it. This thread alone uses and closes the files that it opens in the
sandbox, so that it never closes a number that belongs to another file in the meantime.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from antiphon.tools.code_interpreter import inside, memory
from antiphon.tools.code_interpreter.cgroup import Cgroup
from antiphon.tools.code_interpreter.leftovers import FOLDER, Leftovers, TooMuch, read_pictures, take_out

_LOOK = 0.1
_TEMPORARY = "/tmp"


class Taken(Struct):
    """What became of a sandbox."""

    stopped: Literal["", "memory", "time"] = ""
    """Which limit it was stopped for, if for any."""
    left: Leftovers | None = None
    """None: there is too much of it, the disk is full, or the sandbox used too much memory."""
    pictures: list[bytes] = []
    hidden_pictures: int = 0


class Guard:
    def __init__(self, process: int, limit: int, cgroup: Cgroup | None) -> None:
        """Guard the sandbox of this process of bubblewrap; `OSError` if it is none, or has ended.

        No code may have run in it yet. `limit` bounds its memory where no cgroup does.
        """
        self._limit = limit
        self._cgroup = cgroup
        self._is_unwanted = False
        self._first = _first_inside(process)
        self._files: list[int] = []
        try:
            self._end = self._keep(os.pidfd_open(self._first))
            root = f"/proc/{self._first}/root"
            self._data = self._keep(os.open(f"{root}{inside.DATA}", FOLDER))
            self._temporary = self._keep(os.open(f"{root}{_TEMPORARY}", FOLDER))
            if _first_inside(process) != self._first:  # else the number could be that of another process now
                raise ProcessLookupError(process)
        except OSError:
            self.close()
            raise

    def start(self, seconds: float, target: Path, most: int) -> "Future[Taken]":
        """Watch the sandbox for so many seconds at most, then put its files into a folder.

        They may have `most` bytes.
        """
        thread = ThreadPoolExecutor(1, "antiphon-sandbox")
        try:
            return thread.submit(self._work, time.monotonic() + seconds, target, most)
        finally:
            thread.shutdown(wait=False)

    def abandon(self) -> None:
        """Stop the sandbox soon; its files are not wanted any more."""
        self._is_unwanted = True

    def _work(self, deadline: float, target: Path, most: int) -> Taken:
        try:
            stopped = self._wait(deadline)
            if stopped == "memory" or self._is_unwanted:
                return Taken(stopped)
            left = None
            with suppress(TooMuch, OSError):
                left = take_out(self._data, target, most, lambda: self._is_unwanted)
            pictures = read_pictures(self._temporary, os.path.basename(inside.FIGURES))
            return Taken(stopped, left, *pictures)
        finally:
            self.close()

    def _wait(self, deadline: float) -> Literal["", "memory", "time"]:
        """Wait until the last process inside has ended; which limit was it stopped for?"""
        folders = self._data, self._temporary
        is_beyond: Callable[[], bool] = (
            self._cgroup.was_exceeded
            if self._cgroup
            else lambda: memory.is_beyond(self._limit, self._first, folders)
        )
        ended = select.poll()
        ended.register(self._end, select.POLLIN)
        # The first process of a namespace ends after all others in it.
        stopped: Literal["", "memory", "time"] = ""
        while not ended.poll(_LOOK * 1000):
            if is_beyond():
                stopped = "memory"
            elif time.monotonic() > deadline:
                stopped = stopped or "time"
            if stopped or self._is_unwanted:
                self._kill()
        return "memory" if self._cgroup and self._cgroup.was_exceeded() else stopped

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._end, signal.SIGKILL)

    def _keep(self, file: int) -> int:
        self._files.append(file)
        return file

    def close(self) -> None:
        """Close the files of the sandbox; only where it was not started."""
        while self._files:
            os.close(self._files.pop())


def _first_inside(process: int) -> int:
    """The process above all others in the sandbox: the one child of bubblewrap's outer process."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    if len(children) != 1:
        raise ProcessLookupError(process)
    return int(children[0])
