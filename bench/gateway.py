"""CPU time for each request and each streamed delta: ours beside nginx and a straightforward gateway.

All three stand in front of the same upstream, at once. In every round each takes its turn at each kind of
work, so that a noisy machine disturbs all alike; a ratio is the median of the ratios of single rounds.
"""

import json
import os
import statistics
import time
from dataclasses import dataclass, field

from antiphon.stream.auditor import audit_sse
from bench import load
from bench.contenders import NGINX, OURS, STRAIGHT, Contender, all_up
from bench.processes import Bystanders

PLAIN_TOKENS = 64
CONNECTIONS = 16
_SETTLE = 0.05


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of work; `counts` is how many requests each contender gets in a round."""

    name: str
    model: str
    stream: bool
    units: int
    counts: dict[str, int]
    aims: dict[str, str] = field(default_factory=dict)


def works(tokens: int) -> list[Work]:
    streams = {NGINX: 150, OURS: 150, STRAIGHT: 8}
    return [
        Work(
            "plain request",
            f"each-{PLAIN_TOKENS}",
            False,
            1,
            {NGINX: 4000, OURS: 1500, STRAIGHT: 250},
            {NGINX: "<= 15", STRAIGHT: ">= 10"},
        ),
        Work("delta, one write a token", f"each-{tokens}", True, tokens, streams, {NGINX: "<= 3"}),
        Work("delta, many in one write", f"burst-{tokens}", True, tokens, {**streams, NGINX: 300}),
    ]


def run(*, rounds: int, tokens: int, install: bool, limit: float = 20.0) -> None:
    kinds = works(tokens)
    with all_up(install=install) as contenders:
        for contender in contenders:
            for work in kinds:
                verify(contender, work)
        cpu: dict[tuple[str, str], list[float]] = {(w.name, c.name): [] for w in kinds for c in contenders}
        bystanders = Bystanders()
        for turn in range(rounds):
            for work in kinds:
                first = turn % len(contenders)
                for contender in contenders[first:] + contenders[:first]:
                    cpu[work.name, contender.name].append(measure(contender, work, limit))
        disturbed = bystanders.cores()
        _print(kinds, [contender.name for contender in contenders], cpu, rounds, tokens)
        print(f"other programs kept {disturbed:.1f} of {os.cpu_count()} processors busy meanwhile")


def verify(contender: Contender, work: Work) -> None:
    """It answers, completely and correctly, before anything is measured; this also warms it up."""
    request = contender.request(work.model, stream=work.stream)
    outcome = load.run(load.send(request, count=2 * CONNECTIONS, connections=CONNECTIONS, limit=20))
    problem = (
        f"{outcome.failed} answers failed" if outcome.failed else _problem(contender, work, outcome.body)
    )
    if problem:
        raise SystemExit(f"bench: {contender.name}, {work.name}: {problem}\n{outcome.body[-1000:]!r}")


def _problem(contender: Contender, work: Work, body: bytes) -> str:
    if not work.stream:
        answer = json.loads(body)
        if contender.speaks_responses and (answer["status"] != "completed" or len(answer) < 31):
            return "the answer is not a whole response"
        return ""
    if not body.endswith(b"data: [DONE]\n\n"):
        return "the stream has no end"
    if not contender.speaks_responses:
        return "" if body.count(b'"content":') == work.units + 1 else "tokens are missing"
    if body.count(b"event: response.output_text.delta\n") != work.units:
        return "deltas are missing"
    return "; ".join(str(violation) for violation in audit_sse(body))


def measure(contender: Contender, work: Work, limit: float) -> float:
    """CPU seconds of the contender for one request or one delta."""
    request = contender.request(work.model, stream=work.stream)
    before = contender.program.cpu()
    outcome = load.run(
        load.send(request, count=work.counts[contender.name], connections=CONNECTIONS, limit=limit)
    )
    time.sleep(_SETTLE)
    spent = contender.program.cpu() - before
    if outcome.failed or not outcome.answers:
        raise SystemExit(f"bench: {contender.name}, {work.name}: {outcome.failed} answers failed")
    return spent / (outcome.answers * work.units)


def _print(
    kinds: list[Work],
    names: list[str],
    cpu: dict[tuple[str, str], list[float]],
    rounds: int,
    tokens: int,
) -> None:
    print(
        f"CPU time of each process tree, µs, median of {rounds} interleaved rounds; "
        f"{CONNECTIONS} connections, {tokens} tokens a stream, whole request counted"
    )
    print(
        f"{'':<28}"
        + "".join(f"{name:>17}" for name in names)
        + f"{'ours / nginx':>24}{'straight / ours':>24}"
    )
    for work in kinds:
        medians = "".join(f"{statistics.median(cpu[work.name, name]) * 1e6:>17.1f}" for name in names)
        ours = cpu[work.name, OURS]
        proxied = cpu.get((work.name, NGINX))
        above = _ratio(ours, proxied) if proxied else "no nginx"
        below = _ratio(cpu[work.name, STRAIGHT], ours)
        print(
            f"{work.name:<28}{medians}"
            f"{_with_aim(above, work.aims.get(NGINX)):>24}{_with_aim(below, work.aims.get(STRAIGHT)):>24}"
        )


def _ratio(upper: list[float], lower: list[float]) -> str:
    """The median of paired ratios, and how far single rounds lie apart."""
    ratios = sorted(a / b for a, b in zip(upper, lower, strict=True))
    return f"{statistics.median(ratios):.1f} ({ratios[0]:.1f}-{ratios[-1]:.1f})"


def _with_aim(figure: str, aim: str | None) -> str:
    return f"{figure}, {aim}" if aim else figure
