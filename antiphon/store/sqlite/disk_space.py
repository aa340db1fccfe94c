"""Files with preallocated disk space, and a reserve that allows deletion on a full disk."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STEP = 1024 * 1024
LEAST = 2 * STEP
"""What a few removals take, also when several processes make them."""
PATIENCE = 5.0
"""How many seconds to wait for another process that has the reserve."""


def reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def make_room(file: int, start: int, end: int) -> None:
    """Writes zeros: a part of a mapped file that the disk has no room for is a signal and not an error."""
    if os.pwrite(file, bytes(end - start), start) != end - start:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Reserve:
    """A file beside the database that is there only to be cut when the disk is full. One thread uses it."""

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._path = database.with_name(f"{database.name}-reserve")
        self._journals = f"{database.name}-journal*"
        self._held = 0
        self._for_start = 0
        self.is_whole = True
        """Was it large enough when it was looked at last? Other threads may read this."""

    def take(self) -> bool:
        """Makes it large enough; is it? While it is not, nothing new is to be stored.

        It grows with SQLite's log: to bring that into the database, the database may have to grow as much.
        """
        wanted = LEAST + self._for_start + (size_of(self._log) + STEP // 2) // STEP * STEP
        if self._held < wanted:
            self._held = size_of(self._path)
        if self._held < wanted:
            with suppress(OSError), _opened(self._path) as file:
                if _lock(file):
                    _fill(file, wanted)
            self._held = size_of(self._path)
        self.is_whole = self._held >= wanted
        return self.is_whole

    def count_journals(self) -> None:
        """A start will need room for as many as there were at most; those of other processes come and go."""
        now = sum(size_of(path) for path in self._path.parent.glob(self._journals))
        self._for_start = max(self._for_start, now)

    @property
    def exists(self) -> bool:
        return self._path.exists()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Its room for the time being; nobody takes it back meanwhile."""
        with _opened(self._path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.count_journals()
            os.ftruncate(file, 0)
            self._held = 0
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
                self.take()


def _lock(file: int) -> bool:
    """Lock it. Another process that holds it fills the reserve, or has borrowed it: wait a while for that."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(0.002)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def free(path: Path) -> int:
    """How many bytes the disk has left."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _fill(file: int, wanted: int) -> None:
    """Makes a file as large as this, or what fits of it."""
    try:
        _allocate(file, wanted)
    except OSError:
        disk = os.fstatvfs(file)
        fits = os.fstat(file).st_blocks * 512 + disk.f_bavail * disk.f_frsize - STEP // 16
        os.ftruncate(file, 0)
        if fits > 0:
            _allocate(file, min(fits, wanted))


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        make_room(file, 0, size)


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
