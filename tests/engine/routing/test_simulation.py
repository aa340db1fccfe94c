"""Thousands of runs without a clock: what a route promises under load, whatever its targets do."""

from bisect import bisect_left, bisect_right
from random import Random
from typing import get_args

import pytest

from antiphon.config import RouteSettings
from antiphon.engine.routing.estimates import OLD
from antiphon.engine.routing.retry_budget import LEAST, SHARE, WINDOW
from bench.routing import FIGURE, Mood, Outcome, Phase, Simulation, figure, long_run

COOLDOWN = 5.0
RUNS = 700
"""For each strategy."""
MOODS: tuple[Mood, ...] = get_args(Mood)


def any_moods(random: Random, end: float) -> list[list[Phase]]:
    """Two or three targets, each of which changes a few times; all are well in the last third."""
    return [
        [
            *(
                Phase(since, random.choice(MOODS))
                for since in sorted(random.uniform(0, end * 2 / 3) for _ in range(random.randint(0, 4)))
            ),
            Phase(end * 2 / 3, "well"),
        ]
        for _ in range(random.randint(2, 3))
    ]


def within(times: list[float], after: float, until: float) -> int:
    return bisect_right(times, until) - bisect_right(times, after)


def check_budgets(outcome: Outcome) -> None:
    """In no minute more retries than a fifth of what clients sent, unless that is fewer than ten."""
    for asked in outcome.targets:
        for time in asked.retried:
            retried = within(asked.retried, time - WINDOW, time)
            sent = within(asked.sent, time - WINDOW, time)
            assert retried <= max(LEAST, sent // SHARE)


def check_probes(outcome: Outcome) -> None:
    assert all(asked.most_probes <= 1 and asked.probes == 0 for asked in outcome.targets)


def first_answer(outcome: Outcome, target: int, since: float) -> float:
    times = outcome.targets[target].answered
    found = bisect_left(times, since)
    return times[found] - since if found < len(times) else float("inf")


@pytest.mark.parametrize("strategy", ["order", "weighted", "fastest"])
def test_whatever_the_targets_do(strategy: str) -> None:
    end = 45.0
    for seed in range(RUNS):
        random = Random(seed)
        settings = RouteSettings(
            strategy=strategy,  # type: ignore[arg-type]
            cooldown=COOLDOWN,
            failures=random.randint(1, 4),
            retries=random.randint(0, 3),
        )
        moods = any_moods(random, end)
        retry_after = random.choice([None, 2.0])
        outcome = Simulation(settings, moods, seed=seed, rate=3.0, end=end, retry_after=retry_after).run()
        check_budgets(outcome)
        check_probes(outcome)
        assert all(time < end * 2 / 3 + 2 * COOLDOWN for time in outcome.failed), seed
        if strategy == "weighted":
            for target in range(len(moods)):
                assert first_answer(outcome, target, end * 2 / 3) < 2 * COOLDOWN, (seed, target)
        elif strategy == "order":
            assert first_answer(outcome, 0, end * 2 / 3) < 2 * COOLDOWN, seed


def test_the_fastest_finds_out_that_a_target_is_fast_again() -> None:
    """One is slow for a minute, the other from then on; one request finds out, and all others follow it."""
    moods: list[list[Phase]] = [
        [Phase(0, "slow"), Phase(60, "well")],
        [Phase(0, "well"), Phase(OLD - 10, "slow")],
    ]
    outcome = Simulation(RouteSettings(strategy="fastest"), moods, seed=3, rate=5.0, end=2 * OLD).run()
    first, second = outcome.targets
    assert within(first.sent, 10, OLD - 10) == 0
    assert within(first.sent, OLD + 10, 2 * OLD) > 20 * within(second.sent, OLD + 10, 2 * OLD)
    assert outcome.failed == []


def test_a_dead_upstream_gets_no_storm() -> None:
    """Two targets that both throttle, under thirty requests a second."""
    moods: list[list[Phase]] = [[Phase(0, "erring")], [Phase(0, "erring")]]
    settings = RouteSettings(cooldown=COOLDOWN, failures=1000, retries=5)
    outcome = Simulation(settings, moods, seed=1, rate=30.0, end=180.0).run()
    check_budgets(outcome)
    assert sum(len(asked.retried) for asked in outcome.targets) > 100


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0), (5.0, 3.0, 2.0), (0.7, 0.2, 0.1)])
@pytest.mark.parametrize("seed", [1, 2])
def test_weights_hold(weights: tuple[float, ...], seed: int) -> None:
    settings = RouteSettings(strategy="weighted", weights=weights)
    moods: list[list[Phase]] = [[Phase(0, "well")] for _ in weights]
    outcome = Simulation(settings, moods, seed=seed, rate=10.0, end=200.0).run()
    total = sum(len(asked.sent) for asked in outcome.targets)
    for asked, weight in zip(outcome.targets, weights, strict=True):
        assert len(asked.sent) / total == pytest.approx(weight / sum(weights), abs=0.02)
    assert outcome.failed == []


def test_the_run_of_the_figure() -> None:
    """The first is back within two cooldowns, the weights hold when all are well, and clients hear little."""
    outcome = long_run().run()
    check_budgets(outcome)
    check_probes(outcome)
    for target, recovered in ((0, 210.0), (1, 390.0), (2, 330.0)):
        assert first_answer(outcome, target, recovered) < 60.0
    shares = [within(asked.sent, 0, 115) for asked in outcome.targets]
    assert [share / sum(shares) for share in shares] == pytest.approx([3 / 6, 2 / 6, 1 / 6], abs=0.02)
    assert len(outcome.failed) < outcome.answered / 1000
    assert figure(long_run().run()) == figure(outcome) == FIGURE.read_text(encoding="utf-8")
