"""Every route of the configuration, with the state of its targets and what is known about them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random

from msgspec import Struct

from antiphon.catalogue import Catalogue
from antiphon.config import Config, Route, Target
from antiphon.engine.capabilities import estimated_tokens, fits, losses, truncates
from antiphon.engine.routing.affinity import HELD, Held
from antiphon.engine.routing.breaker import REOPENS_AT
from antiphon.engine.routing.dispatch import FOR_LONG, Dispatch, Grant
from antiphon.engine.routing.estimates import EXPECTED_TOKENS
from antiphon.engine.routing.failure_kinds import too_long_for_all
from antiphon.engine.routing.order import (
    EXPLORED,
    Candidate,
    SmoothWeights,
    least_loss_first,
    sort_candidates,
)
from antiphon.engine.routing.states import States
from antiphon.engine.routing.tiers import decision, in_tiers
from antiphon.providers.base import Capabilities, Provider, Turn
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.response import Usage
from antiphon.spec.routing import RouteHint, RoutingDecision
from antiphon.store.base import Context
from antiphon.wires.usage import tokens_in


class Routes:
    """The routes by their alias. `close` it at the end."""

    def __init__(
        self,
        config: Config,
        providers: Mapping[str, Provider],
        clock: Callable[[], float],
        *,
        folder: Path | None = None,
        seed: int | None = None,
        replaced: "Routes | None" = None,
    ) -> None:
        """With a folder, all processes that use it share one state.

        What the routes that are `replaced` know of targets and models stays known.
        """
        self.providers = providers
        self.catalogue: Catalogue = Catalogue(config, providers) if replaced is None else replaced.catalogue
        self.clock = clock
        self.random = Random(seed)
        found = [route for alias in config.models if (route := config.route(alias)) is not None]
        targets = dict.fromkeys(target for route in found for target in route.targets)
        targets |= dict.fromkeys(route.spare for route in found if route.spare is not None)
        self.states: States = States(folder=folder) if replaced is None else replaced.states
        self.states.add(targets)
        first = self.random.randrange(1, 2**31)
        self._routes = {route.name: RouteInUse(route, self, first + n) for n, route in enumerate(found)}
        self.get: Callable[[str], RouteInUse | None] = self._routes.get
        """The route behind an alias, if it is one; every request asks."""

    def __iter__(self) -> Iterator["RouteInUse"]:
        return iter(self._routes.values())

    def close(self) -> None:
        self.states.close()


class UsableRoute(Struct, frozen=True):
    """A route, and the targets of it that a sender can use."""

    route: "RouteInUse"
    targets: tuple[Target, ...]
    """In the order of the route."""
    spare: Target | None
    """The one for a context that is too long for them, if it can be used."""
    capabilities: Capabilities
    """What they promise together, before one of them is asked."""
    name: str
    """Of the first."""


class RouteInUse:
    """One route: it orders its targets for a request."""

    def __init__(self, route: Route, routes: Routes, seed: int) -> None:
        self.route = route
        self.routes = routes
        self.has_choice = len(route.targets) > 1 or route.spare is not None
        """Is there more than one target?"""
        self.among: Callable[[tuple[Target, ...], Target | None], UsableRoute] = cache(self._among)
        """The route for whoever can use these targets of it, and this spare one."""
        named = route.targets if route.spare is None else (*route.targets, route.spare)
        is_enabled = all(target.provider in routes.providers for target in named)
        self.all = self.among(route.targets, route.spare) if is_enabled else None
        """For whoever can use all targets; None if one of them cannot be used at all."""
        self.keeps_chains = self.has_choice and route.settings.affinity == "chain"
        first = Candidate(route.targets[0], routes.states[route.targets[0]], reason="listed")
        self._only = None if self.has_choice else Grant(first, first.target, "ordinary", first.reason)
        """Where there is no choice, the same for every request."""
        self._goes_by_speed = route.settings.strategy in ("fastest", "tiers")
        self._weights = SmoothWeights(route.settings.weights or (1.0,) * len(route.targets), seed)

    def plan(self, turn: Turn, usable: UsableRoute) -> list[Candidate]:
        """The targets in the order in which they would be asked for a turn that goes on with nothing.

        Those too small for it are left out; the spare one is there where no other is.
        """
        found = self._plan(turn, usable.targets, None, copy(self._weights))
        if not found and (spare := self.spare_for(turn, usable.spare)) is not None:
            return [spare]
        return found

    def _plan(
        self,
        turn: Turn,
        targets: Sequence[Target],
        held: Held | None,
        weights: SmoothWeights,
        *,
        explores: bool = False,
        expected: int = EXPECTED_TOKENS,
    ) -> list[Candidate]:
        """In which order targets are asked, drawing from these weights, for an answer of so many tokens."""
        routes, route = self.routes, self.route
        if self._only is not None:
            return [self.make_only_grant(turn).candidate] if self._only.target in targets else []
        without = turn.hint.without if turn.hint is not None else ()
        found = [
            self._candidate(target, turn, position)
            for position, target in enumerate(route.targets)
            if target in targets and target.provider not in without
        ]
        for one in found:
            self._describe(one, turn, held, expected)
        now, tiers = routes.clock(), None
        if route.settings.strategy == "tiers":
            hint = turn.hint or RouteHint()
            tiers = partial(in_tiers, now=now, hint=hint, targets=len(route.targets), explores=explores)
        return sort_candidates(route, found, now, weights=weights, held=held, tiers=tiers, explores=explores)

    def spare_for(
        self, turn: Turn, spare: Target | None, expected: int = EXPECTED_TOKENS
    ) -> Candidate | None:
        """The spare target, unless the turn rules it out or is too long for it as well."""
        if spare is None or (turn.hint is not None and spare.provider in turn.hint.without):
            return None
        found = self._candidate(spare, turn)
        found.reason = FOR_LONG
        self._describe(found, turn, None, expected)
        return None if found.is_too_small else found

    def check_hint(self, hint: RouteHint | None, targets: Sequence[Target]) -> None:
        """Refuse a request that leaves none of these targets to be asked."""
        if hint is not None and all(target.provider in hint.without for target in targets):
            message = f"no target of {self.route.name!r} is left to ask"
            raise SpecError(invalid_param("antiphon:route.without", message))

    def decide(self, turn: Turn, usable: UsableRoute) -> RoutingDecision:
        """Who would be asked for a turn that goes on with nothing."""
        found = decision(self.plan(turn, usable))
        if found is None:
            raise too_long_for_all(f"every target of {self.route.name!r}")
        return found

    def dispatch(
        self, turn: Turn, usable: UsableRoute, held: Held | None, expected: int = EXPECTED_TOKENS
    ) -> Dispatch:
        """What leads a request through these targets in their order, and to the spare one in the end.

        `expected` is how many tokens the answer is taken to have.
        """
        routes = self.routes
        explores = self._goes_by_speed and routes.random.random() < EXPLORED
        candidates = self._plan(
            turn, usable.targets, held, self._weights, explores=explores, expected=expected
        )
        spare = self.spare_for(turn, usable.spare, expected)
        if (
            spare is not None
            and spare.target not in self.route.targets
            and held is not None
            and held.target == spare.target
        ):
            spare.reason = "affinity"  # a chain that the others had no room for
            candidates, spare = least_loss_first([spare, *candidates]), None
        elif not candidates and spare is not None:
            candidates, spare = [spare], None
        return Dispatch(self.route.settings, routes.states, candidates, spare, routes.random)

    def grant_if_healthy(self, turn: Turn) -> Grant | None:
        """Ask the only target, if there is just one and nothing speaks against it."""
        only = self._only
        if only is None:
            return None
        state, now = only.candidate.state, self.routes.clock()
        if state.breaker.cells[REOPENS_AT]:
            return None
        if self.routes.states.has_tenant_failures(now):
            only = self.make_only_grant(turn)
            if not only.candidate.breaker.is_closed:
                return None
        state.budget.count_sent(now)
        return only

    def make_only_grant(self, turn: Turn) -> Grant:
        """The only target as this request asks it."""
        assert self._only is not None
        candidate = self._candidate(self._only.target, turn)
        candidate.reason = self._only.reason
        return Grant(candidate, candidate.target, self._only.admission, candidate.reason)

    def _candidate(self, target: Target, turn: Turn, position: int = 0) -> Candidate:
        states = self.routes.states
        own = states.breaker_of(target, turn.tenant, self.routes.clock())
        return Candidate(target, states[target], position, own=own)

    def dispatch_after_only(self) -> Dispatch:
        """What leads a request on whose only target was asked."""
        return Dispatch(self.route.settings, self.routes.states, [], None, self.routes.random, attempts=1)

    def held_by(self, previous: Context) -> Held | None:
        """Where a chain is that the table of this machine does not know: its last response says it."""
        target = Target.of(previous.model)
        if target != self.route.spare and target not in self.route.targets:
            return None
        is_fresh = self.routes.clock() - previous.created_at < HELD
        return Held(target, tokens_in(previous.size) if is_fresh else 0)

    def price_of_moving(self, held: Held, to: Target) -> float | None:
        """What it costs that another target reads what the old one had in its cache; None if unknown."""
        here, there = (self.routes.catalogue.lookup(*target).prices for target in (held.target, to))
        if here is None or there is None:
            return None
        anew = there.cost(Usage.of(held.tokens, 0))
        kept = here.cost(Usage.of(held.tokens, 0, cached=held.tokens))
        return None if anew is None or kept is None else max(0.0, anew - kept)

    def _among(self, targets: tuple[Target, ...], spare: Target | None) -> UsableRoute:
        """As the first target, a schema only if all enforce it; each sees to tokens and media by itself."""
        takes = [self.routes.providers[target.provider].capabilities for target in targets]
        enforces = all(one.enforces_schema for one in takes)
        together = replace(
            takes[0],
            enforces_schema=enforces,
            hosted_tools=frozenset.intersection(*(one.hosted_tools for one in takes)),
            foreign_tools=all(one.foreign_tools for one in takes),
            makes_summaries=any(one.makes_summaries for one in takes),
            counts_tokens=False,
            images=False,
            files=False,
        )
        return UsableRoute(self, targets, spare, together, str(targets[0]))

    def _describe(self, one: Candidate, turn: Turn, held: Held | None, expected: int) -> None:
        info, provider = self.routes.catalogue.lookup(*one.target), self.routes.providers[one.target.provider]
        one.losses = losses(turn, provider, info)
        one.is_too_small = fits(turn, info) is False and not truncates(turn.request, provider.capabilities)
        if self.route.settings.strategy in ("cheapest", "tiers") and info.prices is not None:
            given = estimated_tokens(turn)
            cached = min(held.tokens, given) if held is not None and held.target == one.target else 0
            one.cost = info.prices.cost(Usage.of(given, expected, cached=cached))
