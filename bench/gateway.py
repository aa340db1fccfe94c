"""CPU time for each request and each streamed delta: ours beside nginx and a straightforward gateway.

All stand in front of the same upstream, at once. In every round each takes its turn at each kind of
work, so that a noisy machine disturbs all alike; a ratio is the median of the ratios of single rounds.
"""

from bench.contenders import LITELLM, LITELLM_CHAT, NGINX, OURS, SOCKET, STRAIGHT, UNSTORED, proxied
from bench.figures import Recorder
from bench.measure import Spent, Work, in_turns, micro
from bench.options import Options

PLAIN_TOKENS = 64
PACED_STREAMS = 100
PACED_TOKENS = 200
PACE = 20
PLAIN = "plain request"
EACH = "delta, one write a token"
BURST = "delta, many in one write"
PACED = "delta, paced"
ROWS = (
    ("ours / nginx", OURS, NGINX),
    ("straightforward / ours", STRAIGHT, OURS),
    ("store off / on", UNSTORED, OURS),
    ("WebSocket / SSE", SOCKET, OURS),
    ("litellm / ours", LITELLM, OURS),
    ("litellm's chat route / ours", LITELLM_CHAT, OURS),
)


def works(tokens: int) -> list[Work]:
    streams = {NGINX: 100, OURS: 80, UNSTORED: 80, SOCKET: 64, STRAIGHT: 8, LITELLM: 4, LITELLM_CHAT: 4}
    plain = {NGINX: 4000, OURS: 1000, UNSTORED: 1000, STRAIGHT: 200, LITELLM: 32, LITELLM_CHAT: 32}
    paced = {NGINX: PACED_STREAMS, OURS: PACED_STREAMS, SOCKET: PACED_STREAMS}
    return [
        Work(PLAIN, f"each-{PLAIN_TOKENS}", False, 1, plain),
        Work(EACH, f"each-{tokens}", True, tokens, streams),
        Work(BURST, f"burst-{tokens}", True, tokens, {**streams, NGINX: 300}),
        Work(
            PACED,
            f"paced-{PACED_TOKENS}-{PACE}",
            True,
            PACED_TOKENS,
            paced,
            connections=PACED_STREAMS,
            spread=PACE / 1000,
            rounds=3,
        ),
    ]


def run(record: Recorder, options: Options) -> None:
    kinds = works(options.tokens)
    others = (STRAIGHT, UNSTORED, SOCKET, *([LITELLM] if options.litellm else []))
    with proxied(options, *others) as made:
        contenders = list(made.values())
        spent = in_turns(contenders, kinds, options.rounds)
    print(
        f"CPU time of each process tree, µs, median of {options.rounds} interleaved rounds; 16 connections, "
        f"{options.tokens} tokens a stream, whole request counted;\n"
        f"paced: {PACED_STREAMS} streams at once, {PACED_TOKENS} tokens each, one every {PACE} ms"
    )
    print(f"{'':<28}" + "".join(f"{one.name:>21}" for one in contenders))
    for work in kinds:
        columns = [_column(record, work.name, one.name, spent) for one in contenders]
        print(f"{work.name:<28}" + "".join(f"{column:>21}" for column in columns))
    for work in kinds:
        for name, upper, lower in ROWS:
            if (work.name, upper) in spent and (work.name, lower) in spent:
                ratio = record.ratio(
                    f"{work.name}, {name}",
                    spent[work.name, upper],
                    spent[work.name, lower],
                    "higher" if lower == OURS and upper in (STRAIGHT, LITELLM, LITELLM_CHAT) else "lower",
                )
                print(f"{work.name + ', ' + name:<52}{ratio!s:>24}")


def _column(record: Recorder, work: str, name: str, spent: Spent) -> str:
    if (work, name) not in spent:
        return ""
    return f"{record.add(f'{work}, {name}', micro(spent[work, name]), 'µs').median:.1f}"
