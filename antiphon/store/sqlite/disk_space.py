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
"""The space that a few removals need, also in several processes at once."""
LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process that has locked the reserve."""


def describe_os_error(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def make_room(file: int, start: int, end: int) -> None:
    """Writes zeros, because a write to a mapped file on a full disk would be a signal and not an error."""
    if os.pwrite(file, bytes(end - start), start) != end - start:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Reserve:
    """A file beside the database that takes up space, and is cut when the disk is full. One thread uses
    it.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._path = database.with_name(f"{database.name}-reserve")
        self._journals = f"{database.name}-journal*"
        self._size = 0
        self._size_for_start = 0
        self.is_whole = True
        """Was the file large enough at the last look? Other threads may read this."""

    def fill(self) -> bool:
        """Makes the file large enough, and returns whether it is. While it is not, the store takes nothing
        new.

        It grows with SQLite's log: a checkpoint of the log may make the database grow by as much.
        """
        wanted = LEAST + self._size_for_start + (size_of(self._log) + STEP // 2) // STEP * STEP
        if self._size < wanted:
            self._size = size_of(self._path)
        if self._size < wanted:
            with suppress(OSError), _open_file(self._path) as file:
                if _lock(file):
                    _fill(file, wanted)
            self._size = size_of(self._path)
        self.is_whole = self._size >= wanted
        return self.is_whole

    def count_journals(self) -> None:
        """Adds the size of the journals to the reserve, because a start makes new ones.

        Journals of other processes come and go, so the largest sum counts.
        """
        now = sum(size_of(path) for path in self._path.parent.glob(self._journals))
        self._size_for_start = max(self._size_for_start, now)

    @property
    def exists(self) -> bool:
        return self._path.exists()

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Frees the space for the caller; no other process takes it back until the caller has finished."""
        with _open_file(self._path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.count_journals()
            os.ftruncate(file, 0)
            self._size = 0
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
                self.fill()


def _lock(file: int) -> bool:
    """Locks the file, and waits a while for another process that fills the reserve or has borrowed it."""
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(0.002)


@contextmanager
def _open_file(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def free_bytes(path: Path) -> int:
    """Returns the number of bytes that are free on the disk."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _fill(file: int, wanted: int) -> None:
    """Makes a file as large as this, or as large as the disk allows."""
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
