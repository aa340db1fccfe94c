"""What asks for the answer of a run: one target, the targets of a route, or the hosted loop."""

from collections.abc import Awaitable, Mapping, Set
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from antiphon.config import Target
from antiphon.engine.attempt import ask
from antiphon.engine.context import Resolved
from antiphon.engine.hosted.progress import HostedProgress, ProgressLog
from antiphon.engine.routing.continuation import Continuation, Continued, Unfinished, suppress_reasoning
from antiphon.engine.run_state import RunState
from antiphon.providers.base import Capabilities, Sink, Turn
from antiphon.stream.deltas import Finish


class Asker(Protocol):
    """Asks for one answer. There are `SingleTarget`, `TargetRouter` and `HostedLoop`, and `NoTarget`."""

    @property
    def capabilities(self) -> Capabilities:
        """What all targets that it may ask promise together."""

    def ask(self, turn: Turn, sink: Sink) -> Awaitable[None]:
        """Put the answer into the sink; its last delta is `Finish` or `Failure`."""

    def resume(
        self,
        unfinished: Unfinished | None,
        sent_events: Mapping[str, Set[str]],
        progress: HostedProgress | None,
    ) -> bool:
        """Go on with what another process has begun. False: nothing may follow that.

        `unfinished` is what there is of the answer, `sent_events` the events that each open item has had, and
        `progress` how far hosted tools have come.
        """

    def keep_progress(self, log: ProgressLog) -> HostedProgress | None:
        """Write the progress of hosted tools to this log from here on; None if there are none."""


class SingleTarget(Struct, eq=False):
    """Asks one target."""

    run: RunState
    target: Target
    context: Resolved
    capabilities: Capabilities
    unfinished: Unfinished | None = None
    """What another process has made of the answer, where that is to be gone on with."""

    __repr__ = object.__repr__  # which shows no prompt

    def ask(self, turn: Turn, sink: Sink) -> Awaitable[None]:
        if self.unfinished is None:
            return ask(self.run, self.target, turn, sink, self.context)
        return self._continue(self.unfinished, turn, sink)

    async def _continue(self, unfinished: Unfinished, turn: Turn, sink: Sink) -> None:
        provider = self.run.settings.providers[self.target.provider]
        how = Continuation.on(provider, turn, unfinished)
        request = how.begin(turn.request, sink)
        if request is None:
            return
        left_out = partial(suppress_reasoning, turn, provider.name)
        limit = turn.answer_limit
        joined = Continued(sink, how, 0, begins=lambda: None, left_out=left_out, limit=limit)
        rest = replace(turn, request=request)
        await ask(self.run, self.target, rest, joined, self.context, how.added)

    def continue_from(self, unfinished: Unfinished) -> None:
        """Have the target continue what has been said."""
        if unfinished.items or unfinished.text:
            self.unfinished = unfinished

    def resume(
        self,
        unfinished: Unfinished | None,
        sent_events: Mapping[str, Set[str]],
        progress: HostedProgress | None,
    ) -> bool:
        if unfinished is not None:
            self.continue_from(unfinished)
        return unfinished is not None

    def keep_progress(self, log: ProgressLog) -> None:
        return


class NoTarget(Struct, eq=False):
    """Asks no target and says nothing, for a connection that is only warmed up."""

    capabilities: Capabilities = Capabilities(parameters=frozenset(), enforces_schema=True)

    async def ask(self, turn: Turn, sink: Sink) -> None:
        sink.put([Finish()])

    def resume(
        self,
        unfinished: Unfinished | None,
        sent_events: Mapping[str, Set[str]],
        progress: HostedProgress | None,
    ) -> bool:
        return False

    def keep_progress(self, log: ProgressLog) -> None:
        return
