"""Compaction for any model: the model writes a summary, which is encrypted into a `compaction` item."""

from antiphon.engine.askers import Asker, SingleTarget
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run
from antiphon.engine.run_state import RunState
from antiphon.engine.summary import trigger
from antiphon.providers.base import Turn
from antiphon.providers.exchange import run_apart
from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.items import Compaction, Item
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import CompactResource, Response, Usage
from antiphon.stream.answer_limit import MOST_DELTAS, AnswerRoom
from antiphon.stream.composer import Composer
from antiphon.wires.usage import tokens_in


async def start(engine: Engine, request: CompactRequest, state: RunState) -> Run:
    """A run that has the model write the summary; it has not begun."""
    turn = engine.target(Request(model=request.model), state)
    resolved = await engine.resolve(request, state.context)
    if not resolved.items:
        raise SpecError(
            invalid_param("input", "there is nothing to compact; give `input` or `previous_response_id`")
        )
    turn.request = Request(
        model=request.model, input=request.input, instructions=request.instructions, truncation="auto"
    )
    turn.is_large = resolved.is_large
    resolved.items = turn.items = [*resolved.items, trigger()]
    empty = Response.new(ids.new_id(ids.RESPONSE), turn.model, now=0)
    composer = Composer(empty, clock=engine.clock, room=AnswerRoom(turn.answer_limit, MOST_DELTAS))
    assert state.target is not None
    asker: Asker
    if (usable := state.usable) is not None:
        asker = engine.router(usable, turn, state, resolved, None, composer)
    else:
        takes = state.settings.providers[state.target.provider].capabilities
        asker = SingleTarget(state, state.target, resolved, takes)
    return Run(state, turn, composer, resolved, asker)


async def finish(engine: Engine, run: Run) -> CompactResource:
    response = await run.result()
    if run.problem is not None:
        raise SpecError(run.problem.payload, run.problem.status)
    items: list[Item] = [item for item in response.output if isinstance(item, Compaction)]
    usage = response.usage
    if usage is None:
        usage = await run_apart(run.turn, _estimate, run.turn, sum(len(encode(item)) for item in items))
    return CompactResource(
        id=ids.new_id(ids.RESPONSE), output=items, created_at=int(engine.clock()), usage=usage
    )


def _estimate(turn: Turn, written: int) -> Usage:
    """About how much it was, where the provider does not say."""
    given = sum(len(encode(item)) for item in turn.items)
    return Usage.of(tokens_in(given), tokens_in(written))
