"""A route with one healthy target beside a bare alias: CPU time for each request and each delta."""

from bench.contenders import Contender, folder, start_ours, upstream
from bench.figures import Recorder
from bench.measure import Work, in_turns, micro
from bench.options import Options

BARE, ONE, TWO = "bare alias", "route, one target", "route, two targets"
RATIOS = {f"{name} / bare": name for name in (ONE, TWO)}
_PREFIXES = {BARE: "bare-", ONE: "one-", TWO: "two-"}


def config(models: list[str]) -> str:
    """Each model under three names: an alias, a route of it alone, and one with a second target after it."""
    bare = [f'"bare-{model}" = "fake/{model}"\n' for model in models]
    one = [f'"one-{model}" = "fake/{model}"\n' for model in models]
    two = [f'"two-{model}" = ["fake/{model}", "spare/{model}"]\n' for model in models]
    routes = [f'[routes."one-{model}"]\nstrategy = "order"\n' for model in models]
    spare = '[providers.spare]\ntype = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
    return "".join(["[models]\n", *bare, *one, *two, *routes, spare])


def run(record: Recorder, options: Options) -> None:
    plain, streamed = "each-64", f"each-{options.tokens}"
    more = config(list(dict.fromkeys((plain, streamed))))
    with (
        folder() as where,
        upstream(where) as behind,
        start_ours(where / "antiphon", behind.port, more=more) as gateway,
    ):
        gateway.wait_until_up("/healthz")
        contenders = [Contender(name, gateway, prefix=prefix) for name, prefix in _PREFIXES.items()]
        works = [
            Work("plain request", plain, False, 1, dict.fromkeys(_PREFIXES, 1000)),
            Work(
                "delta, one write a token",
                streamed,
                True,
                options.tokens,
                dict.fromkeys(_PREFIXES, 48),
            ),
        ]
        spent = in_turns(contenders, works, options.rounds)
    print(f"CPU µs, medians of {options.rounds} interleaved rounds, 16 connections")
    for work in works:
        for name in _PREFIXES:
            figure = record.add(f"{work.name}, {name}", micro(spent[work.name, name]), "µs")
            print(f"{work.name + ', ' + name:<52}{figure!s:>24}")
        for row, name in RATIOS.items():
            ratio = record.ratio(f"{work.name}, {row}", spent[work.name, name], spent[work.name, BARE])
            print(f"{work.name + ', ' + row:<52}{ratio!s:>24}")
