"""Compaction for any model: the model writes a summary, which is encrypted into a `compaction` item."""

from antiphon.engine.current_target import Composing
from antiphon.engine.engine import Caller, Engine
from antiphon.engine.run import Run
from antiphon.engine.summary import Summarising, trigger
from antiphon.providers.base import Turn
from antiphon.providers.exchange import apart
from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.items import Compaction, Item
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import CompactResource, Response, Usage
from antiphon.stream.composer import Composer
from antiphon.wires.usage import tokens_in


async def start(engine: Engine, request: CompactRequest, caller: Caller) -> Run:
    """A run that has the model write the summary; it has not begun."""
    provider, turn = engine.target(Request(model=request.model), caller)
    resolved = await engine.resolve(request, caller)
    if not resolved.items:
        raise SpecError(
            invalid_param("input", "there is nothing to compact; give `input` or `previous_response_id`")
        )
    turn.request = Request(
        model=request.model,
        input=request.input,
        instructions=request.instructions,
        truncation="auto",
    )
    turn.is_large = resolved.is_large
    resolved.items = turn.items = [*resolved.items, trigger()]
    empty = Response.new(ids.new_id(ids.RESPONSE), turn.model, now=0)
    composer = Composer(empty, clock=engine.clock, room=turn.answer_limit)
    if (usable := caller.asked.usable) is not None:
        composing = Composing(engine.seal, composer, caller.asked)
        provider = router = engine.router(usable, turn, caller, resolved, None, composing)
        # One that makes such items by itself is not asked to: others could not read them.
        router.wrapped = lambda asked, _: Summarising(asked, engine.seal)
    else:
        turn.items = await engine.fitted(provider, turn, await engine.shown(resolved, provider, turn))
        provider = Summarising(provider, engine.seal)
    return Run(turn, composer, resolved, provider)


async def finish(engine: Engine, run: Run) -> CompactResource:
    response = await run.result()
    if run.problem is not None:
        raise SpecError(run.problem.payload, run.problem.status)
    items: list[Item] = [item for item in response.output if isinstance(item, Compaction)]
    usage = response.usage
    if usage is None:
        usage = await apart(run.turn, _estimate, run.turn, sum(len(encode(item)) for item in items))
    return CompactResource(
        id=ids.new_id(ids.RESPONSE), output=items, created_at=int(engine.clock()), usage=usage
    )


def _estimate(turn: Turn, written: int) -> Usage:
    """About how much it was, where the provider does not say."""
    given = sum(len(encode(item)) for item in turn.items)
    return Usage.of(tokens_in(given), tokens_in(written))
