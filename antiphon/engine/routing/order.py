"""In which order the targets of a route are asked."""

from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from antiphon.config import Route, Target
from antiphon.engine.capabilities import Loss
from antiphon.engine.routing.affinity import Held
from antiphon.engine.routing.states import TargetState

EXPECTED_TOKENS = 200
"""How long an answer is taken to be before there is one."""
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

    def draw(self, positions: Sequence[int]) -> int:
        """One of these positions."""
        current, total = self._current, 0.0
        for position in positions:
            current[position] += self._weights[position]
            total += self._weights[position]
        drawn = max(positions, key=lambda position: (current[position], -position))
        current[drawn] -= total
        return drawn

    def rank(self, position: int) -> float:
        """Those that weigh more come first."""
        return -self._weights[position]


Sort = Callable[[list[Candidate]], list[Candidate]]


def ordered(
    route: Route,
    candidates: list[Candidate],
    now: float,
    *,
    weights: SmoothWeights,
    held: Held | None = None,
    tiers: Sort | None = None,
) -> list[Candidate]:
    """The candidates as they are to be asked: those that lose something last, those too small not at all.

    `held` says where the chain is that this request goes on with, and `tiers` sorts for that strategy.
    """
    able = [one for one in candidates if not one.is_too_small]
    strategy = route.settings.strategy
    if len(able) > 1:
        if strategy == "weighted":
            able = _weighted(able, weights, now, held)
        elif strategy == "fastest":
            able = _fastest(able, held)
        elif strategy == "cheapest":
            able = _cheapest(able)
        elif strategy == "tiers" and tiers is not None:
            able = tiers(able)
    for one in able:
        one.reason = one.reason or "listed"
    if held is not None and strategy not in ("fastest", "cheapest"):
        able.sort(key=lambda one: one.target != held.target)
        if able and able[0].target == held.target:
            able[0].reason = "affinity"
    able.sort(key=lambda one: bool(one.losses))
    return able


def _weighted(
    able: list[Candidate], weights: SmoothWeights, now: float, held: Held | None
) -> list[Candidate]:
    """One is drawn among those that can be asked now; a chain that has its target draws none."""
    by_weight = sorted(able, key=lambda one: (weights.rank(one.position), one.position))
    if held is not None and any(one.target == held.target for one in able):
        return by_weight
    ready = [one for one in able if not one.losses and one.state.breaker.admits(now)]
    if not ready:
        return by_weight
    drawn = weights.draw([one.position for one in ready])
    for one in by_weight:
        one.reason = "weight"
    return sorted(by_weight, key=lambda one: one.position != drawn)


def _fastest(able: list[Candidate], held: Held | None) -> list[Candidate]:
    """Whoever has no estimate yet is asked first, unless the chain has its target."""
    stays = held is not None and any(one.target == held.target for one in able)

    def seconds(one: Candidate) -> float:
        known = one.state.estimates.duration(EXPECTED_TOKENS)
        if stays and held is not None and one.target != held.target:
            return float("inf") if known is None else known + held.tokens / READ_SPEED
        return 0.0 if known is None else known

    for one in able:
        known = one.state.estimates.duration(EXPECTED_TOKENS)
        one.reason = "no estimate yet" if known is None else f"about {known:.2g} s"
    return sorted(able, key=seconds)


def _cheapest(able: list[Candidate]) -> list[Candidate]:
    """By what is known of their prices; those that nobody has priced come last."""
    for one in able:
        one.reason = "unpriced" if one.cost is None else f"about ${one.cost:.6f}"
    return sorted(able, key=lambda one: float("inf") if one.cost is None else one.cost)
