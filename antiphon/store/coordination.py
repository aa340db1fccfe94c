"""What processes agree on through the store: who works on an idempotency key, and numbers that they share."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

FORGOTTEN = 3600.0
"""Seconds after which the numbers of a writer who is not heard of are removed."""


class KeyClaim(Struct, frozen=True, gc=False):
    """An idempotency key as one request claims it: key and body are digests, `holder` is the request's own.

    `expires_at` is the end of the lease, and of a response's key the end of the time that it is kept for.
    """

    tenant: str
    key: str
    body: str
    holder: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class TakenKey:
    """A key that another request has: the digest of its body, and its response once there is one."""

    body: str
    response: str | None
    expires_at: float


class SharedRow(Struct, frozen=True, gc=False):
    """Numbers that one writer has published under a name."""

    writer: str
    name: str
    numbers: tuple[float, ...]
