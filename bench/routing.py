"""A route under load, simulated: targets fail, recover, slow down and throttle; requests come by chance.

No clock, no socket, no model: time is a number, and what decides is the code of the gateway itself: order,
breakers, retry budgets. The same seed gives the same run. `python -m bench.routing` draws one long run for
`docs/routing.md`.
"""

import heapq
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

from antiphon.config import Route, RouteSettings, Target
from antiphon.engine.routing.dispatch import Dispatch, Grant, Wait
from antiphon.engine.routing.failure_kinds import AttemptFailure
from antiphon.engine.routing.order import EXPLORED, Candidate, SmoothWeights, sort_candidates
from antiphon.engine.routing.states import States
from bench import svg

FIGURE: Final = Path(__file__).parent.parent / "docs" / "figures" / "routing.svg"

Mood = Literal["well", "down", "erring", "slow", "throttling"]
_WELL: Final = 0.4
"""Seconds that an answer takes."""


class Phase(NamedTuple):
    """How a target is from a moment on."""

    since: float
    mood: Mood


@dataclass
class Asked:
    """What happened with one target."""

    sent: list[float] = field(default_factory=list)
    retried: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    probes: int = 0
    """Those under way."""
    most_probes: int = 0


@dataclass
class Outcome:
    """What happened with the requests of one run."""

    targets: list[Asked]
    answered: int = 0
    failed: list[float] = field(default_factory=list)
    """When a client was told that there is no answer."""


class Simulation:
    """One run: requests come at `rate` a second, until `end`."""

    def __init__(
        self,
        settings: RouteSettings,
        moods: Sequence[Sequence[Phase]],
        *,
        seed: int,
        rate: float,
        end: float,
        retry_after: float | None = None,
    ) -> None:
        targets = tuple(Target("up", f"m{n}") for n in range(len(moods)))
        self.outcome = Outcome([Asked() for _ in targets])
        self._route = Route("r", targets, settings)
        self._moods = moods
        self._random = Random(seed)
        self._states = States(targets)
        self._weights = SmoothWeights(settings.weights or (1.0,) * len(targets), seed)
        self._rate = rate
        self._end = end
        self._retry_after = retry_after
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def run(self) -> Outcome:
        self._later(0.0, self._arrive)
        while self._events:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
        return self.outcome

    def _later(self, seconds: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._numbers), happen))

    def _arrive(self) -> None:
        pause = self._random.expovariate(self._rate)
        if self._now + pause < self._end:
            self._later(pause, self._arrive)
        found = [Candidate(target, self._states[target], n) for n, target in enumerate(self._route.targets)]
        explores = self._route.settings.strategy == "fastest" and self._random.random() < EXPLORED
        able = sort_candidates(self._route, found, self._now, weights=self._weights, explores=explores)
        self._go_on(Dispatch(self._route.settings, self._states, able, random=self._random))

    def _go_on(self, dispatch: Dispatch) -> None:
        step = dispatch.next(self._now)
        if step is None:
            self.outcome.failed.append(self._now)
        elif isinstance(step, Wait):
            self._later(step.seconds, lambda: self._go_on(dispatch))
        else:
            self._ask(dispatch, step)

    def _ask(self, dispatch: Dispatch, grant: Grant) -> None:
        position = grant.candidate.position
        asked = self.outcome.targets[position]
        (asked.retried if grant.reason.startswith("again") else asked.sent).append(self._now)
        if grant.admission == "probe":
            asked.probes += 1
            asked.most_probes = max(asked.most_probes, asked.probes)
        seconds, kind = self._behaviour(position)
        if kind is None:
            self._later(seconds / 2, lambda: self._begin(dispatch, grant, seconds / 2))
        else:
            self._later(seconds, lambda: self._fail(dispatch, grant, kind))

    def _begin(self, dispatch: Dispatch, grant: Grant, seconds: float) -> None:
        """The first words have come."""
        if grant.admission == "probe":
            self.outcome.targets[grant.candidate.position].probes -= 1
        grant.prove(dispatch.states, dispatch.settings.failures)
        self._later(seconds, lambda: self._answer(dispatch, grant, seconds))

    def _answer(self, dispatch: Dispatch, grant: Grant, seconds: float) -> None:
        grant.candidate.state.estimates.note_answer(self._now, seconds, 100, seconds)
        grant.succeed(dispatch.states)
        self.outcome.answered += 1
        self.outcome.targets[grant.candidate.position].answered.append(self._now)

    def _fail(self, dispatch: Dispatch, grant: Grant, kind: AttemptFailure) -> None:
        asked = self.outcome.targets[grant.candidate.position]
        asked.failed.append(self._now)
        if grant.admission == "probe":
            asked.probes -= 1
        dispatch.note_failure(grant, kind, self._now, self._retry_after if kind == "rate_limit" else None)
        self._go_on(dispatch)

    def _behaviour(self, position: int) -> tuple[float, AttemptFailure | None]:
        """How long the target takes now, and how it fails if it does."""
        phases = self._moods[position]
        mood = next((phase.mood for phase in reversed(phases) if phase.since <= self._now), "well")
        chance = self._random.random()
        match mood:
            case "down":
                return 0.02, "connection"
            case "throttling":
                return 0.05, "rate_limit"
            case "erring" if chance < 0.5:
                return 0.2, "server_error"
            case "slow":
                return _WELL * 5 * (0.5 + chance), None
        return _WELL * (0.5 + chance), None


def long_run() -> Simulation:
    """The run of the figure: ten minutes of twenty requests a second over three targets."""
    moods: list[list[Phase]] = [
        [Phase(0, "well"), Phase(120, "down"), Phase(210, "well"), Phase(480, "slow"), Phase(540, "well")],
        [Phase(0, "well"), Phase(300, "throttling"), Phase(390, "well")],
        [Phase(0, "well"), Phase(180, "erring"), Phase(330, "well")],
    ]
    settings = RouteSettings(strategy="weighted", weights=(3.0, 2.0, 1.0), cooldown=30.0)
    return Simulation(settings, moods, seed=7, rate=20.0, end=600.0)


def figure(outcome: Outcome, *, step: float = 5.0, end: float = 600.0) -> str:
    names = ("first, weight 3", "second, weight 2", "third, weight 1")
    starts = [n * step for n in range(int(end / step))]

    def rate(times: Sequence[float], start: float) -> float:
        return sum(start <= time < start + step for time in times) / step

    lines = {
        name: [(start, rate(asked.sent + asked.retried, start)) for start in starts]
        for name, asked in zip(names, outcome.targets, strict=True)
    }
    lines["no answer"] = [(start, rate(outcome.failed, start)) for start in starts]
    return svg.timeline("A route of three targets under load", "seconds", "requests a second", lines)


def main() -> None:
    outcome = long_run().run()
    FIGURE.write_text(figure(outcome), encoding="utf-8")
    retries = [len(asked.retried) for asked in outcome.targets]
    print(f"{outcome.answered} answered, {len(outcome.failed)} not, retries {retries}", file=sys.stderr)


if __name__ == "__main__":
    main()
