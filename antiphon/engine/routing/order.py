"""In which order the targets of a route are asked."""

from collections.abc import Callable, Sequence
from math import inf
from random import Random

from msgspec import Struct

from antiphon.config import Route, Target
from antiphon.engine.capabilities import REFUSED, Loss
from antiphon.engine.routing.affinity import Held
from antiphon.engine.routing.breaker import Breaker
from antiphon.engine.routing.states import TargetState
from antiphon.engine.routing.tenant_breakers import TenantBreaker

EXPLORED = 0.1
"""The share of requests that may find out anew how fast a target is."""
_UNKNOWN, _OLD = -2.0, -1.0
READ_SPEED = 5000.0
"""How many tokens of a prompt a provider without a cache is taken to read in a second."""


class Candidate(Struct, eq=False):
    """A target that may be asked, and what is known about it for one request."""

    target: Target
    state: TargetState
    position: int = 0
    """In the list of the route."""
    losses: Sequence[Loss] = ()
    """What it would drop or refuse of the request."""
    is_too_small: bool = False
    """The context is known not to fit it, so it is not sent there."""
    cost: float | None = None
    """What the request is estimated to cost there, in dollars; None if that is not known."""
    reason: str = ""
    """Why it stands where it stands."""
    own: TenantBreaker | None = None
    """Its breaker as the tenant of the request meets it."""

    @property
    def breaker(self) -> Breaker | TenantBreaker:
        return self.state.breaker if self.own is None else self.own

    @property
    def shortfall(self) -> int:
        """0 if it takes all of the request, 1 if it would lose something of it, 2 if it would refuse it."""
        return max((2 if loss.action == REFUSED else 1 for loss in self.losses), default=0)


class SmoothWeights:
    """Draws targets in proportion to their weights, and as evenly as that goes: 3 to 1 is A A B A.

    The seed decides where the round begins, so that several processes do not all begin with the same target.
    """

    def __init__(self, weights: Sequence[float], seed: int = 0) -> None:
        self._weights = tuple(weights)
        random = Random(seed)
        self._current = (
            [weight * random.random() for weight in self._weights] if seed else [0.0] * len(weights)
        )

    def __copy__(self) -> "SmoothWeights":
        made = SmoothWeights(self._weights)
        made._current = list(self._current)
        return made

    def draw(self, positions: Sequence[int]) -> int:
        """One of these positions; none that weighs nothing, unless there is no other."""
        positions = [position for position in positions if self._weights[position]] or positions
        current, total = self._current, 0.0
        for position in positions:
            current[position] += self._weights[position]
            total += self._weights[position]
        drawn = max(positions, key=lambda position: (current[position], -position))
        current[drawn] -= total
        return drawn

    def rank(self, position: int) -> float:
        """The heavier ones come first."""
        return -self._weights[position]


Sort = Callable[[list[Candidate]], list[Candidate]]


def sort_candidates(
    route: Route,
    candidates: list[Candidate],
    now: float,
    *,
    weights: SmoothWeights,
    held: Held | None = None,
    tiers: Sort | None = None,
    explores: bool = False,
) -> list[Candidate]:
    """The candidates as they are to be asked: any that loses something comes last, any too small not at all.

    `held` says where the chain is that this request goes on with, `tiers` sorts for that strategy, and with
    `explores` a target of which only an old estimate is known is measured again.
    """
    able = [one for one in candidates if not one.is_too_small]
    strategy = route.settings.strategy
    if len(able) > 1:
        if strategy == "weighted":
            able = _draw_by_weight(able, weights, now, held)
        elif strategy == "fastest":
            able = _fastest(able, now, explores, held)
        elif strategy == "cheapest":
            able = _cheapest(able, held)
        elif tiers is not None:
            able = tiers(able)
    for one in able:
        one.reason = one.reason or "listed"
    if held is not None and strategy not in ("fastest", "cheapest"):
        able.sort(key=lambda one: one.target != held.target)
        if able and able[0].target == held.target:
            able[0].reason = "affinity"
    return least_loss_first(able) if any(one.losses for one in able) else able


def least_loss_first(able: list[Candidate]) -> list[Candidate]:
    """The candidates that take the whole request, then the others that lose something of it."""
    found = sorted(able, key=lambda one: one.shortfall)
    if found[0] is not able[0]:
        found[0].reason += "; what comes before it takes less of the request"
    return found


def _draw_by_weight(
    able: list[Candidate], weights: SmoothWeights, now: float, held: Held | None
) -> list[Candidate]:
    """Draw one of the candidates that can be asked now and take most; a chain with a target draws none."""
    by_weight = sorted(able, key=lambda one: (weights.rank(one.position), one.position))
    if held is not None and any(one.target == held.target for one in able):
        return by_weight
    ready = [one for one in able if one.breaker.admits(now)]
    if not ready:
        return by_weight
    least = min(one.shortfall for one in ready)
    drawn = weights.draw([one.position for one in ready if one.shortfall == least])
    for one in by_weight:
        one.reason = "weight"
    return sorted(by_weight, key=lambda one: one.position != drawn)


def expected_seconds(one: Candidate, now: float, explores: bool) -> float:
    """How long an answer would take; negative if that is to be found out, endless if it is unknown."""
    estimates = one.state.estimates
    known, is_free = estimates.duration(), not estimates.is_measured(now)
    if known is None:
        return _UNKNOWN if is_free else inf
    return _OLD if explores and is_free and estimates.is_old(now) else known


def _fastest(able: list[Candidate], now: float, explores: bool, held: Held | None) -> list[Candidate]:
    """Who has no estimate comes first, then one whose estimate is old, unless the chain has its target."""
    for one in able:
        known = one.state.estimates.duration()
        one.reason = "no estimate yet" if known is None else f"about {known:.2g} s"
    if held is None or all(one.target != held.target for one in able):
        found = sorted(able, key=lambda one: expected_seconds(one, now, explores))
        if expected_seconds(found[0], now, explores) == _OLD:
            found[0].reason = "its estimate is old"
        return found

    def seconds(one: Candidate) -> tuple[float, bool]:
        known, is_there = one.state.estimates.duration(), one.target == held.target
        if known is None:
            return (0.0 if is_there else inf), not is_there
        return known + (0.0 if is_there else held.tokens / READ_SPEED), not is_there

    return sorted(able, key=seconds)


def _cheapest(able: list[Candidate], held: Held | None) -> list[Candidate]:
    """By what is known of their prices; those without one come last, and a chain moves only for a gain."""
    for one in able:
        one.reason = "unpriced" if one.cost is None else f"about ${one.cost:.6f}"
    return sorted(
        able,
        key=lambda one: (
            inf if one.cost is None else one.cost,
            held is not None and one.target != held.target,
        ),
    )
