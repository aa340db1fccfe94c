"""Responses, items, conversations, chats and event logs: a `Store`, on SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from antiphon.config.schema import StoreSettings
from antiphon.store.base import (
    RUNNING,
    Append,
    Approval,
    BrowserSession,
    Change,
    ChatEdit,
    ChatNode,
    ChatNodes,
    Context,
    Joining,
    KeyClaim,
    LoggedEvent,
    NewResponse,
    Settlement,
    SharedRow,
    StoreBusy,
    StoreConflict,
    StoredChat,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TakenKey,
    UnknownCursor,
)
from antiphon.store.file_values import FileChunk, FoundChunk, IndexedFile, UploadedFile, Vectors, VectorStore
from antiphon.store.sealing_keys import SealingKeys, load_keys
from antiphon.store.sqlite.check import check
from antiphon.store.sqlite.store import SqliteStore
from antiphon.store.store import Store
from antiphon.wires.sealing import Seal

__all__ = [
    "RUNNING",
    "Append",
    "Approval",
    "BrowserSession",
    "Change",
    "ChatEdit",
    "ChatNode",
    "ChatNodes",
    "Context",
    "FileChunk",
    "FoundChunk",
    "IndexedFile",
    "Joining",
    "KeyClaim",
    "LoggedEvent",
    "NewResponse",
    "SealingKeys",
    "Settlement",
    "SharedRow",
    "SqliteStore",
    "Store",
    "StoreBusy",
    "StoreConflict",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoredChat",
    "StoredConversation",
    "StoredItem",
    "StoredResponse",
    "TakenKey",
    "UnknownCursor",
    "UploadedFile",
    "VectorStore",
    "Vectors",
    "check",
    "load_keys",
    "open_store",
]


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
        settings.url.reveal(), connections=settings.connections, cache_bytes=settings.cache_bytes, seal=seal
    )
