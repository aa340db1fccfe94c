"""A run of an agent for programs without an event loop: it works on a thread of its own."""

from collections import deque
from collections.abc import Iterator
from contextvars import copy_context
from types import TracebackType
from typing import Generic, Self

from antiphon.client.agent.events import AgentEvent, AgentResult, Step, T
from antiphon.client.agent.run import AgentRun
from antiphon.client.sync.loop_thread import Portal
from antiphon.spec.events import OutputTextDeltaEvent
from antiphon.spec.items import Item


class SyncAgentRun(Generic[T]):
    """One run of an agent, begun by entering or iterating it; leaving it early ends it.

    Iterating gives all events, as `AgentRun` does. `items` is the transcript at any moment.
    """

    def __init__(self, run: AgentRun[T]) -> None:
        self._run = run
        self._run._context = copy_context()
        self._portal = Portal(run._leave)
        self._ready: deque[AgentEvent] = deque()
        self._left = False

    @property
    def items(self) -> list[Item]:
        return self._run.items

    @property
    def steps(self) -> list[Step]:
        return self._run.steps

    @property
    def result(self) -> AgentResult[T]:
        """The result of the run; raises an error before its end."""
        return self._run.result

    def cancel(self) -> None:
        """End it now: the result is `cancelled`, and the transcript is whole."""
        self._portal.call(self._run._leave())

    def __enter__(self) -> Self:
        self._portal.call(self._run.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        self._portal.close()

    def __iter__(self) -> Iterator[AgentEvent]:
        return self

    def __next__(self) -> AgentEvent:
        # Events that came together cross from the other thread together.
        if not self._ready and not self._left:
            self._ready.extend(self._portal.call(self._run._several()))
        if not self._ready:
            raise StopIteration
        return self._ready.popleft()

    def text_deltas(self) -> Iterator[str]:
        """Only the words of the model, as they come."""
        for event in self:
            if isinstance(event, OutputTextDeltaEvent):
                yield event.delta
