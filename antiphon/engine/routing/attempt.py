"""The sink that one attempt puts its answer into: it holds back until there is content.

Content is whatever makes the Composer announce an item. Until then the attempt can fail without a trace, and
another can begin anew. How the attempt ended is kept for the router to judge: a failure is not passed on.
"""

from collections.abc import Callable, Iterable

from antiphon.providers.base import Sink
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import type_of
from antiphon.spec.response import Usage
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ItemDelta,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
    WordsStart,
)

Shows = Callable[[str], str | None]

_ENDS = (Finish, Failure)


def announces(delta: AnyDelta, shows: Shows) -> bool:
    """Does this delta open an item that the client sees?"""
    match delta:
        case TextDelta(text) | RefusalDelta(text):
            return bool(text)
        case AnnotationDelta():
            return True
        case ReasoningDelta(text) | SummaryDelta(text) | SignatureDelta(text):
            return bool(text) and shows("reasoning") == "reasoning"
        case CallDelta():
            type = "function_call" if delta.kind == "function" else "custom_tool_call"
            return bool(delta.name) and shows(type) == type
        case WordsStart():
            return shows(delta.kind) == delta.kind
        case ItemDelta(item):
            return shows(type_of(item)) is not None
    return False


class Attempt:
    """Holds back until content comes, or until the end if nobody follows the answer.

    It stands on the path of every delta, so once there is content it only looks at the last of a batch.
    """

    __slots__ = (
        "_held",
        "_holds_all",
        "_pass",
        "_shows",
        "_sink",
        "failure",
        "has_content",
        "is_accepted",
        "is_finished",
    )

    def __init__(self, sink: Sink, shows: Shows, *, holds_all: bool) -> None:
        self._sink = sink
        self._pass = sink.put
        self._shows = shows
        self._holds_all = holds_all
        self._held: list[AnyDelta] | None = None
        self.is_accepted = False
        self.has_content = False
        """The client has some of it."""
        self.is_finished = False
        self.failure: ErrorPayload | None = None
        """What the provider put as the end of its answer, if that was a failure."""

    def accepted(self) -> None:
        self.is_accepted = True
        self._sink.accepted()

    def begins(self) -> None:
        """The first content has come."""

    def finishes(self, usage: Usage | None) -> None:
        """The answer is whole, and its end is about to be put."""

    def queued(self) -> None:
        self._sink.queued()

    async def ready(self) -> None:
        await self._sink.ready()

    def put(self, deltas: list[AnyDelta]) -> bool:
        if self.has_content and deltas and type(deltas[-1]) is TextDelta:
            return self._pass(deltas)
        if deltas and type(deltas[-1]) in _ENDS:
            return self._end(deltas)
        return self._pass(deltas) if self.has_content else self._wait(deltas)

    def _wait(self, deltas: list[AnyDelta]) -> bool:
        held = deltas if self._held is None else [*self._held, *deltas]
        if self._holds_all or not self._has_content(deltas):
            self._held = held
            return True
        self._held, self.has_content = None, True
        self.begins()
        return self._pass(held)

    def _end(self, deltas: list[AnyDelta]) -> bool:
        last = deltas[-1]
        if isinstance(last, Failure):
            if len(deltas) > 1:
                self.put(deltas[:-1])
            self.failure = last.error
            return True
        self.is_finished = True
        if self._held is not None:
            deltas, self._held = [*self._held, *deltas], None
        if not self.has_content:
            self.begins()
        self.finishes(_usage(deltas))
        return self._pass(deltas)

    def _has_content(self, deltas: Iterable[AnyDelta]) -> bool:
        shows = self._shows
        return any(announces(delta, shows) for delta in deltas)


def _usage(deltas: Iterable[AnyDelta]) -> Usage | None:
    found = None
    for delta in deltas:
        if type(delta) is UsageDelta:
            found = delta.usage
    return found
