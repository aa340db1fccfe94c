"""Opens the embedded store: its connections, its files, and the journals of processes that died."""

from __future__ import annotations

import logging
import mmap
import os
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from antiphon.store.base import StoreBusy, StoreError, StoreFull
from antiphon.store.folder import make_folder
from antiphon.store.sqlite.backend import prepare_index
from antiphon.store.sqlite.backlog import insert_abandoned
from antiphon.store.sqlite.disk_space import Reserve, describe_os_error, make_room
from antiphon.store.sqlite.journal import Journal, find_abandoned, finish_all
from antiphon.store.sqlite.responses import new_key
from antiphon.store.sqlite.schema import migrate
from antiphon.store.sqlite.writer import explain

log = logging.getLogger(__name__)

FILE = "antiphon.db"
READERS = 2
BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that has locked the database."""


class DeletionMark:
    """Eight random bytes beside the database, shared by all processes; each deletion replaces them."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(file).st_size < 8:
                make_room(file, 0, 8)
            self._bytes = mmap.mmap(file, 8)
        finally:
            os.close(file)

    def read(self) -> bytes:
        return self._bytes[:8]

    def renew(self) -> None:
        self._bytes[:8] = os.urandom(8)


def connect(path: Path, synchronous: Literal["normal", "full"], max_bytes: int | None) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    db.create_function("new_key", 0, new_key)
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        enable_wal(db, time.monotonic() + BUSY_TIMEOUT)
        db.execute(f"PRAGMA synchronous = {synchronous}")
        # 16 MB of log between checkpoints: a quarter less CPU for each save than with SQLite's default of 4.
        db.execute("PRAGMA wal_autocheckpoint = 4000")
        db.execute("PRAGMA journal_size_limit = 67108864")
        # Temporary data of a statement is kept in memory, not in a file that is made for each group.
        db.execute("PRAGMA temp_store = MEMORY")
        if max_bytes is not None:
            (page,) = db.execute("PRAGMA page_size").fetchone()
            db.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page)}")
    except BaseException:
        db.close()
        raise
    return db


def enable_wal(db: sqlite3.Connection, deadline: float) -> None:
    """Switches to SQLite's log, and waits while another process does so: here SQLite itself gives up at
    once.
    """
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.005)


def recover_journals(db: sqlite3.Connection, path: Path) -> None:
    """Puts the rows that processes left in their journals when they died into the database."""
    left = find_abandoned(path)
    if not left:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        insert_abandoned(db, left)
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        for journal in left:
            journal.release()
        raise
    finish_all(left)


Prepared = tuple[list[sqlite3.Connection], DeletionMark, Journal, Reserve]


@dataclass(frozen=True, slots=True)
class StoreOpener:
    """Opens a store, in a thread."""

    path: Path
    synchronous: Literal["normal", "full"]
    max_bytes: int | None

    def prepare(self) -> Prepared:
        make_folder(self.path.parent)
        reserve = Reserve(self.path)
        try:
            try:
                prepared = self._open(is_last=False)
            except (sqlite3.OperationalError, OSError) as error:
                if not reserve.exists or isinstance(explain(error), StoreBusy):
                    raise
                with reserve.lend():
                    prepared = self._open(is_last=True)
        except (sqlite3.Error, OSError, StoreError) as error:
            why = describe_os_error(error) if isinstance(error, OSError) else explain(error)
            kind = StoreFull if isinstance(why, StoreFull) else StoreError
            raise kind(f"The store {self.path} cannot be opened. {why}") from error
        reserve.count_journals()
        if not reserve.fill():
            log.warning("the disk of the store %s is nearly full: nothing new is stored", self.path)
        return *prepared, reserve

    def _open(self, is_last: bool) -> tuple[list[sqlite3.Connection], DeletionMark, Journal]:
        connections: list[sqlite3.Connection] = []
        try:
            # SQLite gives the files that it adds the mode of this one. Only a new file is opened here:
            # closing an existing one would release the locks of other stores in this process.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            for _ in range(1 + READERS):
                connections.append(connect(self.path, self.synchronous, self.max_bytes))
            migrate(connections[0])
            prepare_index(connections[0])
            self._recover_journals(connections[0], is_last)
            mark = DeletionMark(self.path.with_name(f"{FILE}-cell"))
            return connections, mark, Journal(self.path, sync=self.synchronous == "full")
        except BaseException:
            for db in connections:
                db.close()
            raise

    def _recover_journals(self, db: sqlite3.Connection, is_last: bool) -> None:
        try:
            recover_journals(db, self.path)
        except sqlite3.OperationalError as error:
            if not is_last or not isinstance(explain(error), StoreFull):
                raise
            log.error("what a process that died left in its journal stays there until there is room")
