"""The sink that one attempt puts its answer into: it holds back until there is content.

Content is whatever makes the Composer announce an item. Until then the attempt can fail without a trace, and
another can begin anew. How the attempt ended is kept for the router to judge: a failure is not passed on.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

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


class Viewer(Protocol):
    """Who knows what the client sees."""

    def shows(self, item_type: str) -> str | None:
        """The type under which the client sees such an item, or None if it does not."""


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


class Attempt(Struct, eq=False):
    """Holds back until content comes, or until the end if nobody follows the answer.

    It stands on the path of every delta, so once there is content it only looks at the last of a batch.
    """

    sink: Sink
    viewer: Viewer
    holds_all: bool
    is_accepted: bool = False
    has_content: bool = False
    """The client has some of it."""
    is_finished: bool = False
    failure: ErrorPayload | None = None
    """What the provider put as the end of its answer, if that was a failure."""
    _held: list[AnyDelta] | None = None

    __repr__ = object.__repr__  # which shows no prompt

    def accepted(self) -> None:
        self.is_accepted = True
        self.sink.accepted()

    def begins(self) -> None:
        """The first content has come."""

    def finishes(self, usage: Usage | None) -> None:
        """The answer is whole, and its end is about to be put."""

    def queued(self) -> None:
        self.sink.queued()

    async def ready(self) -> None:
        await self.sink.ready()

    def put(self, deltas: list[AnyDelta]) -> bool:
        if self.has_content and deltas and type(deltas[-1]) is TextDelta:
            return self.sink.put(deltas)
        if deltas and type(deltas[-1]) in _ENDS:
            return self._end(deltas)
        return self.sink.put(deltas) if self.has_content else self._wait(deltas)

    def _wait(self, deltas: list[AnyDelta]) -> bool:
        if (held := self._held) is None:
            held = self._held = list(deltas)
        else:
            held += deltas
        if self.holds_all or not self._has_content(deltas):
            return True
        self._held, self.has_content = None, True
        self.begins()
        return self.sink.put(held)

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
        return self.sink.put(deltas)

    def _has_content(self, deltas: Iterable[AnyDelta]) -> bool:
        shows = self.viewer.shows
        return any(announces(delta, shows) for delta in deltas)


def _usage(deltas: Iterable[AnyDelta]) -> Usage | None:
    found = None
    for delta in deltas:
        if type(delta) is UsageDelta:
            found = delta.usage
    return found
