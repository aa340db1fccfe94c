"""The sinks that look at an answer between the one who asks for it and the run: all are put together here.

`build_stack` has the order. What asks for the answer may put sinks of its own before them: a router one that
waits for content, the hosted loop one that takes out the calls of its tools.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from msgspec import Struct

from antiphon.engine import obfuscation
from antiphon.engine.raw_reasoning import RetoldReasoning
from antiphon.providers.base import UNMET, Capabilities, Sink, Turn
from antiphon.spec.response import Response
from antiphon.stream.policy import POLICY, PolicySink, restricts
from antiphon.tools.citations import Citations, CitingSink
from antiphon.wires.schema.check import SchemaCheck, needs_check
from antiphon.wires.schema.pool import SchemaPool

MakeSink = Callable[[Sink, Turn], Sink]
"""Makes a sink that stands before another one in the answer to a turn."""


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
