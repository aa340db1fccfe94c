"""One connection to PostgreSQL: its settings, its statements, and the meaning of its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.types.string import StrDumper
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from antiphon.store.base import StoreBusy, StoreError, StoreFull, StoreUnavailable

Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]

SETTINGS: dict[str, Any] = {
    "autocommit": True,
    "fallback_application_name": "antiphon",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
STATEMENT_TIMEOUT = 30
"""Seconds that a statement may take, and that a transaction may wait for the next one."""
LOCK_TIMEOUT = 5
NUL_SYMBOL = "\u2400"

CONNECTION_ERRORS = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ReadOnlySqlTransaction,
    errors.IdleInTransactionSessionTimeout,
)
"""Errors of a PostgreSQL that stops or starts, or that takes no writes."""
RETRYABLE = (errors.DeadlockDetected, errors.SerializationFailure)
"""Errors that may not occur again when a transaction is repeated."""


def replace_nul(text: str) -> str:
    """Replaces NUL, which PostgreSQL does not store, by the symbol for it."""
    return text.replace("\0", NUL_SYMBOL) if "\0" in text else text


class TextDumper(StrDumper):
    """Replaces NUL in every text that is sent."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(replace_nul(obj))


async def set_up(db: Connection) -> None:
    db.adapters.register_dumper(str, TextDumper)
    await db.execute(
        f"SET statement_timeout = '{STATEMENT_TIMEOUT:d}s'; SET lock_timeout = '{LOCK_TIMEOUT:d}s'; "
        f"SET idle_in_transaction_session_timeout = '{STATEMENT_TIMEOUT:d}s'"
    )


async def rows(db: Connection, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
    return await (await ask(db, sql, values)).fetchall()


async def one(db: Connection, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> Row | None:
    return await (await ask(db, sql, values)).fetchone()


async def execute(db: Connection, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> int:
    """Runs a statement and returns the number of rows that it has changed."""
    return (await ask(db, sql, values)).rowcount


async def ask(db: Connection, sql: str, values: Sequence[Any] | dict[str, Any]) -> psycopg.AsyncCursor[Row]:
    return await db.execute(sql, values or None, binary=True)


def is_connection_lost(error: BaseException) -> bool:
    """Is the connection the cause, so that the call may succeed over another one?"""
    if isinstance(error, CONNECTION_ERRORS):
        return True
    if isinstance(error, PoolClosed | TooManyRequests):
        return False  # there was none, and asking again at once finds none either
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


def explain(error: Exception, where: str) -> Exception:
    """Returns the store's own error, without data, for an error of psycopg; any other is returned as it
    is.
    """
    if isinstance(error, TooManyRequests):
        return StoreBusy("Too many requests wait for the database. Try again.")
    if isinstance(error, PoolClosed):
        return StoreError("The store is closed.")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailable(
            f"PostgreSQL at {where} takes no writes: it is a replica, or set to be read only. "
            "[store] url must lead to the primary."
        )
    if isinstance(error, PoolTimeout) or is_connection_lost(error):
        return StoreUnavailable(
            f"PostgreSQL at {where} cannot be reached, or does not answer: nothing was written. "
            "Try again; if it stays so, look whether it runs and whether [store] url is right."
        )
    if not isinstance(error, psycopg.Error):
        return error
    if isinstance(error, errors.DiskFull):
        return StoreFull("The disk of PostgreSQL is full: nothing was written. Free some space there.")
    if isinstance(error, (errors.LockNotAvailable, errors.QueryCanceled, *RETRYABLE)):
        return StoreBusy(
            "PostgreSQL was busy with other transactions for too long: nothing was written. Try again; if it "
            "stays so, look for a program that keeps a transaction open."
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"PostgreSQL at {where} refuses: {error.diag.message_primary}. "
            "The user of [store] url must own the tables of Antiphon."
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreError(
            f"The database at {where} has not the schema that it should have "
            f"({error.diag.message_primary}). Run `antiphon store migrate`."
        )
    return StoreError(f"PostgreSQL at {where} failed: {error.diag.message_primary or type(error).__name__}.")
