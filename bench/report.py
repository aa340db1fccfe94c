"""`python -m bench.report [FILE]`: the tables of bench/README.md and the plots in docs/figures, from figures.

The figures in the documents are kept in bench/figures.json; parts that are measured again replace theirs.
Every row comes from one part of one run.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import bodies, bridges, callbacks, chain, concurrency, gateway, providers, routes, svg, wires
from bench.contenders import LITELLM, LITELLM_CHAT, NGINX, OURS, SOCKET, STRAIGHT, UNSTORED
from bench.figures import TIMES, Figure, Part, Run, amount

HERE = Path(__file__).parent
README = HERE / "README.md"
KEPT = HERE / "figures.json"
PLOTS = HERE.parent / "docs" / "figures"


@dataclass(frozen=True, slots=True)
class Budget:
    """One line of the budget: a figure, and what it may be at most or at least."""

    work: str
    part: str
    figure: str
    most: float | None = None
    least: float | None = None

    @property
    def aim(self) -> str:
        return f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"

    def met(self, figure: Figure) -> bool:
        above = self.most is not None and figure.median > self.most
        return not above and not (self.least is not None and figure.median < self.least)


@dataclass(frozen=True, slots=True)
class Table:
    """Figures side by side, or without columns all those of a part."""

    title: str
    part: str
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    pattern: str = "{row}, {column}"

    def name(self, row: str, column: str) -> str:
        return self.pattern.format(row=row, column=column)


@dataclass(frozen=True, slots=True)
class Plot:
    chart: str
    part: str
    file: str
    title: str
    across: str
    up: str


BUDGET = (
    Budget("plain request, of nginx's CPU", "gateway", "plain request, ours / nginx", most=8),
    Budget("plain request, LiteLLM's CPU of ours", "gateway", "plain request, litellm / ours", least=100),
    Budget(
        "delta, one write a token, of nginx's CPU",
        "gateway",
        "delta, one write a token, ours / nginx",
        most=2,
    ),
    Budget(
        "delta, one write a token, LiteLLM's CPU of ours",
        "gateway",
        "delta, one write a token, litellm / ours",
        least=150,
    ),
    Budget("delta, paced, of nginx's CPU", "gateway", "delta, paced, ours / nginx", most=3),
    Budget(
        "delta, many in one read, of nginx's CPU",
        "gateway",
        "delta, many in one write, ours / nginx",
        most=10,
    ),
    Budget(
        "added latency p50, plain, of what nginx adds", "latency", "plain, added p50, ours / nginx", most=6
    ),
    Budget(
        "turn 1,000 of turn 10, database alone", "chain", "database alone, turn 1,000 / turn 10", most=1.1
    ),
    Budget(
        "turn 1,000 of turn 10, database, either after the same long turn",
        "chain",
        "database after a long turn, turn 1,000 / turn 10",
        most=1.1,
    ),
    Budget("memory of an open stream", "memory", "each open stream, of 1,000", most=20),
    Budget(
        "memory with 1,000 streams, one token a second",
        "memory",
        "resident with 1,000 open streams, one token a second",
        most=150,
    ),
    Budget("longest callback of any request", "callbacks", callbacks.WORST_CALLBACK, most=50),
    Budget("two workers of one, CPU a request", "workers", "plain request, two / one", most=1.15),
    Budget(
        "a route with one target of a bare alias, CPU a request",
        "routes",
        "plain request, route, one target / bare",
        most=1.05,
    ),
    Budget(
        "a route with one target of a bare alias, CPU a delta",
        "routes",
        "delta, one write a token, route, one target / bare",
        most=1.05,
    ),
    Budget(
        "WebSocket delta of an SSE delta, one event a read",
        "gateway",
        "delta, paced, WebSocket / SSE",
        most=1.6,
    ),
    *(
        Budget(f"{door}, {what} of that over `/v1/responses`", "wires", f"{door}, {name}, of SSE's", most=1.2)
        for door in ("Messages API", "chat completions")
        for what, name in (("a request", "plain request"), ("a delta", "delta, one write a token"))
    ),
    Budget(
        "embedded model, tokens/s of the bindings'",
        "embedded",
        "tokens a second, gateway / bindings",
        least=0.97,
    ),
)
WORKS = (gateway.PLAIN, gateway.EACH, gateway.BURST, gateway.PACED)
ABOVE = "ours / nginx"
CHAIN = ("database alone", "database after a long turn", "database in a whole turn", "whole turn")
TABLES = (
    Table(
        "CPU time of a request or a delta",
        "gateway",
        WORKS,
        (NGINX, OURS, UNSTORED, SOCKET, STRAIGHT, LITELLM, LITELLM_CHAT),
    ),
    Table("The same in paired ratios", "gateway", WORKS, [name for name, *_ in gateway.ROWS]),
    Table(
        "Added to the upstream's own time, one request at a time",
        "latency",
        [f"{kind}, added {share}" for kind in ("plain", "first delta") for share in ("p50", "p99")],
        (NGINX, OURS, UNSTORED, ABOVE),
    ),
    Table(
        "CPU time by concurrency",
        "concurrency",
        [
            *(f"delta, {concurrency.some(n, 'stream')}" for n in concurrency.STREAMS),
            *(f"plain request, {concurrency.some(n, 'connection')}" for n in concurrency.CONNECTIONS),
        ],
        (NGINX, OURS, ABOVE),
    ),
    Table(
        "CPU time of a plain request by the size of its body",
        "bodies",
        [f"body of {bodies.shown(size)}" for size in bodies.SIZES],
        (NGINX, OURS, UNSTORED, ABOVE),
    ),
    Table(
        "CPU time with several workers",
        "workers",
        (gateway.PLAIN, gateway.EACH),
        ("one worker", "two workers", "two / one"),
    ),
    Table(
        "CPU time of a route beside a bare alias",
        "routes",
        (gateway.PLAIN, gateway.EACH),
        (routes.BARE, routes.ONE, routes.TWO, *routes.RATIOS),
    ),
    Table(
        "CPU time with each provider behind the gateway, and of that of `chat`",
        "wires",
        wires.PROVIDERS,
        [f"{work}{of}" for work in (gateway.PLAIN, gateway.EACH) for of in ("", f", {wires.OF_CHAT}")],
    ),
    Table(
        "CPU time of a delta over each bridge, and of that of server-sent events",
        "wires",
        wires.BRIDGES,
        (gateway.EACH, f"{gateway.EACH}, {wires.OF_SSE}"),
    ),
    Table(
        "CPU time of a plain request over other APIs, and of that over `/v1/responses`",
        "wires",
        wires.WHOLE,
        (gateway.PLAIN, f"{gateway.PLAIN}, {wires.OF_SSE}"),
    ),
    Table("CPU time of a response with hosted tools", "hosted"),
    Table("CPU time of a turn", "chain", CHAIN, ("turn 10", "turn 1,000", "turn 1,000 / turn 10")),
    Table(
        "The longest time for which one request keeps the event loop",
        "callbacks",
        list(callbacks.CASES),
        callbacks.COLUMNS,
    ),
    Table("Several machines", "machines"),
    Table("Memory", "memory"),
    Table("Start", "startup"),
    Table("The terminal interface", "terminal"),
    Table("The web app", "web"),
    Table("The embedded model", "embedded"),
    Table("The upstream client alone", "upstream"),
    Table(
        "Each provider's translation of a delta, of `chat`'s",
        "providers",
        list(providers.PARSERS),
        list(providers.KINDS),
        "{row}, {column}, / chat",
    ),
    Table(
        "Each encoder's delta, of that of server-sent events",
        "bridges",
        list(bridges.ENCODERS),
        [f"{kind}, {batch} a batch" for kind in bridges.KINDS for batch in bridges.BATCHES],
        "{column}, {row} / SSE",
    ),
)
PLOTTED = (
    Plot(
        concurrency.DELTA,
        "concurrency",
        "delta-by-streams.svg",
        "CPU time of a delta, paced streams",
        "open streams",
        "CPU µs",
    ),
    Plot(
        concurrency.PLAIN,
        "concurrency",
        "request-by-connections.svg",
        "CPU time of a plain request",
        "connections",
        "CPU µs",
    ),
    Plot(
        bodies.CHART,
        "bodies",
        "request-by-body.svg",
        "CPU time of a plain request",
        "bytes of its body",
        "CPU µs",
    ),
    Plot(chain.CHART, "chain", "turn-by-chain.svg", "CPU time of a turn", "turns in the chain", "of turn 10"),
)


def update(run: Run) -> None:
    """Takes the parts of this run into the documents."""
    kept = Run.load(KEPT) if KEPT.exists() else Run({})
    kept.parts.update(run.parts)
    kept.save(KEPT)
    PLOTS.mkdir(exist_ok=True)
    for plot in PLOTTED:
        if plot.part in kept.parts:
            (PLOTS / plot.file).write_text(drawn(plot, kept))
    README.write_text(filled(README.read_text(), kept))
    print(f"\nwritten: {README.name}, {KEPT.name} and the plots in docs/{PLOTS.name}")


def filled(text: str, run: Run) -> str:
    """The text with its tables between the markers `<!-- name -->` and `<!-- /name -->` written again."""
    for name, lines in (("budget", budget(run)), ("figures", figures(run)), ("machine", machines(run))):
        block = "\n".join((f"<!-- {name} -->", *lines, f"<!-- /{name} -->"))
        before, found, rest = text.partition(f"<!-- {name} -->")
        _, ended, after = rest.partition(f"<!-- /{name} -->")
        if not found or not ended:
            raise SystemExit(f"bench: README.md has no place for the table {name!r}")
        text = before + block + after
    return text


def budget(run: Run) -> list[str]:
    lines = ["| work | budget | measured | |", "|---|---|---|---|"]
    for row in BUDGET:
        figure = run.figure(row.part, row.figure)
        if figure is None:
            lines.append(f"| {row.work} | {row.aim} | not measured | |")
        else:
            verdict = "met" if row.met(figure) else "**not met**"
            lines.append(f"| {row.work} | {row.aim} {figure.unit} | {figure} {figure.unit} | {verdict} |")
    return lines


def figures(run: Run) -> list[str]:
    lines: list[str] = []
    for table in TABLES:
        if part := run.parts.get(table.part):
            lines += ["", f"**{table.title}**", "", *rows(table, part)]
    return [*lines[1:], ""]


def rows(table: Table, part: Part) -> list[str]:
    """The figures of a table; columns without any are left out."""
    if not table.columns:
        lines = [f"| {name} | {figure} {figure.unit} |" for name, figure in part.figures.items()]
        return ["| | median (lowest-highest round) |", "|---|---|", *lines]
    cells = {
        column: [part.figures.get(table.name(row, column)) for row in table.rows] for column in table.columns
    }
    shown = {column: found for column, found in cells.items() if any(found)}
    lines = ["| | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for number, row in enumerate(table.rows):
        line = [found[number] for found in shown.values()]
        lines.append(f"| {row} | " + " | ".join(_cell(figure) for figure in line) + " |")
    return lines


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{figure} {figure.unit}" if figure.unit == TIMES else f"{amount(figure.median)} {figure.unit}"


def machines(run: Run) -> list[str]:
    lines = [
        "| part | measured on | seconds | processors that other programs kept busy |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {part.when} | {part.seconds:.0f} | {amount(part.busy)} |"
        for name, part in run.parts.items()
    ]
    return ["; ".join(sorted({part.machine for part in run.parts.values()})) + ".", "", *lines]


def drawn(plot: Plot, run: Run) -> str:
    lines: dict[str, list[tuple[float, float]]] = {}
    for figure in run.parts[plot.part].figures.values():
        if figure.place is not None and figure.place.chart == plot.chart:
            lines.setdefault(figure.place.line, []).append((figure.place.x, figure.median))
    return svg.chart(plot.title, plot.across, plot.up, lines)


def main(arguments: Sequence[str]) -> None:
    update(Run.load(Path(arguments[0])) if arguments else Run({}))


if __name__ == "__main__":
    main(sys.argv[1:])
