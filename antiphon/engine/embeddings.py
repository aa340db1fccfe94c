"""Embeddings: the model's provider is asked, or the targets of a route one after the other."""

from msgspec.structs import replace

from antiphon.engine.engine import Caller, Engine
from antiphon.engine.routing.failure_kinds import kind_of
from antiphon.providers.base import Embedded, EmbeddingTask, Embeds, Turn, UpstreamError
from antiphon.spec.errors import UNSUPPORTED_OPERATION, ErrorPayload, SpecError
from antiphon.spec.request import Request

# Another target would be asked for the same in vain.
_FINAL = ("request", "unsupported", "too_long")


async def embed(engine: Engine, task: EmbeddingTask, caller: Caller) -> tuple[Embedded, Turn]:
    """The vectors, and the turn that they were asked for in, which has the receipts."""
    _, turn = engine.target(Request(model=task.model or None), caller)
    asked = caller.asked
    assert asked.target is not None
    targets = (asked.target,) if asked.usable is None else asked.usable.targets
    able = [one for one in targets if isinstance(engine.providers[one.provider], Embeds)]
    if not able:
        names = ", ".join(sorted(name for name, one in engine.providers.items() if isinstance(one, Embeds)))
        message = f"{asked.model!r} has no embeddings: its provider {targets[0].provider!r} does not give any"
        advice = f"name a model of {names}" if names else "configure a provider that gives them"
        payload = ErrorPayload("not_found", f"{message}; {advice}", UNSUPPORTED_OPERATION, "model")
        raise SpecError(payload)
    for n, target in enumerate(able):
        asked.target = target
        provider = engine.providers[target.provider]
        assert isinstance(provider, Embeds)
        if asked.usable is not None:
            turn.target = str(target)
        try:
            return await provider.embed(replace(task, model=target.upstream_model)), turn
        except UpstreamError as error:
            if n + 1 == len(able) or kind_of(error.payload, error.status) in _FINAL:
                raise
    raise AssertionError("the last target answers or raises")
