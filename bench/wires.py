"""Each provider and each bridge through the whole gateway, over real sockets: CPU time in one run.

One gateway has a provider for every wire, and one upstream behind it speaks them all. Providers stand beside
`chat`, and bridges beside server-sent events, in the same rounds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.answers import CHAT, WIRES
from bench.contenders import Contender, folder, start_ours, upstream
from bench.figures import Recorder
from bench.fronts import FRONTS
from bench.gateway import EACH, PLAIN, PLAIN_TOKENS
from bench.measure import Spent, Work, in_turns, micro
from bench.options import Options

SSE, SOCKET = "server-sent events", "WebSocket"
PROVIDERS = tuple(WIRES)
BRIDGES = (SSE, SOCKET, *FRONTS)
WHOLE = tuple(name for name, front in FRONTS.items() if front.text is not None)
"""Those that also have answers which are no streams."""
OF_CHAT, OF_SSE = "of `chat`'s", "of SSE's"
REQUESTS = 400
STREAMS = 32


@contextmanager
def contenders() -> Iterator[list[Contender]]:
    """One program, asked for every provider, and over every bridge for `chat`."""
    with (
        folder() as where,
        upstream(where) as behind,
        start_ours(where / "antiphon", behind.port, providers=PROVIDERS) as program,
    ):
        program.wait_until_up("/healthz")
        providers = [Contender(name, program, prefix=f"{name}/") for name in PROVIDERS]
        socket = Contender(SOCKET, program, prefix=f"{CHAT}/", socket=True)
        fronts = [Contender(name, program, prefix=f"{CHAT}/", front=front) for name, front in FRONTS.items()]
        yield [*providers, socket, *fronts]


def works(tokens: int) -> list[Work]:
    streamed = (*PROVIDERS, SOCKET, *FRONTS)
    return [
        Work(PLAIN, f"each-{PLAIN_TOKENS}", False, 1, dict.fromkeys((*PROVIDERS, *WHOLE), REQUESTS)),
        Work(EACH, f"each-{tokens}", True, tokens, dict.fromkeys(streamed, STREAMS)),
    ]


def run(record: Recorder, options: Options) -> None:
    with contenders() as made:
        spent = in_turns(made, works(options.tokens), options.rounds)
    tell(record, options, spent)


def tell(record: Recorder, options: Options, spent: Spent) -> None:
    print(
        f"CPU µs of the gateway, medians of {options.rounds} interleaved rounds; 16 connections, "
        f"{options.tokens} tokens a stream, whole request counted"
    )
    print(f"{'':<28}{PLAIN:>18}{OF_CHAT:>24}{'delta':>18}{OF_CHAT:>24}")
    for name in PROVIDERS:
        columns = [column for work in (PLAIN, EACH) for column in _beside(record, work, name, OF_CHAT, spent)]
        print(f"{name:<28}" + "".join(f"{column:>{18 + 6 * (n % 2)}}" for n, column in enumerate(columns)))
    print(f"{'':<28}{'delta':>18}{OF_SSE:>24}")
    spent = {**spent, (EACH, SSE): spent[EACH, CHAT]}
    for name in BRIDGES:
        figure, ratio = _beside(record, EACH, name, OF_SSE, spent)
        print(f"{name:<28}{figure:>18}{ratio:>24}")
    print(f"{'':<28}{PLAIN:>18}{OF_SSE:>24}")
    for name in WHOLE:
        figure, ratio = _beside(record, PLAIN, name, OF_SSE, spent)
        print(f"{name:<28}{figure:>18}{ratio:>24}")


def _beside(record: Recorder, work: str, name: str, of: str, spent: Spent) -> tuple[str, str]:
    """The figure of one contender, and its ratio to that of `chat` over server-sent events."""
    figure = record.add(f"{name}, {work}", micro(spent[work, name]), "µs")
    if name in (CHAT, SSE):
        return f"{figure.median:.1f}", ""
    ratio = record.ratio(f"{name}, {work}, {of}", spent[work, name], spent[work, CHAT])
    return f"{figure.median:.1f}", str(ratio)
