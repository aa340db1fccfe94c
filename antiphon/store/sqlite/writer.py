"""Threads that own a connection and take jobs in batches: readers, and the one writer that commits in groups.

A job is a function of the connection. After the commit the thread calls its `then`, whether or not the caller
still waits; futures are resolved on the event loop, once a batch.
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
from antiphon.store.sqlite.disk_space import Reserve, describe_os_error, free_bytes

PAGES = 200
"""The pages that one transaction gives back: more than fit into SQLite's cache would go to its log first."""
FULL = (
    "The disk, or the size allowed for the store, is full: nothing was written. "
    "Free some space, or remove stored responses with `antiphon store prune`."
)


def release_pages(db: sqlite3.Connection) -> bool:
    """Gives some free pages back to the file system, and returns whether there are more. Not in a
    transaction.
    """
    # As a script, because a plain execute takes only the first step, and that is one page.
    db.executescript(f"PRAGMA incremental_vacuum({PAGES})")
    ((left,),) = db.execute("PRAGMA freelist_count").fetchall()
    return bool(left)


def explain(error: Exception) -> Exception:
    """Returns the store's own error for an error of SQLite; any other error is returned as it is."""
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
class Job:
    """A function of the connection, for the writer or a reader, and the future of its caller."""

    future: asyncio.Future[Any] | ThreadFuture[Any]
    work: Callable[[sqlite3.Connection], Any]
    then: Callable[[], None] | None = None
    is_needed: bool = False
    """May it use the reserve on a full disk? Jobs that remove rows, or keep running work alive, may."""
    result: Any = None
    error: Exception | None = None

    def resolve(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


def resolve_all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.resolve()


Queue = SimpleQueue[Job | None]


class ConnectionThread(threading.Thread):
    """A thread that carries out the jobs of a queue until it reads None, and then closes its connection.

    Readers also vacuum, which SQLite does not do inside a transaction.
    """

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
        while self._carry_out_batch():
            pass  # and holds nothing of the last batch while it waits for the next
        self._db.close()
        self._call(self.ended.set_result, None)

    def _carry_out_batch(self) -> bool:
        """Waits for jobs and carries them out; False after the last."""
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
            self._call(resolve_all, jobs)
        return more

    def _take(self) -> tuple[list[Job], bool]:
        job = self._queue.get()
        jobs: list[Job] = []
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
            # The loop is closed, so that no caller waits any more.
            return

    def carry_out(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                job.result = job.work(self._db)
            except Exception as error:
                job.error = explain(error)


class WriterThread(ConnectionThread):
    """Writes a batch in one transaction; when that fails, it tries the jobs again one by one."""

    most = 64

    def __init__(self, name: str, db: sqlite3.Connection, queue: Queue, reserve: Reserve) -> None:
        super().__init__(name, db, queue)
        self._reserve = reserve

    def carry_out(self, jobs: Sequence[Job]) -> None:
        has_room = self._reserve.fill()
        if has_room and len(jobs) > 1 and self._write_together(jobs):
            return
        for job in jobs:
            if has_room:
                self._write_alone(job)
            else:
                job.error = StoreFull(FULL)
            if job.is_needed and isinstance(job.error, StoreFull):
                self._write_from_reserve(job)

    def _write_from_reserve(self, job: Job) -> None:
        """Tries a job again with the space of the reserve, and gives back the space that the job frees."""
        try:
            with self._reserve.lend():
                self._checkpoint()
                job.error = None
                self._write_alone(job)
                with suppress(sqlite3.Error):
                    while release_pages(self._db):
                        self._checkpoint()
                self._checkpoint()
        except OSError as error:
            job.error = StoreFull(f"{FULL} ({describe_os_error(error)})")

    def _checkpoint(self) -> None:
        """Writes SQLite's log into the database, if the disk has room for the growth of the database."""
        with suppress(sqlite3.Error, OSError):
            ((_, _, name),) = self._db.execute("PRAGMA database_list").fetchall()
            ((pages,),) = self._db.execute("PRAGMA page_count").fetchall()
            ((size,),) = self._db.execute("PRAGMA page_size").fetchall()
            path = Path(name)
            if pages * size - path.stat().st_size <= free_bytes(path):
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _write_together(self, jobs: Sequence[Job]) -> bool:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                job.result = job.work(self._db)
            self._db.execute("COMMIT")
        except Exception as error:
            self._undo()
            return not self._jobs_to_retry(explain(error), jobs)
        return True

    def _write_alone(self, job: Job) -> None:
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

    def _jobs_to_retry(self, error: Exception, jobs: Sequence[Job]) -> list[Job]:
        """Returns the jobs to try again after a failure: none if the database is locked."""
        if not isinstance(error, StoreBusy):
            return list(jobs)
        for job in jobs:
            job.error = error
        return []
