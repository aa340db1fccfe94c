"""What processes agree on through the store: who works on an idempotency key, and numbers that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

FORGOTTEN = 3600.0
"""Seconds after which the numbers of a writer who is not heard of are removed."""


class KeyClaim(Struct, frozen=True, gc=False):
    """An idempotency key as one request claims it: key and body are digests, nobody else has this `holder`.

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


class CoordinationStore(Protocol):
    """The part of a `Store` that lets processes agree."""

    @property
    def spans_machines(self) -> bool:
        """May processes of several machines use it at the same time?"""
        ...

    async def claim_key(self, claim: KeyClaim, now: float) -> TakenKey | None:
        """Takes a key, and returns None; or leaves it with the request that has it, and returns that.

        A key is free again when it has expired, or when its response is no longer stored.
        """
        ...

    async def renew_keys(self, holders: Sequence[str], expires_at: float) -> None:
        """Moves the end of the leases of these holders; keys that have a response stay as they are."""
        ...

    async def share(
        self, writer: str, rows: Mapping[str, Sequence[float]], now: float, heard_since: float
    ) -> list[SharedRow]:
        """Publishes the rows of a writer by name, in place of all that it had, and returns those of others.

        A writer who has not published since then is left out.
        """
        ...

    async def release_key(self, claim: KeyClaim) -> bool:
        """Gives a key back. False when it has a response, or is another holder's."""
        ...
