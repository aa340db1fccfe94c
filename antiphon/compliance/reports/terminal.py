"""The report for a terminal."""

import os
import sys
from collections.abc import Iterator
from typing import Final, TextIO

from antiphon.compliance.catalog import LEVELS
from antiphon.compliance.checklist import lines_of
from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.observations import Finding
from antiphon.compliance.reports import wording
from antiphon.compliance.results import Report, RuleOutcome, RuleResult

MARKS: Final[dict[RuleOutcome, tuple[str, str]]] = {
    "pass": ("✓", "32"),
    "fail": ("✗", "31"),
    "skip": ("·", "33"),
}
_AROUND: Final = 3
_LONGEST: Final = 600


class Paint:
    """Colours, where there is a terminal that wants them."""

    def __init__(self, out: TextIO) -> None:
        self._on = out.isatty() and "NO_COLOR" not in os.environ

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._on else text


def write(report: Report, out: TextIO = sys.stdout, *, verbose: bool = False) -> None:
    paint = Paint(out)
    for line in _lines(report, paint, verbose):
        print(line, file=out)


def _lines(report: Report, paint: Paint, verbose: bool) -> Iterator[str]:
    yield f"Open Responses {report.spec}: {report.subject} (model {report.model})"
    yield wording.summarize_musts(report)
    yield ""
    for group, results in report.by_group().items():
        passed = sum(result.outcome == "pass" for result in results)
        yield paint(f"{group}: {passed} of {len(results)}", "1")
        for result in results:
            if verbose or result.outcome != "pass":
                mark, code = MARKS[result.outcome]
                yield f"  {paint(mark, code)} {result.rule.id} [{result.rule.level}] {result.rule.says}"
                if result.outcome != "pass":
                    yield f"      {paint(result.reason, code)}"
    for result in report.failures:
        yield from _failure(result, paint)
    lines = lines_of(report)
    if lines:
        yield ""
        yield paint("the server check list", "1")
        for verdict in lines:
            mark, code = MARKS[verdict.outcome]
            yield f"  {paint(mark, code)} {verdict.line.number:2} {verdict}"
    yield ""
    yield from _summary(report, paint)


def _failure(result: RuleResult, paint: Paint) -> Iterator[str]:
    yield ""
    yield paint(f"✗ {result.rule.id} [{result.rule.level}] {result.rule.says}", "31;1")
    yield f"  {result.reason}"
    yield f"  from: {result.rule.source}"
    exchanges = result.exchanges[-1:] if not result.findings else result.exchanges[:1]
    for exchange in exchanges:
        yield from _exchange(exchange, result.findings, paint)


def _exchange(exchange: RecordedExchange, findings: list[Finding], paint: Paint) -> Iterator[str]:
    yield f"  > {wording.request_line(exchange)}  {wording.sent_text(exchange, _LONGEST)}"
    yield f"  < {wording.status_line(exchange)}"
    if not exchange.is_stream:
        if exchange.body:
            yield f"  < {wording.shorten(exchange.body, _LONGEST)}"
        return
    rows = wording.timeline(exchange, findings)
    marked = [n for n, row in enumerate(rows) if row.wrong] or [len(rows) - 1]
    shown = {
        n for mark in marked[:3] for n in range(mark - _AROUND, mark + _AROUND + 1) if 0 <= n < len(rows)
    }
    last = -1
    for n in sorted(shown):
        if n != last + 1:
            yield "  |   …"
        row = rows[n]
        line = f"  | {row.at:7.3f}s {row.position:3} {row.type}  {row.about}"
        yield paint(line, "31") if row.wrong else line
        for wrong in row.wrong:
            yield paint(f"  |         ^ {wrong}", "31")
        last = n


def _summary(report: Report, paint: Paint) -> Iterator[str]:
    for level in LEVELS:
        counts = report.counts(level)
        if any(counts.values()):
            failed = paint(f"{counts['fail']} failed", "31" if counts["fail"] else "0")
            yield f"{level:6} {counts['pass']} passed, {failed}, {counts['skip']} skipped"
    yield f"{report.exchanges} exchanges in {report.seconds:.1f} seconds"


class ProgressLine:
    """One line that is written over and over, on a terminal only."""

    def __init__(self, total: int, out: TextIO = sys.stderr) -> None:
        self._total = total
        self._out = out
        self._on = out.isatty()
        self._running: list[str] = []
        self._counts: dict[RuleOutcome, int] = {"pass": 0, "fail": 0, "skip": 0}

    def begin(self, name: str) -> None:
        self._running.append(name)
        self._draw()

    def end(self, name: str, outcome: RuleOutcome) -> None:
        self._running.remove(name)
        self._counts[outcome] += 1
        self._draw()

    def close(self) -> None:
        if self._on:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def _draw(self) -> None:
        if not self._on:
            return
        done = sum(self._counts.values())
        counts = " ".join(f"{MARKS[outcome][0]}{count}" for outcome, count in self._counts.items())
        line = f"[{done}/{self._total}] {counts}  {', '.join(self._running)}"
        self._out.write(f"\r\x1b[K{line[: _width() - 1]}")
        self._out.flush()


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 80
