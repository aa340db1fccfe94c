"""Rows that are safe but not in the database yet: two files for each process.

A row is safe once the kernel has it, as with SQLite's own log at synchronous = normal. While the rows of one
file go to the database, new ones go to the other; then the counter at the start of the first moves on, which
makes its rows void, and they are written over. The files are mapped into memory, so that a row costs no
system call; their room is written beforehand, so that a full disk is an error and not a signal. A file whose
process died has no lock any more: whoever finds it puts its rows into the database.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from mmap import mmap
from pathlib import Path
from secrets import token_hex
from struct import Struct
from zlib import crc32

from .base import StoreError, StoreFull

SUFFIX = "-journal-"
_COUNTER = 8
_HEAD = Struct(">II")
"""The length of a record and its checksum, which begins with the counter: under another one it is wrong."""
_ROOM = 256 * 1024
"""How large a file is at first."""
_LARGE = 2 * 1024 * 1024
"""One that had to grow beyond this is cut again when it is emptied."""


class _Side:
    """One of the files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counter = 1  # not 0, under which an empty record would look like no record at all
        self.size = _COUNTER
        # Locked before it has its name, so that nobody takes it for one whose process died.
        hidden = path.with_name(f".{path.name}")
        self.file = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.file, fcntl.LOCK_EX)
        os.pwrite(self.file, self.counter.to_bytes(_COUNTER), 0)
        make_room(self.file, _COUNTER, _ROOM)
        self.map = mmap(self.file, _ROOM)
        os.rename(hidden, path)

    def grow(self, size: int) -> None:
        before, after = self.map, max(size, 2 * len(self.map))
        make_room(self.file, len(before), after)
        self.map = mmap(self.file, after)
        before.close()

    def void(self, start: int) -> None:
        """Makes nothing of what may have been written from there on."""
        head = slice(start, min(start + _HEAD.size, len(self.map)))
        self.map[head] = bytes(head.stop - start)

    def empty(self) -> None:
        self.counter += 1
        self.size = _COUNTER
        self.map[:_COUNTER] = self.counter.to_bytes(_COUNTER)
        if len(self.map) > _LARGE:
            self.map.close()
            os.ftruncate(self.file, _ROOM)
            self.map = mmap(self.file, _ROOM)

    def close(self) -> None:
        self.map.close()
        os.close(self.file)


class Journal:
    """The two files of this process. Only the event loop's thread appends and turns."""

    def __init__(self, database: Path, *, sync: bool = False) -> None:
        self._syncs = sync
        self._sides = [
            _Side(database.with_name(f"{database.name}{SUFFIX}{name}"))
            for name in (token_hex(8), token_hex(8))
        ]
        self._current = 0

    def append(self, record: bytes) -> None:
        """Raises `StoreFull`, and leaves no trace, when there is no room."""
        side = self._sides[self._current]
        start, end = side.size, side.size + _HEAD.size + len(record)
        try:
            if end > len(side.map):
                side.grow(end)
            side.map[start:end] = _HEAD.pack(len(record), crc32(record, side.counter)) + record
            if self._syncs:
                side.map.flush()
        except OSError as error:
            side.void(start)
            raise StoreFull(
                f"The store's journal could not be written ({error.strerror or error}): nothing was written. "
                "Free some space, or remove stored responses with `antiphon store prune`."
            ) from error
        side.size = end

    def turn(self) -> int:
        """Which file can be emptied once everything appended so far is in the database."""
        other = 1 - self._current
        if self._sides[other].size == _COUNTER:
            self._current, other = other, self._current
        return other

    def empty(self, side: int) -> None:
        self._sides[side].empty()

    def others(self) -> dict[Path, int]:
        """The files of other processes that hold rows, with their counters."""
        mine = [side.path for side in self._sides]
        found: dict[Path, int] = {}
        for path in journals(mine[0]):
            if path not in mine:
                try:
                    counter, data = _read(path)
                except OSError:
                    continue
                if next(_records(counter, data), None) is not None:
                    found[path] = counter
        return found

    def close(self) -> None:
        """Takes away what is empty; rows that never reached the database stay for the next process."""
        for side in self._sides:
            if side.size == _COUNTER:
                side.path.unlink(missing_ok=True)
            side.close()


def make_room(file: int, start: int, end: int) -> None:
    if os.pwrite(file, bytes(end - start), start) != end - start:
        raise OSError("the write was cut short")


def journals(database: Path) -> list[Path]:
    """Every journal beside this database, or beside this journal of it."""
    name = database.name.partition(SUFFIX)[0]
    return sorted(database.parent.glob(f"{name}{SUFFIX}*"))


class Abandoned:
    """A journal whose process is gone, held until it is `done`."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    def records(self) -> Iterator[bytes]:
        return _records(*_read(self._path))

    def done(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def abandoned(database: Path) -> list[Abandoned]:
    found = []
    for path in journals(database):
        try:
            file = os.open(path, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                found.append(Abandoned(path, file))
                continue
        except BlockingIOError:
            pass
        except OSError as error:
            raise StoreError(
                f"The store's journal {path.name} cannot be locked ({error.strerror})."
            ) from None
        os.close(file)
    return found


def finish(journals: Iterable[Abandoned]) -> None:
    for journal in journals:
        journal.done()


def _read(path: Path) -> tuple[int, bytes]:
    data = path.read_bytes()
    return int.from_bytes(data[:_COUNTER]), data[_COUNTER:]


def _records(counter: int, data: bytes) -> Iterator[bytes]:
    """Up to the first that is void, or not whole because the process died while it was being written."""
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        record = data[at - length : at]
        if len(record) < length or crc32(record, counter) != checksum:
            return
        yield record
