"""What `antiphon store` does with a PostgreSQL database before a gateway uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon.store.postgres.copy_from_sqlite import CopyReport, copy_store
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.schema import MIGRATIONS, applied, check_version, migrate, missing


async def pending(url: str) -> list[str]:
    """The names of the migrations that a database has not had."""
    async with _opened(url) as database:
        version, needs = await database.read(applied)
    check_version(version, needs, len(MIGRATIONS))
    return missing(version)


async def migrate_store(url: str) -> list[str]:
    """Brings a database forward; the names of what was done."""
    async with _opened(url) as database:
        return await database.write(migrate)


async def copy_into(folder: Path, url: str, report: CopyReport) -> None:
    """Copies a SQLite store into a database, which is made ready for it."""
    async with _opened(url) as database:
        await database.write(migrate)
        await copy_store(folder, database, report)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Database]:
    database = Database(url, connections=2)
    try:
        await database.open()
        yield database
    finally:
        await database.close()
