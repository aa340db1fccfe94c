"""The pool of connections to PostgreSQL: reads, and writes that are each one transaction.

The pool replaces a lost connection, and the database repeats the work on another one, for as long as the
caller can wait. If the answer to a COMMIT is lost, it cannot know whether the COMMIT was carried out: then
the caller's `verify` looks for what it has written.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from antiphon.store.base import StoreConflict, StoreError, StoreUnavailable
from antiphon.store.postgres.connection import (
    RETRYABLE,
    SETTINGS,
    STATEMENT_TIMEOUT,
    Connection,
    explain,
    is_connection_lost,
    one,
    set_up,
)
from antiphon.store.records.retention import steady_time

log = logging.getLogger(__name__)
# The pool logs each attempt to connect; this module logs once that PostgreSQL is gone, or back.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)

T = TypeVar("T")

_Work = Callable[[Connection], Awaitable[T]]

CONNECTION_TIMEOUT = 3.0
"""Seconds that a caller waits for a connection."""
ANSWER_TIMEOUT = STATEMENT_TIMEOUT + 5.0
"""Seconds that a call may take: PostgreSQL may have been stopped or cut off."""
MOST_WAITING = 10_000
MAX_TRIES = 5
RETRY_DELAY = 0.05
"""Seconds before the next try over another connection."""


class CommitUnconfirmed(Exception):
    """The connection was lost while PostgreSQL carried out a COMMIT."""


def describe_address(url: str) -> str:
    """Returns the address of a database without its password; raises `StoreError` for an invalid address."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise _wrong_address(re.split('[:"]', str(error))[0].strip()) from None
    # A character that is not encoded may make a part of the password look like another field.
    if "@" in str(known.get("dbname") or "") or "@" in str(known.get("host") or "")[1:]:
        raise _wrong_address("there is an @ too many")
    if not str(known.get("port") or "0").replace(",", "").isdigit():
        raise _wrong_address("the port is not a number")
    host = known.get("host") or known.get("hostaddr") or "the local socket"
    port = f":{known['port']}" if known.get("port") else ""
    return f"{host}{port}/{known.get('dbname') or ''}"


def _wrong_address(why: str) -> StoreError:
    return StoreError(
        f"The address of PostgreSQL cannot be read ({why}). It looks like postgresql://user:password@host:5432/"
        "database, and in user and password @ is written as %40, / as %2F, : as %3A, ? as %3F and % as %25."
    )


