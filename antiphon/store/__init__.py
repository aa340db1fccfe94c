"""Responses, items, conversations and event logs, kept: the `Store` protocol and SQLite behind it."""

from .base import (
    RUNNING,
    Append,
    Change,
    Context,
    Conversation,
    Item,
    LoggedEvent,
    NewResponse,
    Page,
    Place,
    Size,
    Stats,
    Store,
    StoreBusy,
    StoreConflict,
    StoredResponse,
    StoreError,
    StoreFull,
    UnknownCursor,
    fragment,
)
from .check import Checked, check
from .folder import default_data_folder
from .keys import Keys, load_keys
from .sqlite import SqliteStore

__all__ = [
    "RUNNING",
    "Append",
    "Change",
    "Checked",
    "Context",
    "Conversation",
    "Item",
    "Keys",
    "LoggedEvent",
    "NewResponse",
    "Page",
    "Place",
    "Size",
    "SqliteStore",
    "Stats",
    "Store",
    "StoreBusy",
    "StoreConflict",
    "StoreError",
    "StoreFull",
    "StoredResponse",
    "UnknownCursor",
    "check",
    "default_data_folder",
    "fragment",
    "load_keys",
]
