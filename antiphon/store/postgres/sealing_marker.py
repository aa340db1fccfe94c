"""A value in the database that shows whether a gateway has the sealing keys of the others.

It is sealed with the current key of the gateway that started last. Whoever starts has to open it, and seals
it anew. So a new key that all machines have, behind the others, can become the first on one after the other,
and a machine that does not have the key by which others seal now is noticed before it takes their work.
"""

from __future__ import annotations

from antiphon.store.base import StoreError
from antiphon.store.postgres.connection import Connection, execute, one
from antiphon.wires.sealing import Seal, SealBroken

# The lock of the table itself, and not of its row, which may not be there yet.
LOCK = "LOCK TABLE sealing_marker IN EXCLUSIVE MODE"
WRITE = """
    INSERT INTO sealing_marker (sealed) VALUES (%s)
    ON CONFLICT (is_only) DO UPDATE SET sealed = excluded.sealed
"""
PURPOSE = "sealing marker"
OTHER_KEYS = (
    "The gateways on PostgreSQL at {where} seal with a key that is not in [sealing] keys here, so this one "
    "could not open their background responses: give all machines the same keys. A new key goes behind the "
    "others on all machines before it goes to the front on any."
)


async def check_keys(db: Connection, seal: Seal, where: str) -> None:
    """Refuses keys that do not open what the other gateways of a database seal."""
    await execute(db, LOCK)
    found = await one(db, "SELECT sealed FROM sealing_marker")
    if found is not None:
        try:
            seal.open(found[0], tenant="", purpose=PURPOSE)
        except SealBroken:
            raise StoreError(OTHER_KEYS.format(where=where)) from None
    await execute(db, WRITE, (seal.seal(b"", tenant="", purpose=PURPOSE),))
