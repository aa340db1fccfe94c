"""The sink that one attempt puts its answer into: it holds back until there is content.

Content is whatever makes the Composer announce an item. Until then the attempt can fail without a trace, and
another can begin anew. How the attempt ended is kept for the router to judge: a failure is not passed on.
"""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Protocol

from msgspec import UNSET, Struct

from antiphon.engine.routing.continuation import Continued
from antiphon.engine.routing.dispatch import Grant
from antiphon.providers.base import Sink, Turn
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Item, type_of
from antiphon.spec.response import RouteAttempt, Usage
from antiphon.stream import deltas as d
from antiphon.stream.answer_limit import MOST_HELD, memory_of
from antiphon.stream.client_calls import CALL_TYPES
from antiphon.wires.run_listener import Spent, total_usage

Shows = Callable[[str], str | None]


class AttemptOwner(Protocol):
    """Who asks, and knows what the client sees."""

    leaves_receipt: bool
    """Is there anything to tell about who was asked?"""

    def shows(self, item_type: str) -> str | None:
        """The type under which the client sees such an item, or None if it does not."""

    def confirm(self, probe: Grant) -> None:
        """The first words of a probe have come."""

    def ends(self, attempt: "AttemptSink", usage: Usage | None, now: float) -> None:
        """The answer is whole, and its end is about to be put.

        Called only if there is something to tell, or if it was seen when the answer began.
        """


def announces(delta: d.AnyDelta, shows: Shows) -> bool:
    """Does this delta open an item that the client sees?"""
    match delta:
        case d.TextDelta(text) | d.RefusalDelta(text):
            return bool(text)
        case d.AnnotationDelta():
            return True
        case d.ReasoningDelta(text) | d.SummaryDelta(text) | d.SignatureDelta(text):
            return bool(text) and shows("reasoning") == "reasoning"
        case d.CallDelta():
            type = CALL_TYPES[delta.kind]
            return bool(delta.name) and shows(type) == type
        case d.WordsStart():
            return shows(delta.kind) == delta.kind
        case d.ItemDelta(item):
            return shows(type_of(item)) is not None
    return False


class AttemptSink(Struct, eq=False):
    """Holds back until content comes, or until the end if no client follows the answer; `MOST_HELD` at most.

    It stands on the path of every delta, so once there is content it only looks at the last of a batch.
    """

    sink: Sink
    router: AttemptOwner
    grant: Grant
    turn: Turn
    mark: int
    """How many receipts there were before it."""
    began: float
    first: float = 0.0
    """When the first content came; 0 if it came with the end."""
    is_accepted: bool = False
    has_passed_on: bool = False
    """What was held has gone to the next sink."""
    is_finished: bool = False
    failure: ErrorPayload | None = None
    """What the provider put as the end of its answer, if that was a failure."""
    continued: Continued | None = None
    """Where it goes on with what another has said, and what it was given for that."""
    added: Sequence[Item] = ()
    spent: list[Spent] = []
    """What each time that the model was asked for this took."""
    _held: list[d.AnyDelta] | None = None
    _memory: int = 0  # that it takes

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def is_heard(self) -> bool:
        """Has the client some of what it said?"""
        return self.has_passed_on if self.continued is None else self.continued.has_added

    def for_receipt(self, outcome: str, now: float, usage: Usage | None = None) -> RouteAttempt:
        """What became of it, for a receipt."""
        milliseconds = round((now - self.began) * 1000)
        return RouteAttempt(
            self.grant.candidate.state.name, self.grant.reason, milliseconds, outcome, usage or UNSET
        )

    def accepted(self) -> None:
        self.is_accepted = True
        self.sink.accepted()

    def queued(self) -> None:
        self.sink.queued()

    async def ready(self) -> None:
        await self.sink.ready()

    def put(self, deltas: list[d.AnyDelta]) -> bool:
        last = type(deltas[-1]) if deltas else None
        if last is d.TextDelta and self.has_passed_on:
            return self.sink.put(deltas)
        if last is d.Finish:
            return self._finish(deltas)
        if last is d.Failure:
            return self._fail(deltas)
        return self.sink.put(deltas) if self.has_passed_on else self._wait(deltas)

    def _wait(self, deltas: list[d.AnyDelta]) -> bool:
        if (held := self._held) is None:
            held = self._held = list(deltas)
        else:
            held += deltas
        if not self.first and self._has_content(deltas):
            self.first = perf_counter()
            if self.grant.admission == "probe":
                self.router.confirm(self.grant)
        self._memory += memory_of(deltas)
        if (not self.first or not self.turn.stream) and self._memory <= MOST_HELD:
            return True
        self._held, self.has_passed_on = None, True
        return self.sink.put(held)

    def _fail(self, deltas: list[d.AnyDelta]) -> bool:
        if len(deltas) > 1:
            self.put(deltas[:-1])
        last = deltas[-1]
        assert type(last) is d.Failure
        self.failure = last.error
        return True

    def _finish(self, deltas: list[d.AnyDelta]) -> bool:
        self.is_finished = True
        if self._held is not None:
            deltas, self._held = [*self._held, *deltas], None
        if self.first or self.router.leaves_receipt:
            self.router.ends(self, total_usage(self.spent), perf_counter())
        return self.sink.put(deltas)

    def _has_content(self, deltas: Iterable[d.AnyDelta]) -> bool:
        shows = self.router.shows
        return any(announces(delta, shows) for delta in deltas)
