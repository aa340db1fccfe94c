"""The store on PostgreSQL: it writes new responses and events in groups, and everything else by itself.

Contexts are cached. A response that has ended does not change any more, so a cached context is valid as long
as its response is stored: looking that up reads one row, however long the chain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from antiphon.store import base
from antiphon.store.cache import ContextCache
from antiphon.store.changes import Changes
from antiphon.store.postgres import background, event_log, responses, schema
from antiphon.store.postgres.backend import carry_out
from antiphon.store.postgres.connection import Connection, execute, one, rows
from antiphon.store.postgres.database import Database, DatabaseClock
from antiphon.store.postgres.event_log import event_batch
from antiphon.store.postgres.group_writer import GroupWriter
from antiphon.store.postgres.job_worker import JobWorker
from antiphon.store.postgres.jobs import Jobs
from antiphon.store.postgres.notifications import CHANGE_CHANNEL, POLL_WHILE_DISCONNECTED, Announcer, Listener
from antiphon.store.records import conversations, retention
from antiphon.store.records.retention import prune_portion
from antiphon.store.statements import Steps, postgres_text
from antiphon.store.store import Access, Store
from antiphon.wires.sealing import Seal, SealBroken

T = TypeVar("T")


# The lock of the table itself, and not of its row, which may not be there yet.
LOCK = "LOCK TABLE sealing_marker IN EXCLUSIVE MODE"
WRITE = """
    INSERT INTO sealing_marker (sealed) VALUES (%s)
    ON CONFLICT (is_only) DO UPDATE SET sealed = excluded.sealed
