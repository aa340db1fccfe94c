"""Embeddings: the model's provider is asked, or the targets of a route in the way that the route says."""

from time import perf_counter

from msgspec.structs import replace

from antiphon.config import Target
from antiphon.engine.context import input_items
from antiphon.engine.engine import Caller, Engine
from antiphon.engine.routing.dispatch import Ask, Dispatch
from antiphon.engine.routing.failure_kinds import AttemptFailure, kind_of
from antiphon.engine.routing.router import next_ask
from antiphon.engine.routing.routes import FailedAttempt, UsableRoute
from antiphon.providers.base import Embedded, EmbeddingTask, Embeds, Turn, UpstreamError
from antiphon.providers.errors import MODEL_NOT_FOUND, UPSTREAM_AUTH, NotThere
from antiphon.spec.errors import (
    UNSUPPORTED_OPERATION,
    ErrorPayload,
    SpecError,
)
from antiphon.spec.items import Item
from antiphon.spec.request import Request
from antiphon.spec.routing import RouteHint
from antiphon.wires.usage import CHARACTERS_A_TOKEN


async def embed(engine: Engine, task: EmbeddingTask, caller: Caller) -> tuple[Embedded, Turn]:
    """The vectors, and the turn that they were asked for in, which has the receipts.

    Where the name is a route, `target` of the turn is the one that gave the vectors.
    """
    _, turn = engine.target(Request(model=task.model or None), caller)
    asked = caller.asked
    able = tuple(target for target in asked.targets if _embeds(engine, target))
    if not able:
        raise _no_embeddings(engine, asked.model, asked.targets[0])
    if asked.usable is None:
        return await _ask(engine, task, able[0]), turn
    turn.items = _longest(task)
    dispatch = _dispatch(engine, asked.usable, turn, able, caller.hint)
    routes, failure = engine.routes, None
    while (ask := await next_ask(dispatch, routes.clock)) is not None:
        asked.target, turn.model, turn.target = ask.target, ask.target.upstream_model, str(ask.target)
        began = perf_counter()
        try:
            found = await _ask(engine, task, ask.target)
        except UpstreamError as error:
            failure, kind = error, kind_of(error.payload, error.status)
            if routes.report is not None:
                code = error.payload.code or error.payload.type
                milliseconds = round((perf_counter() - began) * 1000)
                routes.report(FailedAttempt(turn, ask.target, kind, code, milliseconds))
            _judge(dispatch, ask, error, kind, routes.clock())
        except BaseException:
            ask.left(routes.states)
            raise
        else:
            ask.candidate.state.estimates.answered(routes.clock(), perf_counter() - began, 0, 0.0)
            ask.answered(routes.states)
            return found, turn
    those = f"every target of {asked.model!r} that gives embeddings"
    raise failure or dispatch.nobody(those, routes.clock())


def _embeds(engine: Engine, target: Target) -> bool:
    return isinstance(engine.providers[target.provider], Embeds)


async def _ask(engine: Engine, task: EmbeddingTask, target: Target) -> Embedded:
    provider = engine.providers[target.provider]
    assert isinstance(provider, Embeds)
    return await provider.embed(replace(task, model=target.upstream_model))


def _dispatch(
    engine: Engine, usable: UsableRoute, turn: Turn, able: tuple[Target, ...], hint: RouteHint | None
) -> Dispatch:
    """What leads the turn through those targets of a route that give embeddings."""
    route, turn.hint = usable.route, hint
    route.check_hint(hint, able)
    spare = usable.spare if usable.spare is not None and _embeds(engine, usable.spare) else None
    return route.dispatch(turn, route.among(able, spare), None, expected=0)


def _longest(task: EmbeddingTask) -> list[Item]:
    """The longest text, which is what has to fit a window: each text becomes a vector by itself."""
    longest = max(task.input, key=len)
    return input_items(longest if isinstance(longest, str) else " " * (CHARACTERS_A_TOKEN * len(longest)))


def _judge(dispatch: Dispatch, ask: Ask, error: UpstreamError, kind: AttemptFailure, now: float) -> None:
    """Tell the dispatch what became of an attempt that failed."""
    # This is also how an upstream says that a model gives no embeddings. It may be well for all else, and
    # whoever asks a route that talks for embeddings must not open its breakers.
    may_lack_them = isinstance(error, NotThere) or error.payload.code in (MODEL_NOT_FOUND, UPSTREAM_AUTH)
    if kind != "unsupported" and not may_lack_them:
        dispatch.failed(ask, kind, now, error.retry_after)
        return
    dispatch.refused(ask)
    if may_lack_them and kind not in dispatch.settings.fallback_on:
        dispatch.end()


def _no_embeddings(engine: Engine, model: str, target: Target) -> SpecError:
    names = ", ".join(sorted(name for name, one in engine.providers.items() if isinstance(one, Embeds)))
    message = f"{model!r} has no embeddings: its provider {target.provider!r} does not give any"
    advice = f"name a model of {names}" if names else "configure a provider that gives them"
    return SpecError(ErrorPayload("not_found", f"{message}; {advice}", UNSUPPORTED_OPERATION, "model"))
