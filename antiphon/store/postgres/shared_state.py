"""The SQL of numbers that processes share: each writer has one row, with all that it publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from antiphon.store.coordination import FORGOTTEN, SharedRow
from antiphon.store.postgres.connection import Connection, execute, rows

PUBLISH = """
    INSERT INTO shared_state (writer, published_at, numbers) VALUES (%s, %s, %s)
    ON CONFLICT (writer) DO UPDATE SET published_at = excluded.published_at, numbers = excluded.numbers
"""
_decode = msgspec.json.Decoder(dict[str, tuple[float, ...]]).decode


async def share(
    db: Connection, writer: str, published: Mapping[str, Sequence[float]], now: float, heard_since: float
) -> list[SharedRow]:
    await execute(db, PUBLISH, (writer, now, msgspec.json.encode(published)))
    others = await rows(
        db,
        "SELECT writer, numbers FROM shared_state WHERE writer != %s AND published_at > %s ORDER BY writer",
        (writer, heard_since),
    )
    return [
        SharedRow(other, name, numbers) for other, told in others for name, numbers in _decode(told).items()
    ]


async def prune(db: Connection, now: float) -> int:
    return await execute(db, "DELETE FROM shared_state WHERE published_at <= %s", (now - FORGOTTEN,))
