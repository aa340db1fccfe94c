"""The store on PostgreSQL: reads over a pool, new responses and events in groups, everything else by itself.

Contexts are cached. What has ended does not change any more, so that a cached context is good as long as its
response is there: looking that up is one row, however long the chain.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from functools import partial

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
    LoggedEvent,
    NewResponse,
    Size,
    Stats,
    StoredChat,
    StoredConversation,
    StoredItem,
    StoredResponse,
    array,
    fragment,
)
from antiphon.store.cache import Cache, weight
from antiphon.store.changes import Changes
from antiphon.store.expiry import prune_portion
from antiphon.store.postgres import (
    approvals,
    background,
    chats,
    conversations,
    event_log,
    responses,
    retention,
    schema,
    sessions,
)
from antiphon.store.postgres.announcing import CHANNEL, Announcer
from antiphon.store.postgres.clock import DatabaseClock
from antiphon.store.postgres.connection import Connection, execute
from antiphon.store.postgres.coordination_store import PostgresCoordination
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.event_log import event_batch
from antiphon.store.postgres.file_store import PostgresFiles
from antiphon.store.postgres.group_writer import GroupWriter
from antiphon.store.postgres.listening import POLLING, Listener
from antiphon.store.postgres.queue.job_worker import JobWorker
from antiphon.store.postgres.queue.jobs import Jobs
from antiphon.store.postgres.sealing_marker import check_keys
from antiphon.wires.sealing import Seal

# A cached context of more pieces is joined into one, so that a turn costs the same however many came before.
MANY = 128


class PostgresStore(PostgresFiles, PostgresCoordination):
    """A `Store` in PostgreSQL. Open it with `PostgresStore.open`, on the event loop that uses it."""

    def __init__(self, database: Database, cache_bytes: int) -> None:
        super().__init__(database)
        self.changes = Changes(POLLING)
        self.clock = DatabaseClock()
        self._jobs = Jobs()
        self._announcer = Announcer(self._notify)
        self._listener = Listener(database.url, self.changes)
        self.work_queue = JobWorker(database, self._jobs, self._listener)
        self._writer = GroupWriter(database)
        self._contexts: Cache[Context] = Cache(cache_bytes)
        self._hits = self._misses = 0

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        connections: int = 10,
        cache_bytes: int = 64 * 1024 * 1024,
        patience: float = 3.0,
        seal: Seal | None = None,
    ) -> PostgresStore:
        """Opens the store at an address, made or migrated as needed.

        Over at most so many connections; `patience` is how many seconds a caller waits for one. With a
        `seal`, a `StoreError` if other gateways on it have other sealing keys.
        """
        database = Database(url, connections=connections, patience=patience)
        await database.open()
        try:
            await database.check_writable()
            await database.write(schema.migrate)
            if seal is not None:
                await database.write(lambda db: check_keys(db, seal, database.where))
            store = cls(database, cache_bytes)
            await database.read(store.clock.read)
            await store._listener.open(patience)
        except BaseException:
            await database.close()
            raise
        return store

    async def close(self) -> None:
        """Finishes what is under way; closing twice does nothing more."""
        await self._writer.close()
        await self._announcer.close()
        await self._listener.close()
        await self.database.close()

    @property
    def stats(self) -> Stats:
        return Stats(
            reads=self.database.reads,
            writes=self.database.writes,
            batches=self._writer.groups,
            read_seconds=self.database.read_seconds,
            write_seconds=self.database.write_seconds,
            read_cpu=0.0,
            write_cpu=0.0,
            cache_hits=self._hits,
            cache_misses=self._misses,
        )

    def save(self, response: NewResponse) -> Awaitable[None]:
        if (response.status in RUNNING) != (response.owner is not None):
            raise ValueError("a response has an owner exactly as long as it is queued or in_progress")
        return self._save(response)

    async def _save(self, new: NewResponse) -> None:
        self.database.check_open()
        plan = responses.plan(new)
        previous = new.previous
        is_alone = new.append is None and new.chat is None and new.claim is None
        has_place = previous is None or previous.place is not None
        if is_alone and has_place and new.status not in RUNNING:
            self._remember_new(new, await self._writer.write(plan))
            return

        async def insert(db: Connection) -> bool:
            await chats.insert(db, plan)
            if new.owner == self.work_queue.owner:
                lock = None if new.conversation is None else f"{new.tenant} {new.conversation}"
                await self._jobs.add(db, new.tenant, new.id, lock)
            return True

        async def verify(db: Connection) -> bool | None:
            return True if await responses.is_stored(db, new.tenant, new.id) else None

        await self.database.write(insert, verify)

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
        self._contexts.put(response.tenant, response.id, context, weight(context.fragments()))

    async def update(self, change: Change) -> bool:
        written = await self.database.write(
            lambda db: background.update(db, change), lambda db: background.was_changed(db, change)
        )
        self._announce(change.id)
        return written

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        return await self.database.read(lambda db: responses.get(db, tenant, id))

    async def context(self, tenant: str, id: str) -> Context | None:
        known = self._contexts.get(tenant, id)
        if known is not None:
            cached = known
            if await self.database.read(lambda db: responses.is_where(db, tenant, cached)):
                self._hits += 1
                return cached
            self._contexts.drop(tenant, id)
        self._misses += 1
        context = await self.database.read(lambda db: responses.context(db, tenant, id))
        if context is not None and context.place is not None:
            self._contexts.put(tenant, id, context, weight(context.fragments()))
        return context

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
        return await self.database.read(lambda db: responses.find_items(db, tenant, ids))

    async def delete(self, tenant: str, id: str) -> bool:
        is_done = await self.database.write(lambda db: retention.delete(db, tenant, id))
        self._announce(id)
        return is_done

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
        self.database.check_open()
        if job is not None:
            data = job
            written = await self.database.write(
                lambda db: background.append_events(db, id, owner, first, events, attempt, data),
                lambda db: background.has_job(db, id, attempt, data),
            )
        else:
            written = bool(await self._writer.write(event_batch(id, owner, attempt, first, events)))
        self._announce(id)
        return written

    async def job(self, tenant: str, id: str) -> bytes | None:
        return await self.database.read(lambda db: background.job(db, tenant, id))

    async def events_after(self, tenant: str, id: str, after: int, limit: int) -> list[LoggedEvent] | None:
        return await self.database.read(lambda db: event_log.after(db, tenant, id, after, limit))

    async def request_cancel(self, tenant: str, id: str) -> StoredResponse | None:
        async def request(db: Connection) -> StoredResponse | None:
            # The job first: whoever replaces it locks the job and then the response, too.
            await self._jobs.abort(db, tenant, id)
            return await background.request_cancel(db, tenant, id)

        return await self.database.write(request)

    def check_available(self) -> None:
        if self._listener.is_away(self.database.answered):
            raise self.database.unavailable()

    def _announce(self, id: str) -> None:
        """Something was written about a response: tell who follows it, here and elsewhere."""
        self.changes.notify(id)
        self._announcer.announce(id)

    async def _notify(self, payload: str) -> None:
        await self.database.read(lambda db: execute(db, "SELECT pg_notify(%s, %s)", (CHANNEL, payload)))

    async def create_conversation(
        self, conversation: StoredConversation, items: Sequence[StoredItem] = ()
    ) -> None:
        await self.database.write(lambda db: conversations.create(db, conversation, items))

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return await self.database.read(lambda db: conversations.get(db, tenant, id))

    async def set_metadata(self, tenant: str, id: str, metadata: bytes) -> bool:
        return await self.database.write(lambda db: conversations.set_metadata(db, tenant, id, metadata))

    async def delete_conversation(self, tenant: str, id: str) -> bool:
        return await self.database.write(lambda db: conversations.delete(db, tenant, id))

    async def conversation_context(self, tenant: str, id: str) -> bytes | None:
        items = await self.database.read(lambda db: conversations.context(db, tenant, id))
        return None if items is None else array([items])

    async def add_items(self, tenant: str, append: Append) -> bool:
        return await self.database.write(lambda db: conversations.add(db, tenant, append))

    async def conversation_page(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True
    ) -> ItemPage | None:
        return await self.database.read(
            lambda db: conversations.page(db, tenant, id, after, limit, newest_first)
        )

    async def conversation_item(self, tenant: str, id: str, item: str) -> bytes | None:
        return await self.database.read(lambda db: conversations.item(db, tenant, id, item))

    async def delete_conversation_item(self, tenant: str, id: str, item: str) -> bool:
        return await self.database.write(lambda db: conversations.delete_item(db, tenant, id, item))

    async def create_chat(self, chat: StoredChat) -> StoredChat:
        return await self.database.write(lambda db: chats.create(db, chat))

    async def chat(self, tenant: str, id: str) -> StoredChat | None:
        return await self.database.read(lambda db: chats.get(db, tenant, id))

    async def chats(
        self, tenant: str, *, after: str | None = None, limit: int = 20, search: str = ""
    ) -> ChatPage:
        return await self.database.read(lambda db: chats.page(db, tenant, after, limit, search))

    async def edit_chat(self, tenant: str, id: str, edit: ChatEdit) -> StoredChat | None:
        return await self.database.write(lambda db: chats.edit(db, tenant, id, edit))

    async def delete_chat(self, tenant: str, id: str) -> bool:
        return await self.database.write(lambda db: retention.delete_chat(db, tenant, id))

    async def chat_of(self, tenant: str, response: str) -> str | None:
        return await self.database.read(lambda db: chats.chat_of(db, tenant, response))

    async def chat_nodes(
        self, tenant: str, id: str, *, after: str | None = None, limit: int = 20
    ) -> ChatNodes | None:
        return await self.database.read(lambda db: chats.nodes(db, tenant, id, after, limit))

    async def chat_path(self, tenant: str, id: str, last: str) -> list[ChatTurn] | None:
        return await self.database.read(lambda db: chats.path(db, tenant, id, last))

    async def create_session(self, session: BrowserSession) -> None:
        await self.database.write(lambda db: sessions.create(db, session))

    async def session(self, digest: str) -> BrowserSession | None:
        return await self.database.read(lambda db: sessions.get(db, digest))

    async def delete_session(self, digest: str) -> bool:
        return await self.database.write(lambda db: sessions.delete(db, digest))

    async def add_approval(self, approval: Approval) -> None:
        await self.database.write(lambda db: approvals.add(db, approval))

    async def take_approval(self, tenant: str, id: str, digest: str) -> bool:
        return await self.database.write(lambda db: approvals.take(db, tenant, id, digest))

    async def prune(self, now: float, *, force: bool = False) -> int:
        """What has expired by the clock of the database alone, whatever that of this machine says."""
        now = min(now, await self.database.read(self.clock.read))
        stored = await self.database.read(retention.count_stored)
        return await prune_portion(self._prune, now, stored)

    async def _prune(self, since: float, until: float) -> int:
        return await self.database.write(lambda db: retention.prune(db, since, until))

    async def size(self) -> Size:
        # A write only so that the limit of a statement can be lifted for a transaction.
        return await self.database.write(retention.size, limit=3600.0)

    async def export(self, tenant: str | None = None) -> AsyncIterator[bytes]:
        for part in (retention.export_responses, retention.export_conversations, retention.export_chats):
            after, lines = await self.database.read(partial(part, tenant=tenant, after=-1))
            while lines:
                for line in lines:
                    yield line
                after, lines = await self.database.read(partial(part, tenant=tenant, after=after))
