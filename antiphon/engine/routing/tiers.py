"""The strategy `tiers`: the targets of a route go from the weakest to the strongest, and the task decides.

How hard the task is says which of them is wanted, and how soon the answer is needed says what matters beside
that.
"""

from collections.abc import Callable, Sequence
from math import inf

from antiphon.config import Target
from antiphon.engine.routing.order import Candidate, expected_seconds
from antiphon.spec.routing import RouteHint, RoutingDecision, SpeedRequirement, TaskComplexity

_LEVELS = tuple(TaskComplexity)
_Key = Callable[[Candidate], tuple[float, ...]]


def wanted_position(complexity: TaskComplexity, targets: int) -> int:
    """Which of so many targets a task wants, if all of them can: the first for a simple one, the last for a
    critical one.

    >>> [wanted_position(one, 3) for one in TaskComplexity]
    [0, 1, 1, 2]
    """
    return (2 * _LEVELS.index(complexity) * (targets - 1) + 3) // 6


def in_tiers(
    candidates: Sequence[Candidate], now: float, hint: RouteHint, targets: int, explores: bool = False
) -> list[Candidate]:
    """The candidates in the order that suits the task; `targets` is how many the route has.

    The nearest tier comes first, and of two that are equally near the stronger one. `fast` takes the faster
    of neighbours, `instant` the fastest of all, and `relaxed` the cheapest of all that are strong enough.
    """
    wanted = wanted_position(hint.complexity, targets)

    def near(one: Candidate) -> tuple[float, ...]:
        return (abs(one.position - wanted), -one.position)

    keys: dict[SpeedRequirement, _Key] = {
        SpeedRequirement.INSTANT: lambda one: (expected_seconds(one, now, explores), *near(one)),
        SpeedRequirement.FAST: lambda one: (
            abs(one.position - wanted) > 1,
            expected_seconds(one, now, explores),
            *near(one),
        ),
        SpeedRequirement.NORMAL: near,
        SpeedRequirement.RELAXED: lambda one: (
            one.position < wanted,
            _dollars(one) if one.position >= wanted else 0.0,
            *near(one),
        ),
    }
    for one in candidates:
        one.reason = _reason(one, hint, wanted)
    return sorted(candidates, key=keys[SpeedRequirement(hint.speed)])


def one_target(target: Target) -> RoutingDecision:
    """Where there is nothing to choose."""
    return RoutingDecision(
        provider_name=target.provider,
        model_name=target.upstream_model,
        reasoning="the only target",
        fallback_providers=[],
    )


def decision(candidates: Sequence[Candidate]) -> RoutingDecision | None:
    """Which target is asked first, and which after that; None when none can be."""
    if not candidates:
        return None
    first, *others = candidates
    return RoutingDecision(
        provider_name=first.target.provider,
        model_name=first.target.upstream_model,
        reasoning=first.reason,
        fallback_providers=[str(one.target) for one in others],
        estimated_cost=first.cost,
        estimated_speed=first.state.estimates.duration(),
    )


def _dollars(one: Candidate) -> float:
    return inf if one.cost is None else one.cost


def _reason(one: Candidate, hint: RouteHint, wanted: int) -> str:
    tier = "the tier for it" if one.position == wanted else "a tier that is near"
    if abs(one.position - wanted) > 1:
        tier = "a tier that is left"
    return f"{hint.complexity} task, {hint.speed} answer: {tier}"
