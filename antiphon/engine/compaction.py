"""Compaction for any model: the model writes a summary, which is encrypted into a `compaction` item."""

from antiphon.engine.engine import Caller, Engine
from antiphon.engine.run import Run
from antiphon.providers.base import Provider, Turn
from antiphon.providers.exchange import apart
from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.content import InputText
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.items import Message
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import CompactResource, Response, Usage
from antiphon.stream.composer import Composer
from antiphon.wires.compaction import sealed_summary

_TASK = (
    "Write a summary of our conversation so far, for yourself, so that you can go on with it later. "
    "Keep names, numbers, code words, decisions, open questions and what the user wants. "
    "Write only the summary."
)


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
        instructions=request.instructions,
        max_output_tokens=_budget(provider),
        truncation="auto",
    )
    turn.is_large = resolved.is_large
    resolved.items = turn.items = [*resolved.items, Message(role="user", content=[InputText(_TASK)])]
    composer = Composer(Response.new(ids.new_id(ids.RESPONSE), turn.model, now=0), clock=engine.clock)
    if (route := engine.routes.get(request.model)) is not None:
        provider = router = engine.router(route, turn, caller, resolved)
        engine.follow(router, composer, caller)
    else:
        turn.items = await engine.fitted(provider, turn, await engine.shown(resolved, provider, turn))
    return Run(turn, composer, resolved, provider)


async def finish(engine: Engine, run: Run, caller: Caller) -> CompactResource:
    text, usage = await _summary(run)
    return CompactResource(
        id=ids.new_id(ids.RESPONSE),
        output=[sealed_summary(text, engine.seal, caller.tenant)],
        created_at=int(engine.clock()),
        usage=usage,
    )


def _budget(provider: Provider) -> int:
    """How long a summary may be: a small part of what the model can hold."""
    window = provider.capabilities.context_window or 65536
    return max(128, min(1024, window // 64))


async def _summary(run: Run) -> tuple[str, Usage]:
    response = await run.result()
    if run.problem is not None:
        raise SpecError(run.problem.payload, run.problem.status)
    text = "".join(item.get_text() for item in response.output if isinstance(item, Message)).strip()
    if not text:
        message = "the model wrote no summary; try again, or name another model"
        raise SpecError(ErrorPayload("model_error", message, code="empty_summary", param="model"), 502)
    if response.usage is None:
        return text, await apart(run.turn, _estimate, run.turn, text)
    return text, response.usage


def _estimate(turn: Turn, text: str) -> Usage:
    """Four characters a token, when the provider does not say."""
    given = sum(len(encode(item)) for item in turn.items)
    return Usage.of(given // 4, len(text) // 4)
