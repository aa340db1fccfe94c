"""What may refuse a run, or an attempt of it, before anything is asked: limits, budgets, guards."""

from typing import Protocol

from antiphon.wires.run_listener import AttemptInfo, RunInfo


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
