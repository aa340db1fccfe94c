"""Where deltas go: the interface between the maker of an answer and its receiver."""

from typing import Protocol

from antiphon.stream.deltas import AnyDelta


class Sink(Protocol):
    """Where a provider puts what the model says.

    `put` never waits, so that it can be called where the upstream's bytes arrive. `accepted` and `queued`
    may be called again; nothing comes of it once the response is in progress.
    """

    def accepted(self) -> None:
        """The upstream has accepted the request; the first batch says so as well."""

    def queued(self) -> None:
        """The turn has to wait for a free slot before it can begin."""

    def put(self, deltas: list[AnyDelta]) -> bool:
        """Take a batch. False: it was taken, but put no more before `ready` has returned."""

    async def ready(self) -> None:
        """Wait until the next batch can be put."""


class WrappingSink:
    """A sink that hands everything on to another: a base for sinks that look at what passes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def accepted(self) -> None:
        self._sink.accepted()

    def queued(self) -> None:
        self._sink.queued()

    def put(self, deltas: list[AnyDelta]) -> bool:
        return self._sink.put(deltas)

    async def ready(self) -> None:
        await self._sink.ready()
