"""Responses, items, conversations, chats and event logs: a `Store`, on SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from antiphon.config.schema import StoreSettings
from antiphon.store.base import RUNNING as RUNNING
from antiphon.store.base import Append as Append
from antiphon.store.base import Approval as Approval
from antiphon.store.base import BrowserSession as BrowserSession
from antiphon.store.base import Change as Change
from antiphon.store.base import ChatEdit as ChatEdit
from antiphon.store.base import ChatNode as ChatNode
from antiphon.store.base import ChatNodes as ChatNodes
from antiphon.store.base import Context as Context
from antiphon.store.base import Joining as Joining
from antiphon.store.base import KeyClaim as KeyClaim
from antiphon.store.base import LoggedEvent as LoggedEvent
from antiphon.store.base import NewResponse as NewResponse
from antiphon.store.base import Settlement as Settlement
from antiphon.store.base import SharedRow as SharedRow
from antiphon.store.base import StoreBusy as StoreBusy
from antiphon.store.base import StoreConflict as StoreConflict
from antiphon.store.base import StoredChat as StoredChat
from antiphon.store.base import StoredConversation as StoredConversation
from antiphon.store.base import StoredItem as StoredItem
from antiphon.store.base import StoredResponse as StoredResponse
from antiphon.store.base import StoreError as StoreError
from antiphon.store.base import StoreFull as StoreFull
from antiphon.store.base import StoreUnavailable as StoreUnavailable
from antiphon.store.base import TakenKey as TakenKey
from antiphon.store.base import UnknownCursor as UnknownCursor
from antiphon.store.file_values import FileChunk as FileChunk
from antiphon.store.file_values import FoundChunk as FoundChunk
from antiphon.store.file_values import IndexedFile as IndexedFile
from antiphon.store.file_values import UploadedFile as UploadedFile
from antiphon.store.file_values import Vectors as Vectors
from antiphon.store.file_values import VectorStore as VectorStore
from antiphon.store.sealing_keys import SealingKeys as SealingKeys
from antiphon.store.sealing_keys import load_keys as load_keys
from antiphon.store.sqlite.check import check as check
from antiphon.store.sqlite.store import SqliteStore as SqliteStore
from antiphon.store.store import Store as Store
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
        settings.url.reveal(), connections=settings.connections, cache_bytes=settings.cache_bytes, seal=seal
    )
