"""Rows that live shortly: the sessions of browsers, calls that wait for an approval, idempotency keys, and
the numbers that processes share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from antiphon.store.base import Approval, BrowserSession, KeyClaim, SharedRow, TakenKey
from antiphon.store.statements import Steps, execute, insert, one
from antiphon.store.statements import rows as find_rows

FORGOTTEN = 3600.0
"""Seconds after which the numbers of a writer that publishes no more are removed."""
SESSION = "digest, key_name, key_digest, expires_at"
# One statement takes a key, so that of several who want it at once one has it, and the others find it taken.
CLAIM = """
    INSERT INTO idempotency_keys AS taken (tenant, key, body, holder, expires_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (tenant, key) DO UPDATE
        SET body = excluded.body, holder = excluded.holder, expires_at = excluded.expires_at, response = NULL
        WHERE taken.expires_at <= ?
"""
# Not a part of the statement above: that waits for whoever writes the row, and then sees the key with its
# response, but not the response, which was stored after the statement had begun.
TAKEN = """
    SELECT body, response, expires_at, response IS NULL OR EXISTS (
        SELECT 1 FROM responses WHERE responses.id = response AND responses.tenant = idempotency_keys.tenant)
    FROM idempotency_keys WHERE tenant = ? AND key = ?
"""
REMOVE_STALE_KEY = "DELETE FROM idempotency_keys WHERE tenant = ? AND key = ? AND response = ?"
OWN_CLAIM = "tenant = ? AND key = ? AND holder = ? AND response IS NULL"
PUBLISH = """
    INSERT INTO shared_state (writer, published_at, numbers) VALUES (?, ?, ?)
    ON CONFLICT (writer) DO UPDATE SET published_at = excluded.published_at, numbers = excluded.numbers
"""
OTHERS = "SELECT writer, numbers FROM shared_state WHERE writer != ? AND published_at > ? ORDER BY writer"
CHANGE_SETTINGS = """
    INSERT INTO changed_settings AS known (base, version, data) VALUES (?, 1, ?)
    ON CONFLICT (base) DO UPDATE SET version = known.version + 1, data = excluded.data
"""
_decode = msgspec.json.Decoder(dict[str, tuple[float, ...]]).decode


def create_session(session: BrowserSession) -> Steps[None]:
    yield from insert("sessions", SESSION, session)


def session(digest: str) -> Steps[BrowserSession | None]:
    row = yield from one(f"SELECT {SESSION} FROM sessions WHERE digest = ?", digest)
    return None if row is None else BrowserSession(*row)


def delete_session(digest: str) -> Steps[bool]:
    return (yield from execute("DELETE FROM sessions WHERE digest = ?", digest)) == 1


def add_approval(approval: Approval) -> Steps[None]:
    yield from insert("approvals", "tenant, id, digest, expires_at", approval)


def take_approval(tenant: str, id: str, digest: str) -> Steps[bool]:
    """Uses an approval up. False if there is none for this very call, or if it was used before."""
    # One statement, so that of two who answer at the same time only one finds it.
    taken = "DELETE FROM approvals WHERE tenant = ? AND id = ? AND digest = ?"
    return (yield from execute(taken, tenant, id, digest)) == 1


def claim_key(claim: KeyClaim, now: float) -> Steps[TakenKey | None]:
    """Claims a key and returns None, or returns the claim of another request that holds it.

    A key is free again when it has expired, or when its response is no longer stored.
    """
    given = (claim.tenant, claim.key, claim.body, claim.holder, claim.expires_at, now)
    # The request that has it may give it back between the statements.
    while not (yield from execute(CLAIM, *given)):
        row = yield from one(TAKEN, claim.tenant, claim.key)
        if row is None:
            continue
        body, response, expires_at, is_held = row
        if is_held:
            return TakenKey(body, response, expires_at)
        yield from execute(REMOVE_STALE_KEY, claim.tenant, claim.key, response)
    return None


def renew_keys(holders: Sequence[str], expires_at: float) -> Steps[None]:
    """Moves the end of the leases of these holders; keys that have a response stay as they are."""
    yield from execute(
        "UPDATE idempotency_keys SET expires_at = ? WHERE response IS NULL AND holder = ANY(?)",
        expires_at,
        list(holders),
    )


def release_key(claim: KeyClaim) -> Steps[bool]:
    """Releases a key. False if it has a response, or belongs to another holder."""
    mine = (claim.tenant, claim.key, claim.holder)
    return (yield from execute(f"DELETE FROM idempotency_keys WHERE {OWN_CLAIM}", *mine)) == 1


def keep_key(claim: KeyClaim, response: str) -> Steps[None]:
    """Records the response of a key, unless another request has taken over its lease."""
    yield from execute(
        f"UPDATE idempotency_keys SET response = ?, expires_at = ? WHERE {OWN_CLAIM}",
        response,
        claim.expires_at,
        claim.tenant,
        claim.key,
        claim.holder,
    )


def share(
    writer: str, rows: Mapping[str, Sequence[float]], now: float, heard_since: float
) -> Steps[list[SharedRow]]:
    """Publishes the rows of a writer by name, in place of its earlier ones, and returns those of the others.

    It skips writers that have not published since `heard_since`.
    """
    yield from execute(PUBLISH, writer, now, msgspec.json.encode(rows))
    others = yield from find_rows(OTHERS, writer, heard_since)
    return [
        SharedRow(other, name, numbers)
        for other, encoded in others
        for name, numbers in _decode(encoded).items()
    ]


def change_settings(base: str, data: bytes) -> Steps[int]:
    """Stores settings that replace the ones with which gateways were started; returns their version."""
    yield from execute(CHANGE_SETTINGS, base, data)
    row = yield from one("SELECT version FROM changed_settings WHERE base = ?", base)
    assert row is not None
    return int(row[0])


def changed_settings(base: str) -> Steps[tuple[int, bytes] | None]:
    """Returns the version of the settings that replace these, and the settings themselves."""
    row = yield from one("SELECT version, data FROM changed_settings WHERE base = ?", base)
    return None if row is None else (int(row[0]), bytes(row[1]))


def prune_shared(now: float) -> Steps[int]:
    """Removes the numbers of writers that have published nothing for long."""
    return (yield from execute("DELETE FROM shared_state WHERE published_at <= ?", now - FORGOTTEN))
