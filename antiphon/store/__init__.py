"""Responses, items, conversations and event logs, kept: the `Store` protocol and SQLite behind it."""

from antiphon.store.base import (
    RUNNING,
    Append,
    Change,
    Context,
    Conversation,
    ItemPosition,
    LoggedEvent,
    NewResponse,
    Page,
    Size,
    Stats,
    Store,
    StoreBusy,
    StoreConflict,
    StoredItem,
    StoredResponse,
    StoreError,
    StoreFull,
    UnknownCursor,
    fragment,
)
from antiphon.store.check import Checked, check
from antiphon.store.folder import default_data_folder
from antiphon.store.sealing_keys import Keys, load_keys
from antiphon.store.sqlite import SqliteStore

__all__ = [
    "RUNNING",
    "Append",
    "Change",
    "Checked",
    "Context",
    "Conversation",
    "ItemPosition",
    "Keys",
    "LoggedEvent",
    "NewResponse",
    "Page",
    "Size",
    "SqliteStore",
    "Stats",
    "Store",
    "StoreBusy",
    "StoreConflict",
    "StoreError",
    "StoreFull",
    "StoredItem",
    "StoredResponse",
    "UnknownCursor",
    "check",
    "default_data_folder",
    "fragment",
    "load_keys",
]
