"""What a gateway adds to the time of an answer and of its first token: ours and nginx, one request at a time.

The upstream is also asked directly, in the same rounds; what is above that was added. The median of a round
is that of its requests, and a ratio that of one round; the 99th percentile is taken over all rounds.
"""

import statistics

from bench import load
from bench.contenders import DIRECT, NGINX, OURS, UNSTORED, Contender, proxied
from bench.figures import TIMES, Recorder, paired
from bench.measure import check
from bench.options import Options

REQUESTS = 60
ROUNDS_EACH = 3
"""Rounds here for each that is asked for; they are short."""
KINDS = {"plain": ("each-64", False), "first delta": ("each-16", True)}

Times = dict[str, list[list[float]]]
"""Seconds of single requests, in lists of rounds, by contender."""


def run(record: Recorder, options: Options) -> None:
    with proxied(options, DIRECT, UNSTORED) as made:
        rounds = ROUNDS_EACH * options.rounds
        print(f"µs added to the upstream's own time, {rounds} rounds of {REQUESTS} requests")
        print(f"{'':<36}{'p50':>24}{'p99':>12}")
        for kind, (model, stream) in KINDS.items():
            times: Times = {name: [] for name in made}
            for turn in range(rounds + 1):
                for name, one in made.items():
                    measured = _ask(one, model, stream)
                    if turn:  # the first one is for warming up
                        times[name].append(measured)
            _tell(record, kind, times)


def _ask(one: Contender, model: str, stream: bool) -> list[float]:
    request = one.request(model, stream=stream)
    outcome = load.run(load.send(request, count=REQUESTS + 1, connections=1, limit=20))
    check(one, model, outcome)
    return (outcome.firsts if stream else outcome.times)[1:]  # the first paid for the connection


def _tell(record: Recorder, kind: str, times: Times) -> None:
    direct = [statistics.median(one) for one in times[DIRECT]]
    worst = _p99(times[DIRECT])
    record.add(f"{kind}, p50, {DIRECT}", [value * 1e6 for value in direct], "µs")
    added: dict[str, list[float]] = {}
    for name, rounds in times.items():
        if name == DIRECT:
            continue
        added[name] = [statistics.median(one) - own for one, own in zip(rounds, direct, strict=True)]
        p50 = record.add(f"{kind}, added p50, {name}", [value * 1e6 for value in added[name]], "µs")
        p99 = record.add(f"{kind}, added p99, {name}", [(_p99(rounds) - worst) * 1e6], "µs")
        print(f"{kind + ', ' + name:<36}{p50!s:>24}{p99!s:>12}")
    if NGINX in added:
        # A disturbed round can say that nginx added nothing; there is no ratio in that.
        pairs = [(a, b) for a, b in zip(added[OURS], added[NGINX], strict=True) if b > 0]
        if pairs:
            ratios = paired([a for a, _ in pairs], [b for _, b in pairs])
            figure = record.add(f"{kind}, added p50, ours / nginx", ratios, TIMES)
            print(f"{kind + ', ours / nginx':<36}{figure!s:>24}")


def _p99(rounds: list[list[float]]) -> float:
    return statistics.quantiles([value for one in rounds for value in one], n=100)[98]
