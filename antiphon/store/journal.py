"""Rows that are safe but not in the database yet: two append-only files for each process.

A row is safe once the kernel has it, as with SQLite's own log at synchronous = normal. While the rows of one
file go to the database, new ones go to the other; then the first is emptied and its counter moves on. A file
whose process died has no lock any more: whoever finds it puts its rows into the database.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from secrets import token_hex
from zlib import crc32

from .base import StoreError, StoreFull

SUFFIX = "-journal-"
_COUNTER = 8
_HEAD = 8
"""The length of a record and its checksum, four bytes each."""


class Journal:
    """The two files of this process. Only the event loop's thread appends and turns."""

    def __init__(self, database: Path, *, sync: bool = False) -> None:
        self._write = _write_and_sync if sync else os.write
        self._paths = [
            database.with_name(f"{database.name}{SUFFIX}{name}") for name in (token_hex(8), token_hex(8))
        ]
        self._files: list[int] = []
        self._sizes = [_COUNTER, _COUNTER]
        self._counters = [0, 0]
        self._current = 0
        for path in self._paths:
            # Locked before it has its name, so that nobody takes it for one whose process died.
            hidden = path.with_name(f".{path.name}")
            file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file, bytes(_COUNTER))
            os.rename(hidden, path)
            self._files.append(file)

    def append(self, record: bytes) -> None:
        """Raises `StoreFull`, and leaves no trace, when there is no room."""
        file, size = self._files[self._current], self._sizes[self._current]
        framed = b"%b%b%b" % (len(record).to_bytes(4), crc32(record).to_bytes(4), record)
        try:
            if self._write(file, framed) != len(framed):
                raise OSError("the write was cut short")
        except OSError as error:
            os.ftruncate(file, size)
            raise StoreFull(
                f"The store's journal could not be written ({error.strerror or error}): nothing was written. "
                "Free some space, or remove stored responses with `antiphon store prune`."
            ) from error
        self._sizes[self._current] = size + len(framed)

    def turn(self) -> int:
        """Which file can be emptied once everything appended so far is in the database."""
        other = 1 - self._current
        if self._sizes[other] == _COUNTER:
            self._current, other = other, self._current
        return other

    def empty(self, side: int) -> None:
        self._counters[side] += 1
        os.ftruncate(self._files[side], 0)
        os.write(self._files[side], self._counters[side].to_bytes(_COUNTER))
        self._sizes[side] = _COUNTER

    def others(self) -> dict[Path, int]:
        """The files of other processes that hold rows, with their counters."""
        found: dict[Path, int] = {}
        for path in journals(self._paths[0]):
            if path not in self._paths:
                try:
                    counter, rows = _read(path)
                except OSError:
                    continue
                if rows:
                    found[path] = counter
        return found

    def close(self) -> None:
        """Takes away what is empty; rows that never reached the database stay for the next process."""
        for path, file, size in zip(self._paths, self._files, self._sizes, strict=True):
            if size == _COUNTER:
                path.unlink(missing_ok=True)
            os.close(file)


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
        """Up to the first that is not whole: the process died while it was being written."""
        _, data = _read(self._path)
        at = 0
        while at + _HEAD <= len(data):
            length = int.from_bytes(data[at : at + 4])
            record = data[at + _HEAD : at + _HEAD + length]
            if len(record) < length or crc32(record).to_bytes(4) != data[at + 4 : at + _HEAD]:
                return
            yield record
            at += _HEAD + length

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


def _write_and_sync(file: int, data: bytes) -> int:
    written = os.write(file, data)
    os.fdatasync(file)
    return written
