"""In which order targets are asked: by list, weight, speed and price, and where a chain already is."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Route, RouteSettings, Target
from antiphon.engine.capabilities import REFUSED, Loss
from antiphon.engine.routing.affinity import Held
from antiphon.engine.routing.estimates import OLD, PATIENCE
from antiphon.engine.routing.order import EXPLORED, Candidate, SmoothWeights, sort_candidates
from antiphon.engine.routing.states import TargetState

NAMES = "abc"


def candidates() -> list[Candidate]:
    targets = [Target(name, "m") for name in NAMES]
    return [Candidate(target, TargetState.alone(target), n) for n, target in enumerate(targets)]


def asked(found: list[Candidate], strategy: str = "order", **more: object) -> str:
    route = Route("r", tuple(one.target for one in found), RouteSettings(strategy=strategy))  # type: ignore[arg-type]
    more.setdefault("weights", SmoothWeights([1.0] * len(found)))
    return "".join(one.target.provider for one in sort_candidates(route, found, 0.0, **more))  # type: ignore[arg-type]


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
    found[0].state.breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    weights = SmoothWeights([10.0, 1.0, 1.0])
    first = Counter(asked(found, "weighted", weights=weights)[0] for _ in range(20))
    assert first == {"b": 10, "c": 10}


def test_the_fastest_is_asked_first_once_all_have_been_tried() -> None:
    found = candidates()
    found[0].state.estimates.note_answer(1.0, 0.5, 100, 1.0)
    found[1].state.estimates.note_answer(1.0, 0.1, 100, 10.0)
    assert asked(found, "fastest") == "cab"
    found[2].state.estimates.note_answer(1.0, 2.0, 1000, 1.0)
    assert asked(found, "fastest") == "cab"
    held = Held(Target("b", "m"), 0)
    assert asked(found, "fastest", held=held) == "cab"
    assert asked(found, "fastest", held=Held(Target("a", "m"), 20_000)) == "acb"


def test_a_chain_does_not_leave_its_target_to_find_out_how_fast_another_is() -> None:
    found = candidates()
    found[0].state.estimates.note_answer(1.0, 5.0, 100, 1.0)
    assert asked(found, "fastest", held=Held(Target("a", "m"), 0)) == "abc"


def test_the_cheapest_is_asked_first_and_those_without_a_price_last() -> None:
    found = candidates()
    found[1].cost, found[2].cost = 0.002, 0.001
    assert asked(found, "cheapest") == "cba"


def test_who_would_refuse_comes_after_who_would_lose_something() -> None:
    found = candidates()
    found[0].losses = [Loss("tools", "no", REFUSED)]
    found[1].losses = [Loss("top_p", "no"), Loss("seed", "no")]
    found[2].losses = [Loss("top_p", "no")]
    assert asked(found) == "bca"
    assert found[1].reason == "listed; what comes before it takes less of the request"


def test_weights_hold_among_targets_that_all_lose_something() -> None:
    """A parameter that none of them has does not send everything to the first."""
    weights = SmoothWeights([2.0, 1.0, 1.0])
    first: Counter[str] = Counter()
    for _ in range(20):
        found = candidates()
        for one in found[:2]:
            one.losses = [Loss("prompt_cache_key", "no")]
        found[2].losses = [Loss("tools", "no", REFUSED)]
        first[asked(found, "weighted", weights=weights)[0]] += 1
    assert first == {"a": 13, "b": 7}


def test_a_target_that_weighs_nothing_is_not_drawn_while_another_can_be() -> None:
    weights = SmoothWeights([5.0, 0.0, 1.0])
    for _ in range(4):
        weights.draw([0, 1, 2])
    assert [weights.draw([1, 2]) for _ in range(5)] == [2] * 5
    assert weights.draw([1]) == 1


def test_those_that_were_not_drawn_follow_by_weight_and_a_chain_draws_none() -> None:
    weights = SmoothWeights([1.0, 2.0, 3.0])
    held = Held(Target("a", "m"), 10)
    assert [asked(candidates(), "weighted", weights=weights, held=held) for _ in range(3)] == ["acb"] * 3
    assert asked(candidates(), "weighted", weights=weights) == "cba"


@pytest.mark.parametrize("cost", [None, 0.001])
def test_a_chain_does_not_move_to_a_target_that_is_no_cheaper(cost: float | None) -> None:
    found = candidates()
    for one in found:
        one.cost = cost
    assert asked(found, "cheapest", held=Held(Target("b", "m"), 50_000)) == "bac"


def first_of(found: list[Candidate], now: float, *, explores: bool) -> str:
    route = Route("r", tuple(one.target for one in found), RouteSettings(strategy="fastest"))
    weights = SmoothWeights([1.0] * len(found))
    return sort_candidates(route, found, now, weights=weights, explores=explores)[0].target.provider


def test_a_target_that_was_slow_long_ago_is_measured_again_by_one_request() -> None:
    found = candidates()[:2]
    slow, quick = (one.state.estimates for one in found)
    slow.note_answer(1000.0, 5.0, 100, 1.0)
    quick.note_answer(1000.0, 0.1, 100, 1.0)
    assert first_of(found, 1001.0, explores=True) == "b"
    now = 1000.0 + OLD
    quick.note_answer(now, 0.1, 100, 1.0)
    assert first_of(found, now, explores=False) == "b"
    assert first_of(found, now, explores=True) == "a"
    assert found[0].reason == "its estimate is old"
    slow.note_question(now)
    assert first_of(found, now + PATIENCE - 1, explores=True) == "b"
    assert first_of(found, now + PATIENCE, explores=True) == "a"
    slow.note_answer(now + PATIENCE, 0.01, 100, 1.0)
    assert first_of(found, now + PATIENCE, explores=False) == "a"


@pytest.mark.parametrize("gap", [60.0, 290.0, 301.0, 600.0])
def test_a_route_that_is_seldom_asked_keeps_to_the_faster_target(gap: float) -> None:
    """Old estimates are better than none, and only one request in ten makes one anew."""
    found, seconds, asked = candidates()[:2], {"a": 30.0, "b": 0.3}, Counter[str]()
    random, now = Random(1), 1000.0
    for _ in range(200):
        name = first_of(found, now, explores=random.random() < EXPLORED)
        estimates = found["ab".index(name)].state.estimates
        estimates.note_question(now)
        estimates.note_answer(now + seconds[name], seconds[name], 0, 0.0)
        asked[name] += 1
        now += gap
    assert asked["b"] > 5 * asked["a"] > 0
