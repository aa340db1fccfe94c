"""The SQL of idempotency keys: of each the digests of key and body, who holds it, and its response."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.coordination import KeyClaim, TakenKey
from antiphon.store.postgres.connection import Connection, execute, one

# One statement takes a key, so that of several who want it at once one has it, and the others find it taken.
CLAIM = """
    INSERT INTO idempotency_keys AS taken (tenant, key, body, holder, expires_at)
    VALUES (%(tenant)s, %(key)s, %(body)s, %(holder)s, %(expires_at)s)
    ON CONFLICT (tenant, key) DO UPDATE
        SET body = excluded.body, holder = excluded.holder, expires_at = excluded.expires_at, response = NULL
        WHERE taken.expires_at <= %(now)s
    RETURNING 1
"""
# Not a part of the statement above: that waits for whoever writes the row, and then sees the key with its
# response, but not the response, which was stored after the statement had begun.
TAKEN = """
    SELECT body, response, expires_at, response IS NULL OR EXISTS (
        SELECT 1 FROM responses WHERE responses.id = response AND responses.tenant = idempotency_keys.tenant)
    FROM idempotency_keys WHERE tenant = %s AND key = %s
"""
# A response that was deleted, or has expired, leaves its key to the next request.
LEFT = "DELETE FROM idempotency_keys WHERE tenant = %s AND key = %s AND response = %s"
MINE = "tenant = %s AND key = %s AND holder = %s AND response IS NULL"


async def claim(db: Connection, claim: KeyClaim, now: float) -> TakenKey | None:
    given = {
        "tenant": claim.tenant,
        "key": claim.key,
        "body": claim.body,
        "holder": claim.holder,
        "expires_at": claim.expires_at,
        "now": now,
    }
    # Who has it may give it back between the statements.
    while await one(db, CLAIM, given) is None:
        row = await one(db, TAKEN, (claim.tenant, claim.key))
        if row is None:
            continue
        body, response, expires_at, is_held = row
        if is_held:
            return TakenKey(body, response, expires_at)
        await execute(db, LEFT, (claim.tenant, claim.key, response))
    return None


async def renew(db: Connection, holders: Sequence[str], expires_at: float) -> None:
    await execute(
        db,
        "UPDATE idempotency_keys SET expires_at = %s WHERE response IS NULL AND holder = ANY(%s)",
        (expires_at, list(holders)),
    )


async def release(db: Connection, claim: KeyClaim) -> bool:
    mine = (claim.tenant, claim.key, claim.holder)
    return await execute(db, f"DELETE FROM idempotency_keys WHERE {MINE}", mine) == 1


async def keep(db: Connection, claim: KeyClaim, response: str) -> None:
    """The key has a response from now on; one whose lease another request has taken over stays that one's."""
    await execute(
        db,
        f"UPDATE idempotency_keys SET response = %s, expires_at = %s WHERE {MINE}",
        (response, claim.expires_at, claim.tenant, claim.key, claim.holder),
    )
