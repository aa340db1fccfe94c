"""Threads that own a connection and take jobs in batches: readers, and the one writer that commits in groups.

A job is a function of the connection. After the commit comes its `then`, in the thread, whether or not the
caller is still there; futures are resolved on the event loop, once a batch.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from antiphon.store.base import StoreBusy, StoreError, StoreFull
from antiphon.store.sqlite.disk_space import Reserve, free, reason

PAGES = 200
"""How many are given back in one transaction: more than fit into SQLite's cache would go to its log first."""
FULL = (
    "The disk, or the size allowed for the store, is full: nothing was written. "
    "Free some space, or remove stored responses with `antiphon store prune`."
)


def shrink(db: sqlite3.Connection) -> bool:
    """Gives some free pages back to the file system; are there more? Not inside a transaction."""
    # As a script, because a plain execute takes only the first step, and that is one page.
    db.executescript(f"PRAGMA incremental_vacuum({PAGES})")
    ((left,),) = db.execute("PRAGMA freelist_count").fetchall()
    return bool(left)


def explain(error: Exception) -> Exception:
    """The store's own error for one of SQLite's; any other error stays what it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull(FULL)
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(FULL)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(
                "Another process holds the store's database locked: nothing was written. Try again; "
                "if it stays so, look for a program that keeps the database open in a transaction."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError(
                "The store's database is damaged or is not a database. "
                "Move the file away to start with an empty one."
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreError(
                "The store's database cannot be opened for writing. "
                "Check the owner and the permissions of its folder."
            )
    return StoreError(f"The store's database failed: {error}.")


@dataclass(slots=True)
class WriteJob:
    future: asyncio.Future[Any] | ThreadFuture[Any]
    work: Callable[[sqlite3.Connection], Any]
    then: Callable[[], None] | None = None
    is_needed: bool = False
    """May it use the room that is kept for when the disk is full? So does what removes, or keeps alive."""
    result: Any = None
    error: Exception | None = None

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


def settle(jobs: Sequence[WriteJob]) -> None:
    for job in jobs:
        job.settle()


Queue = SimpleQueue[WriteJob | None]


class Lane(threading.Thread):
    """A thread that serves a queue until it finds None in it, then closes its connection."""

    most = 4

    def __init__(self, name: str, db: sqlite3.Connection, queue: Queue) -> None:
        super().__init__(name=name, daemon=True)
        self._db = db
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self.ended = self._loop.create_future()
        self.jobs = 0
        self.batches = 0
        self.seconds = 0.0
        self.cpu = 0.0

    def run(self) -> None:
        more = True
        while more:
            jobs, more = self._take()
            if jobs:
                clock, cpu = time.perf_counter(), time.thread_time()
                self.carry_out(jobs)
                self.seconds += time.perf_counter() - clock
                self.cpu += time.thread_time() - cpu
                self.jobs += len(jobs)
                self.batches += 1
                for job in jobs:
                    if job.then is not None and job.error is None:
                        job.then()
                self._call(settle, jobs)
        self._db.close()
        self._call(self.ended.set_result, None)

    def _take(self) -> tuple[list[WriteJob], bool]:
        job = self._queue.get()
        jobs: list[WriteJob] = []
        while job is not None:
            jobs.append(job)
            if len(jobs) == self.most:
                return jobs, True
            try:
                job = self._queue.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False

    def _call(self, function: Callable[[Any], object], argument: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            # The loop is closed, and everyone who waited went with it.
            return

    def carry_out(self, jobs: Sequence[WriteJob]) -> None:
        for job in jobs:
            try:
                job.result = job.work(self._db)
            except Exception as error:
                job.error = explain(error)


class WriterThread(Lane):
    """Writes a batch in one transaction; when it fails, its jobs are tried again one by one."""

    most = 64

    def __init__(self, name: str, db: sqlite3.Connection, queue: Queue, reserve: Reserve) -> None:
        super().__init__(name, db, queue)
        self._reserve = reserve

    def carry_out(self, jobs: Sequence[WriteJob]) -> None:
        has_room = self._reserve.take()
        if has_room and len(jobs) > 1 and self._together(jobs):
            return
        for job in jobs:
            if has_room:
                self._alone(job)
            else:
                job.error = StoreFull(FULL)
            if job.is_needed and isinstance(job.error, StoreFull):
                self._from_reserve(job)

    def _from_reserve(self, job: WriteJob) -> None:
        """Tries again with the room that was kept for it, and gives back what that makes free."""
        try:
            with self._reserve.lent():
                self._checkpoint()
                job.error = None
                self._alone(job)
                with suppress(sqlite3.Error):
                    while shrink(self._db):
                        self._checkpoint()
                self._checkpoint()
        except OSError as error:
            job.error = StoreFull(f"{FULL} ({reason(error)})")

    def _checkpoint(self) -> None:
        """Brings SQLite's log into the database, if the disk has room for what the database must grow by."""
        with suppress(sqlite3.Error, OSError):
            ((_, _, name),) = self._db.execute("PRAGMA database_list").fetchall()
            ((pages,),) = self._db.execute("PRAGMA page_count").fetchall()
            ((size,),) = self._db.execute("PRAGMA page_size").fetchall()
            path = Path(name)
            if pages * size - path.stat().st_size <= free(path):
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _together(self, jobs: Sequence[WriteJob]) -> bool:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                job.result = job.work(self._db)
            self._db.execute("COMMIT")
        except Exception as error:
            self._undo()
            return not self._after(explain(error), jobs)
        return True

    def _alone(self, job: WriteJob) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            job.result = job.work(self._db)
            self._db.execute("COMMIT")
        except Exception as error:
            self._undo()
            job.error = explain(error)

    def _undo(self) -> None:
        with suppress(sqlite3.Error):
            self._db.rollback()

    def _after(self, error: Exception, jobs: Sequence[WriteJob]) -> list[WriteJob]:
        """What to try again after a failure: nothing if the database is locked, for it is locked for all."""
        if not isinstance(error, StoreBusy):
            return list(jobs)
        for job in jobs:
            job.error = error
        return []
