"""What may refuse a run, or an attempt of it, before anything is asked: limits, budgets, guards."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.spec.errors import ErrorPayload
from antiphon.wires.run_listener import AttemptInfo, RunInfo, Spent


class RunStopped(Exception):
    """Nothing more may be asked for this run.

    A response ends as incomplete, with the reason `budget`; without a response the client gets the error.
    """

    def __init__(self, payload: ErrorPayload, status: int = 429) -> None:
        super().__init__(payload.message)
        self.payload = payload
        self.status = status


class SettlementRow(Struct, frozen=True):
    """What a gate wants to be stored of a run that has ended: one row of each kind."""

    kind: str
    data: bytes
    """In JSON."""


class Admission(Protocol):
    """One run that a gate has let in."""

    async def reserve(self, attempt: AttemptInfo) -> None:
        """Called before each attempt. Raises a `SpecError` to refuse this one: a route tries another target.

        Raises `RunStopped` to refuse this one and all that may follow.
        """

    def settle(self, spent: Spent) -> Sequence[SettlementRow]:
        """Called once all attempts have ended, with what they took together. It must not wait.

        It is called on the event loop, also for large responses. It should not raise: what it raises is
        logged, and the run ends without rows.

        The store writes the rows in the transaction of the response, or alone where no response is stored. Of
        a background response they count only if this process is the one that ends it.
        """


class Gate(Protocol):
    """Lets runs in."""

    async def admit(self, run: RunInfo) -> Admission:
        """Called once for each run, before its first attempt; a `SpecError` refuses it.

        Whatever else it raises ends the run as an internal error.
        """

    async def rejoin(self, run: RunInfo) -> Admission:
        """Called where this process goes on with a background run that the gate of another has let in.

        Or where it only ends such a run: it was cancelled before it began, or cannot be gone on with.

        A gate refuses further attempts in `reserve`, not here. A `SpecError` ends the response as failed with
        its error, any other exception as interrupted. The run is then rejoined only to be ended, and is not
        settled where that fails as well. After a `StoreError` this is called again once the store is back.
        """
