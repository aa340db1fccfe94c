"""Describes the plan of a route for one request, line by line."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from antiphon.cli.common import CommandFailed
from antiphon.config import Config, Target, UnknownModel
from antiphon.engine.context import input_items
from antiphon.engine.routing.order import Candidate
from antiphon.engine.routing.routes import Routes
from antiphon.providers.base import Environment, Turn
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import create_provider
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.routing import hint_of


def explain_route(config: Config, model: str | None, body: bytes) -> list[str]:
    return asyncio.run(_explain(config, model, body))


async def _explain(config: Config, model: str | None, body: bytes) -> list[str]:
    http = UpstreamClient()
    environment = Environment(http=http, timeouts=config.timeouts, local=config.local, folder=Path())
    enabled = {name: one for name, one in config.providers.items() if not one.disabled}
    providers = {name: create_provider(settings, environment) for name, settings in enabled.items()}
    routes = Routes(config, providers, time.time, seed=0)
    try:
        await routes.catalogue.load()
        return list(_lines(config, routes, model, body))
    except (UnknownModel, SpecError) as error:
        raise CommandFailed(f"antiphon: {error}") from None
    finally:
        for provider in providers.values():
            await provider.close()
        await http.close()


def _lines(config: Config, routes: Routes, model: str | None, body: bytes) -> Iterator[str]:
    request = decode_request(body)
    name = model or request.model or config.default_model
    target = config.resolve(name)
    route = routes.get(config.alias_of(name or "") or name or "")
    if route is None:
        yield f"{name} has one target, {target}: there is nothing to decide"
        return
    settings = route.route.settings
    how = f"strategy {settings.strategy}, {settings.retries} further attempts, on_cut {settings.on_cut}"
    yield f"{name}: {how}"
    turn = Turn("", request, input_items(request.input), request.tools, hint=hint_of(request))
    targets, spare = route.route.targets, route.route.spare
    enabled = [one for one in targets if one.provider in routes.providers]
    route.check_hint(turn.hint, enabled)
    can_be_asked = spare if spare and spare.provider in routes.providers else None
    last = route.spare_for(turn, can_be_asked)
    planned = route.plan(turn, route.among(tuple(enabled), can_be_asked)) if enabled else []
    for n, candidate in enumerate(planned, 1):
        yield from _target(f"{n}.", candidate)
    for left in targets if spare is None or spare in targets else (*targets, spare):
        if left in (one.target for one in planned):
            continue
        if last is not None and left == last.target:
            yield f"  -  {left}: only for a context that is too long for the others"
        else:
            yield f"  -  {left}: {_why_not(left, turn, left.provider in routes.providers)}"
    has_chain = request.previous_response_id or request.conversation or request.prompt_cache_key
    if route.keeps_chains and has_chain:
        yield "this command ignores the conversation that the request continues; its target is asked first"


def _target(number: str, candidate: Candidate) -> Iterator[str]:
    yield f"  {number} {candidate.target}: {candidate.reason}"
    for loss in candidate.losses:
        yield f"     {loss.action} {loss.param}: {loss.reason}"


def _why_not(target: Target, turn: Turn, is_enabled: bool) -> str:
    if not is_enabled:
        return "its provider is disabled"
    if turn.hint is not None and target.provider in turn.hint.without:
        return "`without` names its provider"
    return "the input does not fit its window"