class Database:
    """Reads and writes over a pool of at most `connections`. Open it on the event loop that uses it."""

    def __init__(
        self, url: str, *, connections: int = 10, connection_timeout: float = CONNECTION_TIMEOUT
    ) -> None:
        self.url = url
        self.where = describe_address(url)
        self.reads = self.writes = 0
        self.read_seconds = self.write_seconds = 0.0
        self.limit = ANSWER_TIMEOUT
        self._timeout = connection_timeout
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._is_gone = False
        self.answered = 0.0
        """The time of the event loop at which PostgreSQL last did what it was asked."""
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            connection_class=psycopg.AsyncConnection[tuple[Any, ...]],
            kwargs=SETTINGS,
            min_size=min(2, connections),
            max_size=connections,
            open=False,
            configure=set_up,
            name="antiphon",
            timeout=connection_timeout,
            max_waiting=MOST_WAITING,
            # The pool waits longer and longer between attempts; after this time whoever asks begins anew.
            reconnect_timeout=connection_timeout,
        )

    async def open(self) -> None:
        try:
            # First one connection by itself, because its error says what is wrong. Then the whole pool,
            # before another part of this process takes the last connection that the server allows.
            db = await psycopg.AsyncConnection.connect(self.url, **SETTINGS)
            await db.close()
            await self._pool.open(wait=True, timeout=CONNECTION_TIMEOUT)
        except PoolTimeout:
            raise StoreUnavailable(
                f"PostgreSQL at {self.where} gives fewer than {self._pool.min_size} connections. There may "
                "be too many connections already: see max_connections, and CONNECTION LIMIT of the user."
            ) from None
        except psycopg.Error as error:
            reason = str(error).strip().replace("\n", " ")
            raise StoreUnavailable(f"PostgreSQL at {self.where} cannot be opened: {reason}") from None

    async def check_writable(self) -> None:
        """Raises `StoreUnavailable` if the database takes no writes, as a replica does."""
        found = await self.read(lambda db: one(db, "SHOW transaction_read_only"))
        if found == ("on",):
            raise explain(errors.ReadOnlySqlTransaction(), self.where)

    async def close(self) -> None:
        """Finishes the calls under way; a second call does nothing more."""
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._pool.close()

    def check_open(self) -> None:
        if self._closed:
            raise StoreError("The store is closed.")

    async def read(self, work: _Work[T]) -> T:
        """Carries out `work`, again over another connection if one is lost, and returns its result."""
        self.check_open()
        deadline, started = self._deadline(), time.perf_counter()
        self.reads += 1
        try:
            async with asyncio.timeout(self.limit):
                while True:
                    try:
                        async with self._connection(deadline) as db:
                            return await work(db)
                    except psycopg.Error as error:
                        if not is_connection_lost(error) or _now() >= deadline:
                            raise explain(error, self.where) from error
                    await asyncio.sleep(RETRY_DELAY)
        except TimeoutError as error:
            raise self.unavailable() from error
        finally:
            self.read_seconds += time.perf_counter() - started

    async def write(
        self,
        work: _Work[T],
        verify: _Work[T | None] | None = None,
        *,
        pipelined: bool = False,
        limit: float | None = None,
    ) -> T:
        """Carries out `work` in a transaction, also if the caller is cancelled.

        It starts `work` again if the connection is lost, or if another transaction was in its way. `verify`
        returns the result of `work` if that has been committed already, else None. Pipelined work waits only
        for the answers that it fetches.
        """
        self.check_open()
        self.writes += 1
        task = asyncio.create_task(self._write(work, verify, pipelined, limit or self.limit))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return await asyncio.shield(task)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may have been cancelled, and asyncio would warn

    async def _write(
        self, work: _Work[T], verify: _Work[T | None] | None, pipelined: bool, limit: float
    ) -> T:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(limit):
                return await self._write_with_retries(work, verify, pipelined)
        except TimeoutError as error:
            raise self._unknown_outcome() from error
        finally:
            self.write_seconds += time.perf_counter() - started

    async def _write_with_retries(self, work: _Work[T], verify: _Work[T | None] | None, pipelined: bool) -> T:
        deadline, tries = self._deadline(), 0
        lookup: _Work[T | None] | None = None  # `verify` once a COMMIT has got no answer
        while True:
            try:
                async with self._connection(deadline) as db:
                    if lookup is not None and (found := await lookup(db)) is not None:
                        return found
                    try:
                        result = await _transact(db, work, pipelined)
                    except StoreConflict:
                        # Perhaps with itself: the transaction whose answer was lost may have ended only now.
                        if lookup is not None and (found := await lookup(db)) is not None:
                            return found
                        raise
                    if lookup is not None and not result and (found := await lookup(db)) is not None:
                        return found
                    return result
            except CommitUnconfirmed as error:
                if verify is None:
                    raise self._unknown_outcome() from error
                # From now on until the outcome is known, within the limit.
                deadline, lookup = max(deadline, self._deadline()), verify
            except psycopg.Error as error:
                tries += 1
                is_lasting = not is_connection_lost(error) or _now() >= deadline
                if is_lasting and not (isinstance(error, RETRYABLE) and tries < MAX_TRIES):
                    raise (self._unknown_outcome() if lookup else explain(error, self.where)) from error
            await asyncio.sleep(RETRY_DELAY)

    @asynccontextmanager
    async def _connection(self, deadline: float) -> AsyncIterator[Connection]:
        left = max(0.01, deadline - _now())
        try:
            async with self._pool.connection(timeout=left) as db:
                if self._is_gone:
                    self._is_gone = False
                    log.warning("PostgreSQL at %s answers again", self.where)
                yield db
            self.answered = _now()
        except PoolTimeout:
            if not self._is_gone:
                self._is_gone = True
                log.error("PostgreSQL at %s cannot be reached", self.where)
            raise

    def _deadline(self) -> float:
        return _now() + self._timeout

    def unavailable(self) -> StoreUnavailable:
        return StoreUnavailable(f"PostgreSQL at {self.where} does not answer. Try again.")

    def _unknown_outcome(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"The connection to PostgreSQL at {self.where} was lost, and it is not known whether the change "
            "was written. Look whether it was, or try again."
        )


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _transact(db: Connection, work: _Work[T], pipelined: bool) -> T:
    try:
        if pipelined:
            async with db.pipeline():
                await db.execute("BEGIN")
                result = await work(db)
        else:
            await db.execute("BEGIN")
            result = await work(db)
    except BaseException:
        with suppress(psycopg.Error):
            await db.rollback()
        raise
    try:
        await db.execute("COMMIT")
    except psycopg.Error as error:
        if is_connection_lost(error):
            raise CommitUnconfirmed from error
        raise
    return result


class DatabaseClock:
    """The clock of the database, which needs no query; `read` measures its difference to this machine."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return steady_time() + self._ahead

    async def read(self, db: Connection) -> float:
        """Reads the clock of the database, and remembers the difference to this machine's."""
        asked = steady_time()
        row = await one(db, "SELECT extract(epoch FROM clock_timestamp())::float8")
        assert row is not None
        self._ahead = float(row[0]) - (asked + steady_time()) / 2
        return self()
