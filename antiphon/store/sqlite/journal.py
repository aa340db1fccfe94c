"""The journal: rows that are on disk but not in the database yet, in two files for each process.

A row is safe once the kernel has it, as with SQLite's own log at synchronous = normal. While the rows of one
file go to the database, new ones go to the other; then the first gets a new mark, which makes its rows void,
and new rows overwrite them. The files are mapped into memory, so that a row costs no system call; zeros are
written there beforehand, so that a full disk is an error and not a signal. A file whose process died has no
lock any more: another process finds it and puts its rows into the database. `journal_format` defines the
layout.
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
from antiphon.store.sqlite import journal_format
from antiphon.store.sqlite.disk_space import describe_os_error, make_room

log = logging.getLogger(__name__)

SUFFIX = "-journal2-"
SET_ASIDE = "-set-aside-"
"""Part of the name of files with records that the database did not take, kept for an operator."""
_ROOM = 256 * 1024
"""The size of a new file."""
_LARGE = 2 * 1024 * 1024
"""A file that has grown beyond this is cut to `_ROOM` when it is emptied."""


class _JournalFile:
    """One of the two files of a journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = journal_format.new_mark()
        self.size = journal_format.START
        # Locked before it has its name, so that no process takes it for an abandoned one.
        hidden = path.with_name(f".{path.name}")
        self.file = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX)
            make_room(self.file, 0, _ROOM)
            self.map = mmap(self.file, _ROOM)
            self.map[: journal_format.START] = journal_format.encode_header(self.mark)
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
        """Writes the blank that ends the records."""
        self.map[place : place + len(journal_format.END)] = journal_format.END

    def empty(self) -> None:
        self.mark = journal_format.new_mark()
        self.size = journal_format.START
        self.end_at(journal_format.START)  # first, so that no old row looks damaged under the new mark
        self.map[: journal_format.START] = journal_format.encode_header(self.mark)
        if len(self.map) > _LARGE:
            self.map.close()
            os.ftruncate(self.file, _ROOM)
            self.map = mmap(self.file, _ROOM)

    def close(self) -> None:
        self.map.close()
        os.close(self.file)


class Journal:
    """The two files of this process. Only the event loop's thread appends rows and switches files."""

    def __init__(self, database: Path, *, sync: bool = False) -> None:
        self._syncs = sync
        self._sides: list[_JournalFile] = []
        self._current = 0
        try:
            for _ in range(2):
                self._sides.append(_JournalFile(database.with_name(f"{database.name}{SUFFIX}{token_hex(8)}")))
        except BaseException:
            self.close()
            raise

    def append(self, record: bytes, version: int = journal_format.VERSION) -> None:
        """Writes a record; raises `StoreFull`, and writes nothing, if there is no room."""
        side = self._sides[self._current]
        start, data = side.size, journal_format.encode_record(side.mark, record, version)
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
                f"The store's journal could not be written ({describe_os_error(error)}): "
                "nothing was written. "
                "Free some space, or remove stored responses with `antiphon store prune`."
            ) from error
        side.size = end - len(journal_format.END)

    def switch_files(self) -> int:
        """Appends to the other file from now on, if that is empty.

        Returns the file that can be emptied once everything appended so far is in the database.
        """
        other = 1 - self._current
        if self._sides[other].size == journal_format.START:
            self._current, other = other, self._current
        return other

    def empty(self, side: int) -> None:
        self._sides[side].empty()

    def files_of_others(self) -> dict[Path, bytes]:
        """Returns the files of other processes that hold rows, with bytes that change when a file is
        emptied.
        """
        mine = [side.path for side in self._sides]
        found: dict[Path, bytes] = {}
        for path in find_journals(mine[0]):
            if path not in mine:
                try:
                    with path.open("rb") as file:
                        start = file.read(journal_format.START + len(journal_format.END))
                    holds = journal_format.has_rows(start)
                except OSError:
                    continue
                if holds:
                    found[path] = start
        return found

    def close(self) -> None:
        """Removes empty files; rows that never reached the database stay for the next process."""
        for side in self._sides:
            if side.size == journal_format.START:
                side.path.unlink(missing_ok=True)
            side.close()


def find_journals(database: Path) -> list[Path]:
    """Returns every journal beside this database, or beside this journal of it."""
    name = database.name.partition(SUFFIX)[0]
    return sorted(database.parent.glob(f"{name}{SUFFIX}*"))


def find_set_aside(database: Path) -> list[Path]:
    """Returns every file with records that this database did not take."""
    return sorted(database.parent.glob(f"{database.name}{SET_ASIDE}*"))


def read_journal(path: Path) -> list[journal_format.Record]:
    return list(journal_format.read_records(path.read_bytes()))


class AbandonedJournal:
    """A journal whose process has died, locked until `finish` or `release`, or until nothing refers to it."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        # Closes the file only once: its number may be that of another file afterwards.
        self._close = finalize(self, os.close, file)
        self._bad: list[tuple[journal_format.Record, str]] = []

    def records(self) -> list[journal_format.Record]:
        self._bad.clear()
        return read_journal(self.path)

    def set_aside(self, record: journal_format.Record, why: str) -> None:
        """Keeps this record in a file of its own when the journal is finished."""
        self._bad.append((record, why))

    def finish(self) -> None:
        if self._bad:
            self._keep()
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Unlocks the journal, so that another process can recover it."""
        self._close()

    def _keep(self) -> None:
        name, _, rest = self.path.name.partition(SUFFIX)
        kept = self.path.with_name(f"{name}{SET_ASIDE}{rest}")
        mark = journal_format.new_mark()
        data = journal_format.encode_header(mark) + b"".join(
            journal_format.encode_record(mark, record.data, record.version)[: -len(journal_format.END)]
            for record, _ in self._bad
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


def find_abandoned(database: Path) -> list[AbandonedJournal]:
    found: list[AbandonedJournal] = []
    for path in find_journals(database):
        try:
            file = os.open(path, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                found.append(AbandonedJournal(path, file))
                continue
        except BlockingIOError:
            pass
        except OSError as error:
            raise StoreError(
                f"The store's journal {path.name} cannot be locked ({describe_os_error(error)})."
            ) from None
        os.close(file)
    return found


def is_in_use(database: Path) -> bool:
    """Has a living process this database open? Each process keeps a lock on its journals."""
    for path in find_journals(database):
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            continue  # its process has just removed it
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
    return False


def finish_all(journals: Iterable[AbandonedJournal]) -> None:
    for journal in journals:
        journal.finish()
