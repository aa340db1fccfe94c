"""Embeddings: the model's provider is asked, or the targets of a route in the way that the route says."""

from time import perf_counter

from antiphon.config import Target
from antiphon.engine import attempt
from antiphon.engine.context import input_items
from antiphon.engine.engine import Engine
from antiphon.engine.routing.dispatch import Dispatch, Grant
from antiphon.engine.routing.failure_kinds import kind_of
from antiphon.engine.routing.router import next_grant
from antiphon.engine.routing.routes import UsableRoute
from antiphon.engine.run_state import RunState
from antiphon.providers.base import Embedded, EmbeddingTask, Embeds, Turn, UpstreamError
from antiphon.providers.errors import MODEL_NOT_FOUND, UPSTREAM_AUTH, AddressNotFound
from antiphon.spec.errors import UNSUPPORTED_OPERATION, ErrorPayload, SpecError
from antiphon.spec.items import Item
from antiphon.spec.request import Request
from antiphon.wires.usage import CHARACTERS_A_TOKEN


async def embed(engine: Engine, task: EmbeddingTask, run: RunState) -> tuple[Embedded, Turn]:
    """The vectors, and the turn that they were asked for in, which has the receipts.

    Where the name is a route, `target` of the turn is the one that gave the vectors.
    """
    turn = engine.target(Request(model=task.model or None), run)
    able = tuple(target for target in run.targets if _embeds(run, target))
    if not able:
        raise _no_embeddings(run, run.targets[0])
    async with attempt.open_run(run):
        if run.usable is None:
            return await attempt.embed(run, able[0], task), turn
        return await _ask_route(run, run.usable, task, turn, able), turn


async def _ask_route(
    run: RunState, usable: UsableRoute, task: EmbeddingTask, turn: Turn, able: tuple[Target, ...]
) -> Embedded:
    """The vectors of the first of these targets that gives them, in the order of the route."""
    turn.items = _longest(task)
    dispatch = _dispatch(run, usable, turn, able)
    routes, failure = run.settings.routes, None
    while (grant := await next_grant(dispatch, routes.clock)) is not None:
        target = run.target = grant.target
        turn.model, turn.target = target.upstream_model, str(target)
        began = perf_counter()
        try:
            found = await attempt.embed(run, target, task)
        except UpstreamError as error:
            failure = error
            _judge(dispatch, grant, error, routes.clock())
        except BaseException:
            grant.release(routes.states)
            raise
        else:
            grant.candidate.state.estimates.note_answer(routes.clock(), perf_counter() - began, 0, 0.0)
            grant.succeed(routes.states)
            return found
    those = f"every target of {run.model!r} that gives embeddings"
    raise failure or dispatch.nobody(those, routes.clock())


def _embeds(run: RunState, target: Target) -> bool:
    return isinstance(run.settings.providers[target.provider], Embeds)


def _dispatch(run: RunState, usable: UsableRoute, turn: Turn, able: tuple[Target, ...]) -> Dispatch:
    """What leads the turn through those targets of a route that give embeddings."""
    route = usable.route
    turn.hint = hint = run.context.hint
    route.check_hint(hint, able)
    spare = usable.spare if usable.spare is not None and _embeds(run, usable.spare) else None
    return route.dispatch(turn, route.among(able, spare), None, expected=0)


def _longest(task: EmbeddingTask) -> list[Item]:
    """The longest text, which is what has to fit a window: each text becomes a vector by itself."""
    longest = max(task.input, key=len)
    return input_items(longest if isinstance(longest, str) else " " * (CHARACTERS_A_TOKEN * len(longest)))


def _judge(dispatch: Dispatch, grant: Grant, error: UpstreamError, now: float) -> None:
    """Tell the dispatch what became of an attempt that failed."""
    kind = kind_of(error.payload, error.status)
    # This is also how an upstream says that a model gives no embeddings. It may be well for all else, and
    # a request for embeddings to a route that talks must not open its breakers.
    may_lack_them = isinstance(error, AddressNotFound) or error.payload.code in (
        MODEL_NOT_FOUND,
        UPSTREAM_AUTH,
    )
    if kind != "unsupported" and not may_lack_them:
        dispatch.note_failure(grant, kind, now, error.retry_after)
        return
    dispatch.note_refusal(grant)
    if may_lack_them and kind not in dispatch.settings.fallback_on:
        dispatch.end()


def _no_embeddings(run: RunState, target: Target) -> SpecError:
    providers = run.settings.providers
    names = ", ".join(sorted(name for name, one in providers.items() if isinstance(one, Embeds)))
    message = f"{run.model!r} has no embeddings: its provider {target.provider!r} does not give any"
    advice = f"name a model of {names}" if names else "configure a provider that gives them"
    return SpecError(ErrorPayload("not_found", f"{message}; {advice}", UNSUPPORTED_OPERATION, "model"))
