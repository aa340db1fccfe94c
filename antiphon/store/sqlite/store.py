"""The embedded store: one SQLite file in WAL mode, one writer thread, two readers, a cache of contexts.

Small new responses go through the backlog. Whatever else is asked waits until the backlog is empty, so that
everyone in this process sees what was saved; another process may have to wait for a moment.
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

from antiphon.store.base import (
    RUNNING,
    Append,
    Approval,
    BrowserSession,
    Change,
    ChatEdit,
    ChatNodes,
    ChatPage,
    ChatTurn,
    Context,
    ItemPage,
    ItemPosition,
    NewResponse,
    Size,
    Stats,
    StoreConflict,
    StoredChat,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoreError,
    StoreFull,
    array,
    fragment,
)
from antiphon.store.cache import Cache, weight
from antiphon.store.changes import Changes
from antiphon.store.expiry import prune_portion
from antiphon.store.sqlite import approvals, background, chats, conversations, responses, retention, sessions
from antiphon.store.sqlite.background_store import SqliteBackground
from antiphon.store.sqlite.backlog import SHARED, SOON, Backlog, adopt
from antiphon.store.sqlite.clock_check import ClockCheck
from antiphon.store.sqlite.coordination_store import SqliteCoordination
from antiphon.store.sqlite.deletion_counter import DeletionCounter
from antiphon.store.sqlite.disk_space import Reserve
from antiphon.store.sqlite.file_store import SqliteFiles
from antiphon.store.sqlite.journal import Journal, abandoned, finish
from antiphon.store.sqlite.opening import FILE, Opening, Prepared
from antiphon.store.sqlite.writer import Lane, Queue, WriteJob, WriterThread

T = TypeVar("T")

# A cached context of more pieces is joined into one, so that a turn costs the same however many came before.
MANY = 128
# How long a look waits for another process to bring its rows into the database.
PATIENCE = 1.0
# How long a follower waits for what this process writes, before it looks for what another may have written.
POLL = 0.1


@dataclass(frozen=True, slots=True)
class Known:
    """What was read of a conversation: until something is taken out of it, only what follows must be read."""

    key: int
    removed: int
    last: int
    fragments: tuple[bytes, ...]


def _put_away(preparing: asyncio.Future[Prepared]) -> None:
    """Closes what was opened for somebody who has gone."""
    if not preparing.cancelled() and preparing.exception() is None:
        connections, _, journal, _ = preparing.result()
        for db in connections:
            db.close()
        journal.close()


class SqliteStore(SqliteFiles, SqliteCoordination, SqliteBackground):
    """A `Store` in one file. Open it with `SqliteStore.open`, on the event loop that uses it."""

    def __init__(
        self,
        path: Path,
        connections: Sequence[sqlite3.Connection],
        deletions: DeletionCounter,
        journal: Journal,
        reserve: Reserve,
        cache_bytes: int,
        soon: float,
    ) -> None:
        self.changes = Changes(POLL)
        self.work_queue = None
        self.clock = time.time
        self._clock_check = ClockCheck()
        self._path = path
        self._journal = journal
        self._reserve = reserve
        self._deletions = deletions
        self._seen = deletions.read()
        self._contexts: Cache[Context] = Cache(cache_bytes // 2)
        self._conversations: Cache[Known] = Cache(cache_bytes // 2)
        self._hits = self._misses = 0
        self._reads: Queue = SimpleQueue()
        self._writes: Queue = SimpleQueue()
        self._held: list[WriteJob] = []  # writes that the writer has not been given yet
        self._writer = WriterThread("antiphon-store-writer", connections[0], self._writes, reserve)
        self._readers = [
            Lane(f"antiphon-store-reader-{n}", db, self._reads) for n, db in enumerate(connections[1:], 1)
        ]
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._done.set_result(None)
        self._closed = False
        self._backlog = Backlog(journal, self._submit, lambda: reserve.is_whole, soon)
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
        """Opens the store in a folder, made or migrated as needed; `max_bytes` is how large it may grow.

        Who is `alone` with it lets more come together before the database gets it.
        """
        opening = Opening(folder / FILE, synchronous, max_bytes)
        preparing = asyncio.get_running_loop().run_in_executor(None, opening.prepare)
        try:
            prepared = await asyncio.shield(preparing)
        except asyncio.CancelledError:
            preparing.add_done_callback(_put_away)
            await asyncio.wait([preparing])
            raise
        return cls(opening.path, *prepared, cache_bytes, SOON if alone else SHARED)

    async def close(self) -> None:
        """Finishes what is under way and closes the database; closing twice does nothing more."""
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
        # What was removed at the end has made room, and the next start will need it.
        await asyncio.to_thread(self._reserve.take)

    @property
    def stats(self) -> Stats:
        return Stats(
            reads=sum(reader.jobs for reader in self._readers),
            writes=self._writer.jobs,
            batches=self._writer.batches,
            read_seconds=sum(reader.seconds for reader in self._readers),
            write_seconds=self._writer.seconds,
            read_cpu=sum(reader.cpu for reader in self._readers),
            write_cpu=self._writer.cpu,
            cache_hits=self._hits,
            cache_misses=self._misses,
        )

    def check_available(self) -> None:
        """Whether the file can be written is not known before."""

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("The store is closed.")

    def _submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        then: Callable[[], None] | None = None,
        is_needed: bool = False,
    ) -> asyncio.Future[T]:
        """Writes of one turn of the event loop are handed over together, so that they are one group."""
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._held:
            self._loop.call_soon(self._hand_over)
        self._held.append(WriteJob(future, work, then, is_needed))
        return future

    def _hand_over(self) -> None:
        for job in self._held:
            self._writes.put(job)
        self._held.clear()

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_open()
        future: asyncio.Future[T] = self._loop.create_future()
        self._reads.put(WriteJob(future, work))
        return await future

    async def _find(self, work: Callable[[sqlite3.Connection], T], missing: Callable[[T], bool]) -> T:
        """Reads what may still be on its way into the database, from here or from another process."""
        trouble: StoreError | None = None
        try:
            await self._backlog.settled()
        except StoreError as error:
            trouble = error
        found = await self._read(work)
        if missing(found):
            if trouble is not None:
                raise trouble
            # Also when nobody has anything left: they may just have brought it in.
            await self._others_settled()
            found = await self._read(work)
        return found

    async def _all_settled(self) -> None:
        await self._backlog.settled()
        await self._others_settled()

    async def _others_settled(self) -> None:
        waiting = await asyncio.to_thread(self._journal.others)
        deadline = self._loop.time() + PATIENCE
        while waiting and self._loop.time() < deadline:
            await asyncio.sleep(SHARED / 5)
            now = await asyncio.to_thread(self._journal.others)
            waiting = {path: count for path, count in waiting.items() if now.get(path) == count}
        if waiting:
            # Nobody empties them: their process may have died.
            left = await asyncio.to_thread(abandoned, self._path)
            try:
                await self._submit(lambda db: adopt(db, left), partial(finish, left))
            except StoreError:
                for journal in left:
                    journal.release()
                raise

    async def _write(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[], None] | None = None
    ) -> T:
        self._check_open()
        if not self._backlog.begin():
            await self._backlog.settled()
        return await self._submit(work, then)

    async def _remove(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[], None] | None = None
    ) -> T:
        """Writes what must be possible on a full disk: what removes, and what keeps work alive."""
        self._check_open()
        if not self._backlog.begin():
            with suppress(StoreFull):
                await self._backlog.settled()
        return await self._submit(work, then, is_needed=True)

    def _generation(self) -> bytes:
        """Drops the cached contexts if anything was deleted since, here or in another process."""
        generation = self._deletions.read()
        if generation != self._seen:
            self._contexts.clear()
            self._seen = generation
        return generation

    def save(self, response: NewResponse) -> Awaitable[None]:
        if (response.status in RUNNING) != (response.owner is not None):
            raise ValueError("a response has an owner exactly as long as it is queued or in_progress")
        if self._closed or not self._backlog.takes(response):
            return self._save_itself(response)
        if (response.tenant, response.id) in self._contexts:
            raise StoreConflict(f"A response with the id {response.id!r} is already stored.")
        plan = responses.plan(response)
        self._backlog.add(plan)
        self._remember_new(response, plan.wish)
        return self._done

    async def _save_itself(self, response: NewResponse) -> None:
        self._check_open()
        if self._backlog.is_stuck:
            await self._backlog.settled()
        generation = self._generation()
        plan = responses.plan(response)
        place = await self._write(lambda db: chats.insert(db, plan))
        final = response.status not in RUNNING and response.append is None
        if final and generation == self._deletions.read():
            self._remember_new(response, place)

    def _remember_new(self, response: NewResponse, place: ItemPosition) -> None:
        previous = response.previous
        before: tuple[bytes, ...] = ()
        if previous is not None:
            before = previous.fragments()
            if len(before) > MANY:
                before = (fragment(before),)
            if previous.place is not None and previous.place.chain == place.chain:
                # The chain goes on from here, so its earlier head makes room.
                self._contexts.drop(response.tenant, previous.response)
        input, output, about = response.input, response.output, (response.model, response.created_at)
        context = Context(response.id, response.status, before, input, output, place, *about)
        self._contexts.put(response.tenant, response.id, context, weight((*before, input, output)))

    async def update(self, change: Change) -> bool:
        is_done = await self._write(lambda db: background.update(db, change))
        self.changes.notify(change.id)
        return is_done

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        return await self._find(lambda db: responses.get(db, tenant, id), _is_none)

    async def context(self, tenant: str, id: str) -> Context | None:
        generation = self._generation()
        cached = self._contexts.get(tenant, id)
        if cached is not None:
            self._hits += 1
            return cached
        self._misses += 1
        context = await self._find(lambda db: responses.context(db, tenant, id), _is_none)
        if context is not None and context.place is not None and generation == self._deletions.read():
            self._contexts.put(tenant, id, context, weight(context.fragments()))
        return context

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
        return await self._find(
            lambda db: responses.find_items(db, tenant, ids), lambda found: len(found) < len(set(ids))
        )

    async def delete(self, tenant: str, id: str) -> bool:
        def delete(db: sqlite3.Connection) -> bool:
            return retention.delete(db, tenant, id)

        if await self._remove(delete, self._deletions.change):
            return True
        await self._all_settled()
        return await self._remove(delete, self._deletions.change)

    def beat(self, owner: str, now: float) -> None:
        if not self._closed:
            self._writes.put(WriteJob(ThreadFuture(), lambda db: background.heartbeat(db, owner, now)))

    async def create_conversation(
        self, conversation: StoredConversation, items: Sequence[StoredItem] = ()
    ) -> None:
        await self._write(lambda db: conversations.create(db, responses.new_key(), conversation, items))

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return await self._read(lambda db: conversations.get(db, tenant, id))

    async def set_metadata(self, tenant: str, id: str, metadata: bytes) -> bool:
        return await self._write(lambda db: conversations.set_metadata(db, tenant, id, metadata))

    async def delete_conversation(self, tenant: str, id: str) -> bool:
        return await self._remove(lambda db: conversations.delete(db, tenant, id))

    async def conversation_context(self, tenant: str, id: str) -> bytes | None:
        known = self._conversations.get(tenant, id)
        tail = await self._read(
            partial(conversations.tail, tenant=tenant, id=id, after=known.last if known else -1)
        )
        if tail is not None and known is not None and tail[:2] != (known.key, known.removed):
            known = None
            tail = await self._read(partial(conversations.tail, tenant=tenant, id=id, after=-1))
        if tail is None:
            self._conversations.drop(tenant, id)
            return None
        key, removed, last, new = tail
        fragments = known.fragments if known else ()
        if new:
            fragments = (*fragments, new)
        self._conversations.put(tenant, id, Known(key, removed, last, fragments), weight(fragments))
        return array(fragments)

    async def add_items(self, tenant: str, append: Append) -> bool:
        return await self._write(lambda db: conversations.add(db, tenant, append))

    async def conversation_page(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> ItemPage | None:
        return await self._read(lambda db: conversations.page(db, tenant, id, after, limit, newest_first))

    async def conversation_item(self, tenant: str, id: str, item: str) -> bytes | None:
        return await self._read(lambda db: conversations.item(db, tenant, id, item))

    async def delete_conversation_item(self, tenant: str, id: str, item: str) -> bool:
        return await self._remove(lambda db: conversations.delete_item(db, tenant, id, item))

    async def create_chat(self, chat: StoredChat) -> StoredChat:
        return await self._write(lambda db: chats.create(db, chat))

    async def chat(self, tenant: str, id: str) -> StoredChat | None:
        return await self._read(lambda db: chats.get(db, tenant, id))

    async def chats(
        self, tenant: str, *, after: str | None = None, limit: int = 20, search: str = ""
    ) -> ChatPage:
        return await self._read(lambda db: chats.page(db, tenant, after, limit, search))

    async def edit_chat(self, tenant: str, id: str, edit: ChatEdit) -> StoredChat | None:
        return await self._write(lambda db: chats.edit(db, tenant, id, edit))

    async def delete_chat(self, tenant: str, id: str) -> bool:
        return await self._remove(lambda db: retention.delete_chat(db, tenant, id), self._deletions.change)

    async def chat_of(self, tenant: str, response: str) -> str | None:
        return await self._read(lambda db: chats.chat_of(db, tenant, response))

    async def chat_nodes(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20
    ) -> ChatNodes | None:
        return await self._read(lambda db: chats.nodes(db, tenant, id, after, limit))

    async def chat_path(self, tenant: str, id: str, last: str) -> list[ChatTurn] | None:
        return await self._read(lambda db: chats.path(db, tenant, id, last))

    async def create_session(self, session: BrowserSession) -> None:
        await self._write(lambda db: sessions.create(db, session))

    async def session(self, digest: str) -> BrowserSession | None:
        return await self._read(lambda db: sessions.get(db, digest))

    async def delete_session(self, digest: str) -> bool:
        return await self._write(lambda db: sessions.delete(db, digest))

    async def add_approval(self, approval: Approval) -> None:
        await self._write(lambda db: approvals.add(db, approval))

    async def take_approval(self, tenant: str, id: str, digest: str) -> bool:
        return await self._write(lambda db: approvals.take(db, tenant, id, digest))

    async def prune(self, now: float, *, force: bool = False) -> int:
        with suppress(StoreFull):
            await self._all_settled()
        if not force:
            await self._read(lambda db: self._clock_check.check(db, now))
        return await prune_portion(self._prune, now, await self._read(retention.count_stored))

    async def _prune(self, since: float, until: float) -> int:
        """Remove some of what expired in this time, and give back the space."""
        at_once = retention.AT_ONCE
        while True:
            work = partial(retention.prune, since=since, until=until, at_once=at_once)
            try:
                removed = await self._remove(work, self._deletions.change)
                break
            except StoreFull:
                if at_once == 1:
                    raise
                at_once = max(1, at_once // 8)  # the log needs room for what one transaction changes
        # On a reader's connection, because the writer runs everything inside a transaction.
        with suppress(StoreFull):
            while await self._read(retention.shrink):
                pass
        return removed

    async def size(self) -> Size:
        await self._all_settled()
        files = [self._path, self._path.with_name(f"{FILE}-wal")]
        bytes = sum(file.stat().st_size for file in files if file.exists())
        return await self._read(lambda db: retention.size(db, bytes))

    async def export(self, tenant: str | None = None) -> AsyncIterator[bytes]:
        await self._all_settled()
        for part in (retention.export_responses, retention.export_conversations, retention.export_chats):
            after, lines = await self._read(partial(part, tenant=tenant, after=-1))
            while lines:
                for line in lines:
                    yield line
                after, lines = await self._read(partial(part, tenant=tenant, after=after))


def _is_none(found: object) -> bool:
    return found is None
