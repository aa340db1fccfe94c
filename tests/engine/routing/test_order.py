"""In which order targets are asked: by list, weight, speed and price, and where a chain already is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Route, RouteSettings, Target
from antiphon.engine.capabilities import Loss
from antiphon.engine.routing.affinity import Held
from antiphon.engine.routing.order import Candidate, SmoothWeights, ordered
from antiphon.engine.routing.states import TargetState

NAMES = "abc"


def candidates() -> list[Candidate]:
    targets = [Target(name, "m") for name in NAMES]
    return [Candidate(target, TargetState.alone(target), n) for n, target in enumerate(targets)]


def asked(found: list[Candidate], strategy: str = "order", **more: object) -> str:
    route = Route("r", tuple(one.target for one in found), RouteSettings(strategy=strategy))  # type: ignore[arg-type]
    more.setdefault("weights", SmoothWeights([1.0] * len(found)))
    return "".join(one.target.provider for one in ordered(route, found, 0.0, **more))  # type: ignore[arg-type]


def test_they_are_asked_as_they_are_listed() -> None:
    assert asked(candidates()) == "abc"


def test_those_that_lose_something_come_last_and_those_too_small_not_at_all() -> None:
    found = candidates()
    found[0].losses = [Loss("top_p", "no")]
    found[1].is_too_small = True
    assert asked(found) == "ca"


def test_a_chain_stays_on_its_target() -> None:
    held = Held(Target("b", "m"), 100)
    assert asked(candidates(), held=held) == "bac"
    assert asked(candidates(), "weighted", held=held)[0] == "b"
    assert asked(candidates(), held=Held(Target("gone", "m"), 100)) == "abc"


@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.integers(0, 1000))
def test_weights_hold_exactly_over_whole_rounds(weights: list[int], seed: int) -> None:
    smooth = SmoothWeights([float(weight) for weight in weights], seed)
    positions = range(len(weights))
    rounds = 10
    drawn = Counter(smooth.draw(positions) for _ in range(sum(weights) * rounds))
    for position, weight in enumerate(weights):
        assert abs(drawn[position] - weight * rounds) <= 1


def test_weights_are_drawn_evenly_and_the_same_under_the_same_seed() -> None:
    smooth = SmoothWeights([3.0, 1.0])
    assert [smooth.draw([0, 1]) for _ in range(8)] == [0, 0, 1, 0] * 2
    one, other = (SmoothWeights([2.0, 1.0, 1.0], 7) for _ in range(2))
    assert [one.draw([0, 1, 2]) for _ in range(20)] == [other.draw([0, 1, 2]) for _ in range(20)]


def test_a_target_that_rests_is_not_drawn() -> None:
    found = candidates()
    found[0].state.breaker.failed(0, "ordinary", limit=1, cooldown=60)
    weights = SmoothWeights([10.0, 1.0, 1.0])
    first = Counter(asked(found, "weighted", weights=weights)[0] for _ in range(20))
    assert first == {"b": 10, "c": 10}


def test_the_fastest_is_asked_first_once_all_have_been_tried() -> None:
    found = candidates()
    found[0].state.estimates.answered(0.5, 100, 1.0)
    found[1].state.estimates.answered(0.1, 100, 10.0)
    assert asked(found, "fastest") == "cab"
    found[2].state.estimates.answered(2.0, 1000, 1.0)
    assert asked(found, "fastest") == "cab"
    held = Held(Target("b", "m"), 0)
    assert asked(found, "fastest", held=held) == "cab"
    assert asked(found, "fastest", held=Held(Target("a", "m"), 20_000)) == "acb"


def test_a_chain_does_not_leave_its_target_to_find_out_how_fast_another_is() -> None:
    found = candidates()
    found[0].state.estimates.answered(5.0, 100, 1.0)
    assert asked(found, "fastest", held=Held(Target("a", "m"), 0)) == "abc"


def test_the_cheapest_is_asked_first_and_those_without_a_price_last() -> None:
    found = candidates()
    found[1].cost, found[2].cost = 0.002, 0.001
    assert asked(found, "cheapest") == "cba"


@pytest.mark.parametrize("answers", [1, 30])
def test_estimates_follow_what_is_measured(answers: int) -> None:
    estimates = TargetState.alone(Target("a", "m")).estimates
    assert estimates.duration(100) is None
    for _ in range(answers):
        estimates.answered(0.5, 200, 4.0)
    assert estimates.duration(100) == pytest.approx(2.5)
    for _ in range(30):
        estimates.answered(1.0, 200, 1.0)
    assert estimates.duration(100) == pytest.approx(1.5, rel=0.01)
