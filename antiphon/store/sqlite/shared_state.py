"""The SQL of numbers that processes share: each writer has one row, with all that it publishes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from antiphon.store.coordination import FORGOTTEN, SharedRow

_decode = msgspec.json.Decoder(dict[str, tuple[float, ...]]).decode


def share(
    db: sqlite3.Connection, writer: str, rows: Mapping[str, Sequence[float]], now: float, heard_since: float
) -> list[SharedRow]:
    db.execute(
        "INSERT OR REPLACE INTO shared_state (writer, published_at, numbers) VALUES (?, ?, ?)",
        (writer, now, msgspec.json.encode(rows)),
    )
    others = db.execute(
        "SELECT writer, numbers FROM shared_state WHERE writer != ? AND published_at > ? ORDER BY writer",
        (writer, heard_since),
    ).fetchall()
    return [
        SharedRow(other, name, numbers) for other, told in others for name, numbers in _decode(told).items()
    ]


def prune(db: sqlite3.Connection, now: float) -> int:
    return db.execute("DELETE FROM shared_state WHERE published_at <= ?", (now - FORGOTTEN,)).rowcount
