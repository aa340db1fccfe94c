"""A store whose running responses belong to processes, which are known to live by their heartbeats."""

from typing import Protocol, runtime_checkable

from antiphon.store.base import StoredResponse


@runtime_checkable
class OwnedRowStore(Protocol):
    """What a `Store` without a work queue does beside the rest.

    An owner is one process. It works on the responses that it has saved, and calls `heartbeat` before it
    saves the first of them.
    """

    async def heartbeat(self, owner: str, now: float) -> list[str]:
        """Renews the owner's heartbeat; returns the ids of its running responses that are to be cancelled."""
        ...

    def beat(self, owner: str, now: float) -> None:
        """A heartbeat from any thread, which waits for nothing: for an owner whose event loop is late."""
        ...

    async def claim_orphans(self, me: str, now: float, stale_before: float) -> list[StoredResponse]:
        """Takes over the running responses of owners that are silent since then, or have released theirs.

        Each goes to one claimer, and into its next attempt: nothing is written in an earlier one any more.
        """
        ...

    async def release(self, owner: str) -> None:
        """Lets others claim all running responses of this owner at once; it must not beat any more."""
        ...
