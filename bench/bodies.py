"""CPU time of a plain request whose body has 1 kB to 5 MB: ours, with and without storing, beside nginx."""

from bench.contenders import NGINX, OURS, UNSTORED, proxied
from bench.figures import Place, Recorder
from bench.measure import Work, in_turns, micro
from bench.options import Options

SIZES = {1_000: 200, 10_000: 200, 100_000: 60, 1_000_000: 12, 5_000_000: 4}
"""How many requests a round, by the bytes of a body."""
CHART = "request by body"
_SENTENCE = 'A verse is sung, and another answers it; "so it goes", they say, until the psalm ends. '


def text(size: int) -> str:
    return (_SENTENCE * (size // len(_SENTENCE) + 1))[:size]


def shown(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1_000} kB"


def run(record: Recorder, options: Options) -> None:
    rounds = max(1, options.rounds // 2)
    with proxied(options, UNSTORED) as made:
        works = [
            Work(
                f"body of {shown(size)}",
                "each-64",
                False,
                1,
                dict.fromkeys(made, count),
                connections=4,
                text=text(size),
            )
            for size, count in SIZES.items()
        ]
        spent = in_turns(list(made.values()), works, rounds)
    print(f"CPU µs a plain request, medians of {rounds} interleaved rounds, 4 connections")
    print(f"{'':<20}" + "".join(f"{name:>22}" for name in made) + f"{'ours / nginx':>24}")
    for work, size in zip(works, SIZES, strict=True):
        line = f"{work.name:<20}"
        for name in made:
            place = Place(CHART, name, size)
            figure = record.add(f"{work.name}, {name}", micro(spent[work.name, name]), "µs", place=place)
            line += f"{figure.median:>22,.0f}"
        if NGINX in made:
            upper, lower = spent[work.name, OURS], spent[work.name, NGINX]
            line += f"{record.ratio(f'{work.name}, ours / nginx', upper, lower)!s:>24}"
        print(line)