"""
PURPOSE = "sealing marker"
OTHER_KEYS = (
    "The gateways on PostgreSQL at {where} seal with a key that is not in [sealing] keys here, so this one "
    "could not open their background responses: give all machines the same keys. A new key goes behind the "
    "others on all machines before it goes to the front on any."
)


class PostgresStore(Store):
    """A `Store` in PostgreSQL. Open it with `PostgresStore.open`, on the event loop that uses it."""

    spans_machines = True
    clock: DatabaseClock
    work_queue: JobWorker

    def __init__(self, database: Database, cache_bytes: int) -> None:
        self.database = database
        self.changes = Changes(POLL_WHILE_DISCONNECTED)
        self.clock = DatabaseClock()
        self._jobs = Jobs()
        self._announcer = Announcer(self._notify)
        self._listener = Listener(database.url, self.changes)
        self.work_queue = JobWorker(database, self._jobs, self._listener)
        self._writer = GroupWriter(database)
        self._contexts = ContextCache(cache_bytes)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        connections: int = 10,
        cache_bytes: int = 64 * 1024 * 1024,
        connection_timeout: float = 3.0,
        seal: Seal | None = None,
    ) -> PostgresStore:
        """Opens the store at an address, made or migrated as needed.

        Over at most so many connections; `connection_timeout` is how many seconds a caller waits for one.
        With a `seal`, a `StoreError` if other gateways on it have other sealing keys.
        """
        database = Database(url, connections=connections, connection_timeout=connection_timeout)
        await database.open()
        try:
            await database.check_writable()
            await database.write(schema.migrate)
            if seal is not None:
                await database.write(lambda db: check_keys(db, seal, database.where))
            store = cls(database, cache_bytes)
            await database.read(store.clock.read)
            await store._listener.open(connection_timeout)
        except BaseException:
            await database.close()
            raise
        return store

    async def close(self) -> None:
        """Finishes the calls under way; a second call does nothing more."""
        await self._writer.close()
        await self._announcer.close()
        await self._listener.close()
        await self.database.close()

    @property
    def stats(self) -> base.Stats:
        return base.Stats(
            reads=self.database.reads,
            writes=self.database.writes,
            batches=self._writer.groups,
            read_seconds=self.database.read_seconds,
            write_seconds=self.database.write_seconds,
            read_cpu=0.0,
            write_cpu=0.0,
            cache_hits=self._contexts.hits,
            cache_misses=self._contexts.misses,
        )

    def save(self, response: base.NewResponse) -> Awaitable[None]:
        if (response.status in base.RUNNING) != (response.owner is not None):
            raise ValueError("a response has an owner exactly as long as it is queued or in_progress")
        return self._save(response)

    async def _save(self, new: base.NewResponse) -> None:
        self.database.check_open()
        plan = responses.plan(new)
        previous = new.previous
        is_alone = new.append is None and new.chat is None and new.claim is None
        has_place = previous is None or previous.place is not None
        if is_alone and has_place and new.status not in base.RUNNING:
            self._contexts.remember(new, await self._writer.write(plan))
            return

        async def insert(db: Connection) -> bool:
            await responses.insert(db, plan)
            if new.owner == self.work_queue.owner:
                lock = None if new.conversation is None else f"{new.tenant} {new.conversation}"
                await self._jobs.add(db, new.tenant, new.id, lock)
            return True

        async def verify(db: Connection) -> bool | None:
            return True if await responses.is_stored(db, new.tenant, new.id) else None

        await self.database.write(insert, verify)

    async def update(self, change: base.Change) -> bool:
        written = await self.database.write(
            lambda db: background.update(db, change), lambda db: background.is_change_written(db, change)
        )
        self.announce(change.id)
        return written

    async def get(self, tenant: str, id: str) -> base.StoredResponse | None:
        return await self.database.read(lambda db: responses.get(db, tenant, id))

    async def context(self, tenant: str, id: str) -> base.Context | None:
        known = self._contexts.get(tenant, id)
        if known is not None:
            cached = known
            if await self.database.read(lambda db: responses.is_unchanged(db, tenant, cached)):
                self._contexts.hits += 1
                return cached
            self._contexts.drop(tenant, id)
        self._contexts.misses += 1
        context = await self.database.read(lambda db: responses.context(db, tenant, id))
        if context is not None and context.place is not None:
            self._contexts.keep(tenant, context)
        return context

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
        return await self.database.read(lambda db: responses.find_items(db, tenant, ids))

    async def delete(self, tenant: str, id: str) -> bool:
        is_done = await self._carry_out(partial(retention.delete, tenant, id), "remove")
        self.announce(id)
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
                lambda db: background.is_job_replaced(db, id, attempt, data),
            )
        else:
            written = bool(await self._writer.write(event_batch(id, owner, attempt, first, events)))
        self.announce(id)
        return written

    async def job(self, tenant: str, id: str) -> bytes | None:
        return await self.database.read(lambda db: background.job(db, tenant, id))

    async def events_after(
        self, tenant: str, id: str, after: int, limit: int
    ) -> list[base.LoggedEvent] | None:
        return await self.database.read(lambda db: event_log.after(db, tenant, id, after, limit))

    async def request_cancel(self, tenant: str, id: str) -> base.StoredResponse | None:
        async def request(db: Connection) -> base.StoredResponse | None:
            # The job first, because replacing a job locks the job before the response, too.
            await self._jobs.abort(db, tenant, id)
            return await background.request_cancel(db, tenant, id)

        return await self.database.write(request)

    def check_available(self) -> None:
        if self._listener.is_away(self.database.answered):
            raise self.database.unavailable()

    def announce(self, id: str) -> None:
        self.changes.notify(id)
        self._announcer.announce(id)

    async def _notify(self, payload: str) -> None:
        await self.database.read(
            lambda db: execute(db, "SELECT pg_notify(%s, %s)", (CHANGE_CHANNEL, payload))
        )

    async def _carry_out(self, begin: Callable[[], Steps[T]], way: Access) -> T:
        by = self.database.read if way == "read" else self.database.write
        return await by(lambda db: carry_out(db, begin()))

    async def conversation_context(self, tenant: str, id: str) -> bytes | None:
        tail = await self._carry_out(partial(conversations.read_tail, tenant, id), "read")
        return None if tail is None else base.array([tail.items])

    async def delete_chat(self, tenant: str, id: str) -> bool:
        return await self._carry_out(partial(retention.delete_chat, tenant, id), "remove")

    async def prune(self, now: float, *, force: bool = False) -> int:
        """Removes what has expired by the clock of the database, whatever the time of this machine is."""
        now = min(now, await self.database.read(self.clock.read))
        stored = await self._carry_out(retention.count_stored, "read")
        return await prune_portion(self._prune, now, stored)

    async def _prune(self, since: float, until: float) -> int:
        return await self._carry_out(partial(retention.prune, since, until), "remove")

    async def size(self) -> base.Size:
        async def measure(db: Connection) -> base.Size:
            await execute(db, "SET LOCAL statement_timeout = 0")
            ((bytes,),) = await rows(db, schema.SIZE)
            ((*counts,),) = await rows(db, postgres_text(retention.COUNTS))
            return base.Size(bytes, *counts)

        # As a write, because only a transaction can lift the limit of its statements.
        return await self.database.write(measure, limit=3600.0)


async def check_keys(db: Connection, seal: Seal, where: str) -> None:
    """Refuses keys that do not open what the other gateways of a database seal."""
    await execute(db, LOCK)
    found = await one(db, "SELECT sealed FROM sealing_marker")
    if found is not None:
        try:
            seal.open(found[0], tenant="", purpose=PURPOSE)
        except SealBroken:
            raise base.StoreError(OTHER_KEYS.format(where=where)) from None
    await execute(db, WRITE, (seal.seal(b"", tenant="", purpose=PURPOSE),))
