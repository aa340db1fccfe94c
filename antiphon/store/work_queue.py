"""How background responses find a process that works on them, where any of several processes may."""

from typing import Protocol


class JobHandler(Protocol):
    """What does the work on the responses of a queue."""

    async def work(self, tenant: str, id: str, attempt: int) -> None:
        """Work on a stored response until it has ended, or is no longer this attempt's.

        A `StoreError` means that it was not begun, or not handed over, and has to be tried again.
        """
        ...

    def stop_work(self, id: str) -> None:
        """Somebody asked for this response to be cancelled."""
        ...


class WorkQueue(Protocol):
    """Running responses, each of which one process works on. A response is in it as soon as it is stored."""

    owner: str
    """Who owns all responses in it: which process works on one is known by its attempt."""

    async def open(self, handler: JobHandler, slots: int) -> None:
        """Have responses worked on, so many at once, until `stop`."""
        ...

    async def stop(self) -> None:
        """Take no further response."""
        ...

    async def hand_over(self, id: str, attempt: int) -> None:
        """Let another process go on with a response that this one has left, in the next attempt.

        Nothing happens if another process has begun a later attempt meanwhile.
        """
        ...

    async def close(self) -> None: ...
