"""The embedded store: one SQLite file in WAL mode, one writer thread, two readers, a cache of contexts.

Small new responses go through the backlog. Writes come after it, and calls that may need a response still in
it wait for it. Other reads do not: what they read never goes through it. Another process may have to wait for
a moment.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, TypeVar

from antiphon.store import base
from antiphon.store.cache import Cache, ContextCache, weight
from antiphon.store.changes import Changes
from antiphon.store.records import conversations, retention
from antiphon.store.records.retention import prune_portion
from antiphon.store.sqlite import background, responses
from antiphon.store.sqlite.backend import carry_out
from antiphon.store.sqlite.backlog import FLUSH_DELAY, SHARED_FLUSH_DELAY, Backlog, insert_abandoned
from antiphon.store.sqlite.clock_check import ClockCheck
from antiphon.store.sqlite.disk_space import Reserve
from antiphon.store.sqlite.journal import Journal, find_abandoned, finish_all
from antiphon.store.sqlite.opening import FILE, DeletionMark, Prepared, StoreOpener
from antiphon.store.sqlite.writer import ConnectionThread, Job, Queue, WriterThread, release_pages
from antiphon.store.statements import Steps, one
from antiphon.store.store import Access, Store

T = TypeVar("T")

# Seconds that a read waits for another process to write its rows into the database.
OTHERS_TIMEOUT = 1.0
# Seconds after which a follower reads the log for events of another process.
POLL_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class CachedConversation:
    """The items of a conversation read so far: until an item is deleted, only the later ones must be read."""

    tail: conversations.Tail
    fragments: tuple[bytes, ...]


def _close_prepared(preparing: asyncio.Future[Prepared]) -> None:
    """Closes a store that was opened for a cancelled caller."""
    if not preparing.cancelled() and preparing.exception() is None:
        connections, _, journal, _ = preparing.result()
        for db in connections:
            db.close()
        journal.close()


class SqliteStore(Store):
    """A `Store` in one file. Open it with `SqliteStore.open`, on the event loop that uses it."""

    spans_machines = False

    def __init__(
        self,
        path: Path,
        connections: Sequence[sqlite3.Connection],
        deletion_mark: DeletionMark,
        journal: Journal,
        reserve: Reserve,
        cache_bytes: int,
        delay: float,
    ) -> None:
        self.changes = Changes(POLL_INTERVAL)
        self.work_queue = None
        self.clock = time.time
        self._clock_check = ClockCheck()
        self._path = path
        self._journal = journal
        self._reserve = reserve
        self._deletion_mark = deletion_mark
        self._seen_mark = deletion_mark.read()
        self._contexts = ContextCache(cache_bytes // 2)
        self._conversations: Cache[CachedConversation] = Cache(cache_bytes // 2)
        self._reads: Queue = SimpleQueue()
        self._writes: Queue = SimpleQueue()
        self._unsent: list[Job] = []  # writes that the writer has not been given yet
        self._writer = WriterThread("antiphon-store-writer", connections[0], self._writes, reserve)
        self._readers = [
            ConnectionThread(f"antiphon-store-reader-{n}", db, self._reads)
            for n, db in enumerate(connections[1:], 1)
        ]
        self._loop = asyncio.get_running_loop()
        self._already_saved: asyncio.Future[None] = self._loop.create_future()
        self._already_saved.set_result(None)
        self._closed = False
        self._backlog = Backlog(journal, self._submit, lambda: reserve.is_whole, delay)
        for lane in (self._writer, *self._readers):
            lane.start()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        synchronous: Literal["normal", "full"] = "normal",
        cache_bytes: int = 64 * 1024 * 1024,
        max_bytes: int | None = None,
        alone: bool = False,
    ) -> SqliteStore:
        """Opens the store in a folder, made or migrated as needed; `max_bytes` limits its size.

        With `alone` no other process uses the store, so that it can collect more before it writes to the
        database.
        """
        opening = StoreOpener(folder / FILE, synchronous, max_bytes)
        preparing = asyncio.get_running_loop().run_in_executor(None, opening.prepare)
        try:
            prepared = await asyncio.shield(preparing)
        except asyncio.CancelledError:
            preparing.add_done_callback(_close_prepared)
            await asyncio.wait([preparing])
            raise
        return cls(opening.path, *prepared, cache_bytes, FLUSH_DELAY if alone else SHARED_FLUSH_DELAY)

    async def close(self) -> None:
        """Finishes the calls under way and closes the database; a second call does nothing more."""
        lanes = (self._writer, *self._readers)
        if not self._closed:
            self._closed = True
            await self._backlog.close()
            self._hand_over()
            self._writes.put(None)
            for _ in self._readers:
                self._reads.put(None)
        await asyncio.gather(*[asyncio.shield(lane.ended) for lane in lanes])
        for lane in lanes:
            lane.join()
        # The last removals have made room, which the next start will need.
        await asyncio.to_thread(self._reserve.fill)

    @property
    def stats(self) -> base.Stats:
        return base.Stats(
            reads=sum(reader.jobs for reader in self._readers),
            writes=self._writer.jobs,
            batches=self._writer.batches,
            read_seconds=sum(reader.seconds for reader in self._readers),
            write_seconds=self._writer.seconds,
            read_cpu=sum(reader.cpu for reader in self._readers),
            write_cpu=self._writer.cpu,
            cache_hits=self._contexts.hits,
            cache_misses=self._contexts.misses,
        )

    def announce(self, id: str) -> None:
        """Other processes look by themselves."""
        self.changes.notify(id)

    def check_available(self) -> None:
        """Does nothing: only a write shows whether the file can be written."""

    def _check_open(self) -> None:
        if self._closed:
            raise base.StoreError("The store is closed.")

    def _submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        then: Callable[[], None] | None = None,
        is_needed: bool = False,
    ) -> asyncio.Future[T]:
        """Queues a write; the writer gets all writes of one turn of the event loop together, as one group."""
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._unsent:
            self._loop.call_soon(self._hand_over)
        self._unsent.append(Job(future, work, then, is_needed))
        return future

    def _hand_over(self) -> None:
        for job in self._unsent:
            self._writes.put(job)
        self._unsent.clear()

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_open()
        future: asyncio.Future[T] = self._loop.create_future()
        self._reads.put(Job(future, work))
        return await future

    async def _read_flushed(self, work: Callable[[sqlite3.Connection], T], missing: Callable[[T], bool]) -> T:
        """Reads a value that may not be in the database yet, after this process and the others have written
        it.
        """
        failure: base.StoreError | None = None
        try:
            await self._backlog.flush()
        except base.StoreError as error:
            failure = error
        found = await self._read(work)
        if missing(found):
            if failure is not None:
                raise failure
            # Also when no process has rows left: one may have written them just now.
            await self._wait_for_other_processes()
            found = await self._read(work)
        return found

    async def _flush_everywhere(self) -> None:
        await self._backlog.flush()
        await self._wait_for_other_processes()

    async def _wait_for_other_processes(self) -> None:
        waiting = await asyncio.to_thread(self._journal.files_of_others)
        deadline = self._loop.time() + OTHERS_TIMEOUT
        while waiting and self._loop.time() < deadline:
            await asyncio.sleep(SHARED_FLUSH_DELAY / 5)
            now = await asyncio.to_thread(self._journal.files_of_others)
            waiting = {path: count for path, count in waiting.items() if now.get(path) == count}
        if waiting:
            # No process empties them: theirs may have died.
            left = await asyncio.to_thread(find_abandoned, self._path)
            try:
                await self._submit(lambda db: insert_abandoned(db, left), partial(finish_all, left))
            except base.StoreError:
                for journal in left:
                    journal.release()
                raise

    async def _write(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[], None] | None = None
    ) -> T:
        self._check_open()
        if not self._backlog.start_writing():
            await self._backlog.flush()
        return await self._submit(work, then)

    async def _remove(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[], None] | None = None
    ) -> T:
        """Carries out a write that must be possible on a full disk: it removes rows, or keeps running work
        alive.
        """
        self._check_open()
        if not self._backlog.start_writing():
            with suppress(base.StoreFull):
                await self._backlog.flush()
        return await self._submit(work, then, is_needed=True)

    def _refresh_contexts(self) -> bytes:
        """Drops the cached contexts if a process has deleted something since, and returns the mark."""
        mark = self._deletion_mark.read()
        if mark != self._seen_mark:
            self._contexts.clear()
            self._seen_mark = mark
        return mark

    def save(self, response: base.NewResponse) -> Awaitable[None]:
        if (response.status in base.RUNNING) != (response.owner is not None):
            raise ValueError("a response has an owner exactly as long as it is queued or in_progress")
        if self._closed or not self._backlog.accepts(response):
            return self._save_directly(response)
        if (response.tenant, response.id) in self._contexts:
            raise base.StoreConflict(f"A response with the id {response.id!r} is already stored.")
        plan = responses.plan(response)
        self._backlog.add(plan)
        self._contexts.remember(response, plan.wanted_place)
        return self._already_saved

    async def _save_directly(self, response: base.NewResponse) -> None:
        self._check_open()
        if self._backlog.is_stuck:
            await self._backlog.flush()
        mark = self._refresh_contexts()
        plan = responses.plan(response)
        place = await self._write(lambda db: responses.insert_one(db, plan))
        final = response.status not in base.RUNNING and response.append is None
        if final and mark == self._deletion_mark.read():
            self._contexts.remember(response, place)

    async def update(self, change: base.Change) -> bool:
        is_done = await self._write(lambda db: background.update(db, change))
        self.changes.notify(change.id)
        return is_done

    async def get(self, tenant: str, id: str) -> base.StoredResponse | None:
        return await self._read_flushed(lambda db: responses.get(db, tenant, id), _is_none)

    async def context(self, tenant: str, id: str) -> base.Context | None:
        mark = self._refresh_contexts()
        cached = self._contexts.get(tenant, id)
        if cached is not None:
            self._contexts.hits += 1
            return cached
        self._contexts.misses += 1
        context = await self._read_flushed(lambda db: responses.context(db, tenant, id), _is_none)
        if context is not None and context.place is not None and mark == self._deletion_mark.read():
            self._contexts.keep(tenant, context)
        return context

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
        return await self._read_flushed(
            lambda db: responses.find_items(db, tenant, ids), lambda found: len(found) < len(set(ids))
        )

    async def delete(self, tenant: str, id: str) -> bool:
        def delete(db: sqlite3.Connection) -> bool:
            return carry_out(db, retention.delete(tenant, id))

        if await self._remove(delete, self._deletion_mark.renew):
            return True
        await self._flush_everywhere()
        return await self._remove(delete, self._deletion_mark.renew)

    def beat(self, owner: str, now: float) -> None:
        if not self._closed:
            self._writes.put(Job(ThreadFuture(), lambda db: background.heartbeat(db, owner, now)))

    async def append_events(
        self,
        id: str,
        owner: str,
        first: int,
        events: Sequence[bytes],
        *,
        attempt: int = 0,
        job: bytes | None = None,
    ) -> bool:
        is_done = await self._write(
            lambda db: background.append_events(db, id, owner, first, events, attempt, job)
        )
        self.changes.notify(id)
        return is_done

    async def job(self, tenant: str, id: str) -> bytes | None:
        return await self._read(lambda db: background.job(db, tenant, id))

    async def events_after(
        self, tenant: str, id: str, after: int, limit: int
    ) -> list[base.LoggedEvent] | None:
        return await self._read(lambda db: background.events_after(db, tenant, id, after, limit))

    async def request_cancel(self, tenant: str, id: str) -> base.StoredResponse | None:
        return await self._remove(lambda db: background.request_cancel(db, tenant, id))

    async def heartbeat(self, owner: str, now: float) -> list[str]:
        return await self._remove(lambda db: background.heartbeat(db, owner, now))

    async def claim_orphans(self, me: str, now: float, stale_before: float) -> list[base.StoredResponse]:
        return await self._remove(lambda db: background.claim_orphans(db, me, now, stale_before))

    async def release(self, owner: str) -> None:
        await self._remove(lambda db: background.release(db, owner))

    async def _carry_out(self, begin: Callable[[], Steps[T]], way: Access) -> T:
        by = {"read": self._read, "write": self._write, "remove": self._remove}[way]
        return await by(lambda db: carry_out(db, begin()))

    async def conversation_context(self, tenant: str, id: str) -> bytes | None:
        known = self._conversations.get(tenant, id)
        tail = await self._tail(tenant, id, known.tail.last if known else -1)
        if tail is not None and known is not None and tail[:2] != known.tail[:2]:
            known = None
            tail = await self._tail(tenant, id, -1)
        if tail is None:
            self._conversations.drop(tenant, id)
            return None
        fragments = known.fragments if known else ()
        if tail.items:
            fragments = (*fragments, tail.items)
        found = CachedConversation(tail._replace(items=b""), fragments)
        self._conversations.put(tenant, id, found, weight(fragments))
        return base.array(fragments)

    async def _tail(self, tenant: str, id: str, after: int) -> conversations.Tail | None:
        return await self._read(lambda db: carry_out(db, conversations.read_tail(tenant, id, after)))

    async def delete_chat(self, tenant: str, id: str) -> bool:
        return await self._remove(
            lambda db: carry_out(db, retention.delete_chat(tenant, id)), self._deletion_mark.renew
        )

    async def prune(self, now: float, *, force: bool = False) -> int:
        with suppress(base.StoreFull):
            await self._flush_everywhere()
        if not force:
            await self._read(lambda db: self._clock_check.check(db, now))
        stored = await self._carry_out(retention.count_stored, "read")
        return await prune_portion(self._prune, now, stored)

    async def _prune(self, since: float, until: float) -> int:
        """Removes some of the rows that expired in this time, and gives their space back to the file
        system.
        """
        at_once = retention.BATCH
        while True:
            work = partial(_prune, since=since, until=until, at_once=at_once)
            try:
                removed = await self._remove(work, self._deletion_mark.renew)
                break
            except base.StoreFull:
                if at_once == 1:
                    raise
                at_once = max(1, at_once // 8)  # the log needs room for what one transaction changes
        # On a reader's connection, because the writer runs everything inside a transaction.
        with suppress(base.StoreFull):
            while await self._read(release_pages):
                pass
        return removed

    async def size(self) -> base.Size:
        await self._flush_everywhere()
        files = [self._path, self._path.with_name(f"{FILE}-wal")]
        bytes = sum(file.stat().st_size for file in files if file.exists())
        counts = await self._carry_out(partial(one, retention.COUNTS), "read")
        return base.Size(bytes, *(counts or ()))

    async def export(self, tenant: str | None = None) -> AsyncIterator[bytes]:
        await self._flush_everywhere()
        async for line in super().export(tenant):
            yield line


def _prune(db: sqlite3.Connection, since: float, until: float, at_once: int) -> int:
    return carry_out(db, retention.prune(since, until, at_once))


def _is_none(found: object) -> bool:
    return found is None
