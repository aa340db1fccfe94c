"""CPU time of a delta with 1 to 1,000 paced streams open, and of a plain request on 1 to 1,000 connections.

Streams are opened first and measured while all of them run, so that opening them is not in the figure. Up
to 100 streams speak every 20 ms, 1,000 of them every 200 ms: as many deltas a second as 100 at full pace.
"""

import asyncio
from collections.abc import Mapping

from bench import load
from bench.contenders import NGINX, OURS, Contender, proxied
from bench.figures import Place, Recorder
from bench.measure import Work, in_turns, micro
from bench.options import Options
from bench.outcome import Outcome

STREAMS: Mapping[int, int] = {1: 20, 10: 20, 100: 20, 1000: 200}
"""Milliseconds between two deltas of a stream, by the number of streams."""
CONNECTIONS = (1, 16, 128, 1000)
SECONDS = 1.2
_TOKENS = 2000
_SETTLE = 0.4
DELTA, PLAIN = "delta by streams", "request by connections"

Spent = dict[str, list[float]]


def run(record: Recorder, options: Options) -> None:
    rounds = max(1, options.rounds // 2)
    with proxied(options) as made:
        contenders = list(made.values())
        print(f"CPU µs, medians of {rounds} interleaved rounds")
        for count, pause in STREAMS.items():
            spent: Spent = {name: [] for name in made}
            for turn in range(rounds):
                first = turn % len(contenders)
                for one in contenders[first:] + contenders[:first]:
                    spent[one.name].append(load.run(_window(one, count, pause)))
            _tell(record, DELTA, f"delta, {some(count, 'stream')}", count, spent)
        works = [
            Work(
                f"plain request, {some(n, 'connection')}",
                "each-64",
                False,
                1,
                dict.fromkeys(made, 800 + n),
                n,
            )
            for n in CONNECTIONS
        ]
        measured = in_turns(contenders, works, rounds)
        for work in works:
            _tell(
                record,
                PLAIN,
                work.name,
                work.connections,
                {name: measured[work.name, name] for name in made},
            )


async def _window(one: Contender, streams: int, pause: int) -> float:
    """CPU seconds of a delta while so many streams are open."""
    outcome = Outcome()
    opened = await load.hold(
        one.request(f"paced-{_TOKENS}-{pause}", stream=True), streams=streams, outcome=outcome
    )
    try:
        await asyncio.sleep(_SETTLE)
        before, told = one.program.cpu(), outcome.events
        await asyncio.sleep(SECONDS)
        spent, events = one.program.cpu() - before, outcome.events - told
    finally:
        for connection in opened:
            connection.close()
        await asyncio.sleep(_SETTLE)
    if outcome.failed or not events:
        raise SystemExit(f"bench: {one.name} with {streams} streams told {events} events")
    return spent / events


def some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _tell(record: Recorder, chart: str, name: str, x: int, spent: Spent) -> None:
    shown = ""
    for who, seconds in spent.items():
        figure = record.add(f"{name}, {who}", micro(seconds), "µs", place=Place(chart, who, x))
        shown += f"{who:>12} {figure!s:<22}"
    if NGINX in spent:
        shown += f"{record.ratio(f'{name}, ours / nginx', spent[OURS], spent[NGINX])!s:>20}"
    print(f"{name:<36}{shown}", flush=True)
