"""`python -m bench.compare OLD NEW`: what got worse between two saved runs; exit code 1 if anything did.

Times of two runs say more about the machine than about the program, so they are not compared. What is
compared are the ratios, whose two sides were measured in the same round, and amounts of memory. A figure got
worse or better when its median moved by more than the tolerance and the rounds of both runs do not explain
that by chance.
"""

import argparse
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.figures import TIMES, Figure, Run, amount

TOLERANCE = 0.05
SINGLE = 0.10
"""The tolerance for an amount, which has no rounds to judge its noise by."""
ROUNDS = 3
"""A ratio of fewer rounds is not judged."""
COMPARED = frozenset({TIMES, "kB", "MB"})
_DRAWS = 1000
_OUTSIDE = 0.025

Verdict = Literal["worse", "better", "same", "unsure"]


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    old: Figure
    new: Figure
    factor: float
    """The new median divided by the old one."""
    low: float
    high: float
    """Between these the factor lies, with a probability of 95 %."""
    verdict: Verdict

    def __str__(self) -> str:
        return (
            f"{self.verdict:<7}{self.name:<66}{amount(self.old.median):>9} -> {amount(self.new.median):>8} "
            f"{self.new.unit:<3}{self.factor:>6.2f} x ({self.low:.2f}-{self.high:.2f})"
        )


def changes(old: Run, new: Run) -> Iterator[Change]:
    """Every figure that both runs have and that can be compared."""
    for part, now in new.parts.items():
        before = old.parts.get(part)
        if before and before.options.work != now.options.work:
            print(f"{part} was given other work: {before.options.work}, then {now.options.work}")
            continue
        for name, figure in now.figures.items():
            earlier = before.figures.get(name) if before else None
            if earlier is not None and figure.unit in COMPARED and earlier.unit == figure.unit:
                yield judge(f"{part}: {name}", earlier, figure)


def judge(name: str, old: Figure, new: Figure) -> Change:
    factor = _divided(new.median, old.median)
    low = high = factor
    tolerance = SINGLE
    verdict: Verdict = "same"
    if new.unit == TIMES:
        if min(len(old.values), len(new.values)) < ROUNDS:
            return Change(name, old, new, factor, low, high, "unsure")
        low, high = _bounds(old.values, new.values)
        tolerance = TOLERANCE
    if factor > 1 + tolerance and low > 1:
        verdict = "worse" if new.better == "lower" else "better"
    elif factor < 1 - tolerance and high < 1:
        verdict = "better" if new.better == "lower" else "worse"
    return Change(name, old, new, factor, low, high, verdict)


def _bounds(old: Sequence[float], new: Sequence[float]) -> tuple[float, float]:
    """What the factor would be had other rounds been drawn, without the outermost on both sides."""
    chance = random.Random(0)
    factors = sorted(
        _divided(
            statistics.median(chance.choices(new, k=len(new))),
            statistics.median(chance.choices(old, k=len(old))),
        )
        for _ in range(_DRAWS)
    )
    cut = int(_DRAWS * _OUTSIDE)
    return factors[cut], factors[-cut - 1]


def _divided(upper: float, lower: float) -> float:
    if lower == 0:
        return 1.0 if upper == 0 else float("inf")
    return upper / lower


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--all", action="store_true", help="also what stayed the same")
    given = parser.parse_args()
    old, new = Run.load(given.old), Run.load(given.new)
    found = list(changes(old, new))
    for verdict in ("worse", "better", *(["same", "unsure"] if given.all else [])):
        for change in found:
            if change.verdict == verdict:
                print(change)
    count = Counter(change.verdict for change in found)
    busy = [max((part.busy for part in run.parts.values()), default=0) for run in (old, new)]
    print(
        f"{len(found)} figures compared: {count['worse']} worse, {count['better']} better, "
        f"{count['unsure']} with fewer than {ROUNDS} rounds; "
        f"other programs kept up to {busy[0]:.1f} and {busy[1]:.1f} processors busy"
    )
    if not found:
        print("the two runs have no figure in common that can be compared")
    return 1 if count["worse"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
