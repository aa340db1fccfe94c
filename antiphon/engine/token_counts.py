"""How many tokens a request has, without having it answered."""

from antiphon.engine.engine import Caller, Engine
from antiphon.providers.base import Provider, Turn
from antiphon.spec.request import Request


async def turn_to_count(engine: Engine, request: Request, caller: Caller) -> tuple[Provider, Turn]:
    """Who would be asked first, and the turn with the items that it would be shown."""
    provider, turn = engine.target(request, caller)
    resolved = await engine.resolve(request, caller)
    turn.is_large = resolved.is_large
    turn.items = await engine.shown(resolved, provider, turn)
    if (usable := caller.asked.usable) is not None:
        turn.target = usable.name
    return provider, turn


async def count_tokens(engine: Engine, provider: Provider, turn: Turn) -> int | None:
    """What the provider counts; None if it cannot tell exactly."""
    if not provider.capabilities.counts_tokens:
        return None
    turn.items = await engine.embedded(provider, turn, turn.items)
    return await provider.count_tokens(turn)
