"""The journal: rows that are on disk but not in the database yet, in two files for each process.

A row is safe once the kernel has it, as with SQLite's own log at synchronous = normal. While the rows of one
file go to the database, new ones go to the other; then the first gets a new mark, which makes its rows void,
and they are written over. The files are mapped into memory, so that a row costs no system call; their room is
written beforehand, so that a full disk is an error and not a signal. A file whose process died has no lock
any more: whoever finds it puts its rows into the database. How a file is laid out is in `records`.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable
from mmap import mmap
from pathlib import Path
from secrets import token_hex
from weakref import finalize

from antiphon.store.base import StoreError, StoreFull
from antiphon.store.sqlite.disk_space import make_room, reason
from antiphon.store.sqlite.journal_format import (
    END,
    START,
    VERSION,
    Record,
    framed,
    has_rows,
    new_mark,
    opening,
    read,
)

log = logging.getLogger(__name__)

SUFFIX = "-journal2-"
SET_ASIDE = "-set-aside-"
"""Records that could not be brought into the database, kept for somebody to look at."""
_ROOM = 256 * 1024
"""How large a file is at first."""
_LARGE = 2 * 1024 * 1024
"""One that had to grow beyond this is cut again when it is emptied."""


class _Side:
    """One of the files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = new_mark()
        self.size = START
        # Locked before it has its name, so that nobody takes it for one whose process died.
        hidden = path.with_name(f".{path.name}")
        self.file = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX)
            make_room(self.file, 0, _ROOM)
            self.map = mmap(self.file, _ROOM)
            self.map[:START] = opening(self.mark)
            os.rename(hidden, path)
        except BaseException:
            hidden.unlink(missing_ok=True)
            os.close(self.file)
            raise

    def grow(self, size: int) -> None:
        before, after = self.map, max(size, 2 * len(self.map))
        make_room(self.file, len(before), after)
        self.map = mmap(self.file, after)
        before.close()

    def end_at(self, place: int) -> None:
        """Makes nothing of what may stand there."""
        self.map[place : place + len(END)] = END

    def empty(self) -> None:
        self.mark = new_mark()
        self.size = START
        self.end_at(START)  # first, so that under the new mark nothing old is taken for damage
        self.map[:START] = opening(self.mark)
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
        self._sides: list[_Side] = []
        self._current = 0
        try:
            for _ in range(2):
                self._sides.append(_Side(database.with_name(f"{database.name}{SUFFIX}{token_hex(8)}")))
        except BaseException:
            self.close()
            raise

    def append(self, record: bytes, version: int = VERSION) -> None:
        """Raises `StoreFull`, and leaves no trace, when there is no room."""
        side = self._sides[self._current]
        start, data = side.size, framed(side.mark, record, version)
        end = start + len(data)
        try:
            if end > len(side.map):
                side.grow(end)
            side.map[start:end] = data
            if self._syncs:
                side.map.flush()
        except OSError as error:
            side.end_at(start)
            raise StoreFull(
                f"The store's journal could not be written ({reason(error)}): nothing was written. "
                "Free some space, or remove stored responses with `antiphon store prune`."
            ) from error
        side.size = end - len(END)

    def turn(self) -> int:
        """Which file can be emptied once everything appended so far is in the database."""
        other = 1 - self._current
        if self._sides[other].size == START:
            self._current, other = other, self._current
        return other

    def empty(self, side: int) -> None:
        self._sides[side].empty()

    def others(self) -> dict[Path, bytes]:
        """The files of other processes that hold rows, with what changes when one is emptied."""
        mine = [side.path for side in self._sides]
        found: dict[Path, bytes] = {}
        for path in journals(mine[0]):
            if path not in mine:
                try:
                    with path.open("rb") as file:
                        start = file.read(START + len(END))
                    holds = has_rows(start)
                except OSError:
                    continue
                if holds:
                    found[path] = start
        return found

    def close(self) -> None:
        """Takes away what is empty; rows that never reached the database stay for the next process."""
        for side in self._sides:
            if side.size == START:
                side.path.unlink(missing_ok=True)
            side.close()


def journals(database: Path) -> list[Path]:
    """Every journal beside this database, or beside this journal of it."""
    name = database.name.partition(SUFFIX)[0]
    return sorted(database.parent.glob(f"{name}{SUFFIX}*"))


def set_aside(database: Path) -> list[Path]:
    """Every file of records that could not be brought into this database."""
    return sorted(database.parent.glob(f"{database.name}{SET_ASIDE}*"))


def records_of(path: Path) -> list[Record]:
    return list(read(path.read_bytes()))


class Abandoned:
    """A journal whose process is gone, held until it is `done`, or nothing refers to it any more."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        # Closes it once, whoever asks for that first: the number may be that of another file afterwards.
        self._close = finalize(self, os.close, file)
        self._bad: list[tuple[Record, str]] = []

    def records(self) -> list[Record]:
        self._bad.clear()
        return records_of(self.path)

    def set_aside(self, record: Record, why: str) -> None:
        """Keeps this record when the journal is done."""
        self._bad.append((record, why))

    def done(self) -> None:
        if self._bad:
            self._keep()
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Leaves the journal to whoever comes next."""
        self._close()

    def _keep(self) -> None:
        name, _, rest = self.path.name.partition(SUFFIX)
        kept = self.path.with_name(f"{name}{SET_ASIDE}{rest}")
        mark = new_mark()
        data = opening(mark) + b"".join(
            framed(mark, record.data, record.version)[: -len(END)] for record, _ in self._bad
        )
        try:
            file = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(data)
        except OSError:
            # No room for a copy; the whole file needs none.
            os.replace(self.path, kept)
        for _, why in self._bad:
            log.error("a record of the store's journal is set aside in %s: %s", kept.name, why)


def abandoned(database: Path) -> list[Abandoned]:
    found: list[Abandoned] = []
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
            raise StoreError(f"The store's journal {path.name} cannot be locked ({reason(error)}).") from None
        os.close(file)
    return found


def is_in_use(database: Path) -> bool:
    """Has a process that lives this database open? Each keeps a lock on its journals."""
    for path in journals(database):
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            continue  # its process has just taken it away
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
    return False


def finish(journals: Iterable[Abandoned]) -> None:
    for journal in journals:
        journal.done()
