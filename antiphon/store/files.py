"""Files whose room on the disk is certain, and the room that is kept for removing things when it is full."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LEAST = 1024 * 1024
"""What a start takes, and a few removals."""
MOST = 16 * 1024 * 1024
"""As much as SQLite's log holds before it goes into the database."""


def reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def make_room(file: int, start: int, end: int) -> None:
    """Writes zeros: a part of a mapped file that the disk has no room for is a signal and not an error."""
    if os.pwrite(file, bytes(end - start), start) != end - start:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Reserve:
    """A file beside the database that is there only to be cut when the disk is full. One thread uses it."""

    def __init__(self, database: Path) -> None:
        self._counted = [database, database.with_name(f"{database.name}-wal")]
        self._path = database.with_name(f"{database.name}-reserve")
        self.is_whole = False
        """Is all of it there? While it is not, nothing new is to be stored."""

    def take(self) -> bool:
        """Makes it as large as what is stored, within limits; what does not fit is left out."""
        stored = sum(_size(path) for path in self._counted)
        wanted = min(max(LEAST, stored), MOST)
        self.is_whole = _size(self._path) >= wanted
        if not self.is_whole:
            with suppress(OSError), _opened(self._path) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.is_whole = _fill(file, wanted)
        return self.is_whole

    def release(self) -> bool:
        """Gives it to the disk; was there any?"""
        had = _size(self._path)
        with suppress(OSError):
            os.truncate(self._path, 0)
        self.is_whole = False
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


def _fill(file: int, wanted: int) -> bool:
    try:
        _allocate(file, wanted)
        return True
    except OSError:
        disk = os.fstatvfs(file)
        fits = os.fstat(file).st_blocks * 512 + disk.f_bavail * disk.f_frsize - LEAST // 16
        os.ftruncate(file, 0)
        if fits > 0:
            with suppress(OSError):
                _allocate(file, min(fits, wanted))
        return False


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        make_room(file, 0, size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
