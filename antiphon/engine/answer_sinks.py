"""The sinks that look at an answer between the one who asks for it and the run: all are put together here.

`build_stack` has the order. What asks for the answer may put sinks of its own before them: a router one that
waits for content, the hosted loop one that takes out the calls of its tools.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from msgspec import Struct

from antiphon.engine import obfuscation
from antiphon.providers.base import UNMET, Capabilities, Turn
from antiphon.spec.response import Response
from antiphon.stream.deltas import AnyDelta, PartEnd, ReasoningDelta, SignatureDelta, SummaryDelta, UsageDelta
from antiphon.stream.policy import POLICY, PolicySink, restricts
from antiphon.stream.sinks import Sink, WrappingSink
from antiphon.tools.citations import Citations, CitingSink
from antiphon.wires.schema.check import SchemaCheck, needs_check
from antiphon.wires.schema.pool import SchemaPool

MakeSink = Callable[[Sink, Turn], Sink]
"""Makes a sink that stands before another one in the answer to a turn."""

_WITHIN_REASONING = (PartEnd, SignatureDelta, SummaryDelta, UsageDelta)
"""What may come in the middle of reasoning."""


@runtime_checkable
class FinishingSink(Protocol):
    """A sink that has something to do, or to wait for, once the whole answer was put."""

    async def finish(self) -> None: ...


class Checks(Struct):
    """What has to be looked at in the answer to one request."""

    restricts_calls: bool
    schemas: SchemaPool | None
    """Where the answer is held to its schema, if that has to be done."""
    obfuscates: bool
    retells: bool = False
    """Is raw reasoning told as a summary, too?"""
    makes_summaries: bool = False
    """May an upstream make summaries of its own?"""
    citations: Citations | None = None
    """The sources that hosted tools find, whose marks are replaced."""
    added: tuple[MakeSink, ...] = ()
    """What looks at every answer of the gateway."""
    calls_made: int = 0
    """How many calls another process has let through."""

    def build_stack(self, run: Sink, turn: Turn, answer: Callable[[], Response]) -> list[Sink]:
        """Put the sinks together: the run first, and last the one that the answer is put into.

        `answer` gives what the run has of it by then.
        """
        stack = [run]
        if self.retells:
            stack.append(RetoldReasoning(stack[-1], at_once=not self.makes_summaries))
        if self.schemas is not None:
            unmet = partial(turn.receipt, POLICY, action=UNMET)
            stack.append(SchemaCheck(stack[-1], turn.request, answer, unmet, self.schemas, turn.tenant))
        if self.restricts_calls:
            made, limit = self.calls_made, turn.answer_limit
            stack.append(PolicySink(stack[-1], turn.request, turn.note(POLICY), made, limit))
        for make in self.added:
            stack.append(make(stack[-1], turn))
        if self.citations is not None:
            stack.append(CitingSink(stack[-1], self.citations, answer().output))
        return stack


async def finish_stack(stack: Sequence[Sink]) -> None:
    """Let each sink finish, in the order in which an answer passes them."""
    for sink in reversed(stack):
        if isinstance(sink, FinishingSink):
            await sink.finish()


def checks_of(
    takes: Capabilities,
    turn: Turn,
    schemas: SchemaPool,
    added: tuple[MakeSink, ...],
    citations: Citations | None,
    *,
    retells: bool,
) -> Checks | None:
    """What this answer needs; None for nothing.

    With `citations` the hosted loop sees to it that only allowed calls are made. With `retells` the client
    shows nothing of reasoning but the summary that it asks for.
    """
    request = turn.request
    restricted, checks_schema = citations is None and restricts(request), False
    if request.text is not None and not takes.enforces_schema:
        checks_schema = needs_check(request)
    obfuscates = request.stream_options is not None and obfuscation.is_wanted(request)
    retells = retells and request.reasoning is not None and request.reasoning.summary is not None
    if restricted or checks_schema or obfuscates or retells or citations is not None or added:
        pool = schemas if checks_schema else None
        return Checks(restricted, pool, obfuscates, retells, takes.makes_summaries, citations, added)
    return None


class RetoldReasoning(WrappingSink):
    """Repeats raw reasoning as a summary, for clients that show nothing but summaries.

    Where no upstream that is asked makes summaries of its own, the words of both come together. Elsewhere the
    summary follows once the reasoning is over, if there was none until then.
    """

    def __init__(self, sink: Sink, *, at_once: bool) -> None:
        super().__init__(sink)
        self._at_once = at_once
        self._words: list[str] = []
        """What was said and not yet retold."""
        self._has_summary = False
        """Has the upstream made a summary of this reasoning?"""

    def put(self, deltas: list[AnyDelta]) -> bool:
        if not self._words and not any(isinstance(one, ReasoningDelta) for one in deltas):
            self._has_summary = self._has_summary or any(isinstance(one, SummaryDelta) for one in deltas)
            return self._sink.put(deltas)
        return self._sink.put([*self._retold(deltas)])

    def _retold(self, deltas: list[AnyDelta]) -> Iterator[AnyDelta]:
        for delta in deltas:
            if isinstance(delta, ReasoningDelta):
                yield delta
                self._words.append(delta.text)
                if self._at_once:
                    yield from self._summary()
                continue
            if isinstance(delta, SummaryDelta):
                self._has_summary = True
            elif not isinstance(delta, _WITHIN_REASONING):
                yield from self._summary()
                self._has_summary = False
            yield delta

    def _summary(self) -> Iterator[AnyDelta]:
        words, self._words = "".join(self._words), []
        if words and not self._has_summary:
            yield SummaryDelta(words)
