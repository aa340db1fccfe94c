"""Files whose room on the disk is certain, and the room that is kept for removing things when it is full."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STEP = 1024 * 1024
"""What a few removals take, and in which steps it grows."""


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
        self._held = 0
        self.for_start = 0
        """Bytes of the files that the processes of this database make when they start."""

    def take(self) -> bool:
        """Makes it large enough; is it? While it is not, nothing new is to be stored.

        It grows with SQLite's log: to bring that into the database, the database may have to grow as much.
        """
        wanted = STEP + self.for_start + (size_of(self._log) + STEP // 2) // STEP * STEP
        if self._held < wanted:
            self._held = size_of(self._path)
        if self._held < wanted:
            with suppress(OSError), _opened(self._path) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _fill(file, wanted)
            self._held = size_of(self._path)
        return self._held >= wanted

    def release(self) -> bool:
        """Gives it to the disk; was there any?"""
        had = size_of(self._path)
        with suppress(OSError):
            os.truncate(self._path, 0)
        self._held = 0
        return had > 0

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Its room for the time being; nobody takes it back meanwhile."""
        with _opened(self._path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.release()
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
                self.take()


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
