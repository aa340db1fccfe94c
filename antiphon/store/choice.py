"""Which store a configuration asks for: PostgreSQL where it has an address, else SQLite."""

from __future__ import annotations

from pathlib import Path

from antiphon.config.schema import StoreSettings
from antiphon.store.base import StoreError
from antiphon.store.sqlite.store import SqliteStore
from antiphon.store.store import Store
from antiphon.wires.sealing import Seal

NO_PSYCOPG = "the store on PostgreSQL needs psycopg; install it with: pip install 'antiphon[postgres]'"


async def open_store(
    settings: StoreSettings, folder: Path, *, alone: bool = False, seal: Seal | None = None
) -> Store:
    """Opens the store, made or migrated as needed. `alone` is one that no other process uses.

    With a `seal`, it has to open what other gateways on the same PostgreSQL seal.
    """
    if settings.url is None:
        return await SqliteStore.open(
            folder, synchronous=settings.synchronous, cache_bytes=settings.cache_bytes, alone=alone
        )
    try:
        from antiphon.store.postgres.store import PostgresStore
    except ImportError as error:
        raise StoreError(NO_PSYCOPG) from error
    return await PostgresStore.open(
        settings.url.reveal(),
        connections=settings.connections,
        cache_bytes=settings.cache_bytes,
        seal=seal,
    )
