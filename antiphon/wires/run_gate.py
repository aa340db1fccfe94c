"""What may refuse a run, or an attempt of it, before anything is asked: limits, budgets, guards."""

from typing import Protocol

from antiphon.spec.errors import ErrorPayload
from antiphon.wires.run_listener import AttemptInfo, RunInfo


class RunStopped(Exception):
    """Nothing more may be asked for this run.

    A response ends as incomplete, with the reason `budget`; where there is no response, the error is told.
    """

    def __init__(self, payload: ErrorPayload, status: int = 429) -> None:
        super().__init__(payload.message)
        self.payload = payload
        self.status = status


class Admission(Protocol):
    """One run that a gate has let in."""

    async def reserve(self, attempt: AttemptInfo) -> None:
        """Called before each attempt. Raises a `SpecError` to refuse this one: a route tries another target.

        Raises `RunStopped` to refuse this one and all that may follow.
        """


class Gate(Protocol):
    """Lets runs in."""

    async def admit(self, run: RunInfo) -> Admission:
        """Called once for each run, before its first attempt; a `SpecError` refuses it."""

    async def rejoin(self, run: RunInfo) -> Admission:
        """Called where this process goes on with a background run that the gate of another has let in."""
