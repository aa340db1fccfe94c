"""One worker beside two: CPU time of the whole tree for each request and each delta."""

from bench.contenders import Contender, folder, start_ours, upstream
from bench.figures import Recorder
from bench.measure import Work, in_turns, micro
from bench.options import Options

ONE, TWO = "one worker", "two workers"


def run(record: Recorder, options: Options) -> None:
    with (
        folder() as where,
        upstream(where) as behind,
        start_ours(where / "one", behind.port) as one,
        start_ours(where / "two", behind.port, workers=2) as two,
    ):
        contenders = [Contender(name, program, prefix="fake/") for name, program in ((ONE, one), (TWO, two))]
        for each in contenders:
            each.program.wait_until_up("/healthz")
        works = [
            Work("plain request", "each-64", False, 1, {ONE: 1000, TWO: 1000}),
            Work(
                "delta, one write a token",
                f"each-{options.tokens}",
                True,
                options.tokens,
                {ONE: 48, TWO: 48},
            ),
        ]
        spent = in_turns(contenders, works, options.rounds)
    print(f"CPU µs, medians of {options.rounds} interleaved rounds, 16 connections")
    print(f"{'':<28}{ONE:>22}{TWO:>22}{'two / one':>24}")
    for work in works:
        figures = [record.add(f"{work.name}, {n}", micro(spent[work.name, n]), "µs") for n in (ONE, TWO)]
        ratio = record.ratio(f"{work.name}, two / one", spent[work.name, TWO], spent[work.name, ONE])
        print(f"{work.name:<28}" + "".join(f"{one!s:>22}" for one in figures) + f"{ratio!s:>24}")
