"""How many tokens a request has, without having it answered."""

from antiphon.engine import attempt
from antiphon.engine.engine import Engine
from antiphon.engine.run_state import RunState
from antiphon.providers.base import Turn
from antiphon.spec.request import Request


async def turn_to_count(engine: Engine, request: Request, run: RunState) -> Turn:
    """What the first target would be asked, with the items that it would be shown."""
    turn = engine.target(request, run)
    resolved = await engine.resolve(request, run.context)
    turn.is_large = resolved.is_large
    assert run.target is not None
    provider = run.settings.providers[run.target.provider]
    turn.items = await attempt.items_to_show(run, provider, turn, resolved)
    if run.usable is not None:
        turn.target = run.usable.name
    return turn


async def count_tokens(run: RunState, turn: Turn) -> int | None:
    """What the provider counts; None if it cannot tell exactly."""
    assert run.target is not None
    provider = run.settings.providers[run.target.provider]
    if not provider.capabilities.counts_tokens:
        return None
    async with attempt.open_run(run):
        turn.items = await attempt.inline_media(run, provider, turn, turn.items)
        return await attempt.count_tokens(run, run.target, turn)
