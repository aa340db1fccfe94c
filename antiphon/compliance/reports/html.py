"""The report as one self-contained page: a summary, every rule, and each failing stream as a timeline."""

from collections.abc import Iterator
from html import escape
from typing import Final

from antiphon.compliance.catalog import LEVELS
from antiphon.compliance.checklist import lines_of
from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.observations import Finding
from antiphon.compliance.reports import wording
from antiphon.compliance.results import Report, RuleOutcome, RuleResult

_MARKS: Final[dict[RuleOutcome, str]] = {"pass": "✓", "fail": "✗", "skip": "·"}
_MOST_ROWS: Final = 200


def page(report: Report) -> str:
    """A whole HTML document that needs nothing from elsewhere."""
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Open Responses: {escape(report.subject)}</title><style>{STYLE}</style></head><body>",
            *_summary(report),
            *_failures(report),
            *_checklist(report),
            *_rules(report),
            f"<footer>antiphon {escape(report.version)}, specification {escape(report.spec)}, "
            f"{escape(report.started or 'a recorded stream')}</footer></body></html>",
        )
    )


def _summary(report: Report) -> Iterator[str]:
    verdict = "keeps the contract" if report.exit_code == 0 else "breaks the contract"
    kind = "pass" if report.exit_code == 0 else "fail"
    yield f'<header><p class="verdict {kind}">{_MARKS["pass" if kind == "pass" else "fail"]} {verdict}</p>'
    yield f"<h1>{escape(report.subject)}</h1><p>{wording.summarize_musts(report)}</p>"
    about = [f"model {report.model}", f"{report.exchanges} exchanges", f"{report.seconds:.1f} s"]
    if report.server:
        about.append(f"server {report.server}")
    yield f"<p>{escape(' · '.join(about))}</p></header><section class='levels'>"
    for level in LEVELS:
        counts = report.counts(level)
        total = sum(counts.values())
        if not total:
            continue
        bars = "".join(
            f'<i class="{outcome}" style="flex:{count}" title="{count} {outcome}"></i>'
            for outcome, count in counts.items()
            if count
        )
        told = ", ".join(
            f'<b class="{outcome}">{counts[outcome]}</b> {word}'
            for outcome, word in _WORDS.items()
            if counts[outcome]
        )
        yield f'<div><h2>{level}</h2><div class="bar">{bars}</div><p>{told}</p></div>'
    yield "</section>"


_WORDS: Final[dict[RuleOutcome, str]] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def _failures(report: Report) -> Iterator[str]:
    if not report.failures:
        return
    yield "<section><h2>What is broken</h2>"
    for result in report.failures:
        rule = result.rule
        yield f'<article id="{escape(rule.id)}"><h3><code>{escape(rule.id)}</code> {_level(result)}</h3>'
        yield f"<p>{_mark_code(rule.says)}</p><p class='reason'>{escape(result.reason)}</p>"
        yield f"<p class='from'>{escape(rule.source)} · proved by {_mark_code(rule.proof)}</p>"
        exchanges = result.exchanges[:1] if result.findings else result.exchanges
        for n, exchange in enumerate(exchanges):
            yield from _exchange(exchange, result.findings, is_open=n == len(exchanges) - 1)
        yield "</article>"
    yield "</section>"


def _exchange(exchange: RecordedExchange, findings: list[Finding], *, is_open: bool) -> Iterator[str]:
    answer, milliseconds = wording.status_line(exchange), exchange.seconds * 1000
    about = f"{wording.request_line(exchange)} → {answer} · {milliseconds:.0f} ms"
    yield f"<details{' open' if is_open else ''}><summary>{escape(about)}</summary>"
    if exchange.sent:
        yield f"<h4>sent</h4><pre>{escape(wording.sent_text(exchange))}</pre>"
    if exchange.is_stream:
        yield from _timeline(exchange, findings)
    elif exchange.body:
        yield f"<h4>received</h4><pre>{escape(wording.shorten(exchange.body))}</pre>"
    yield "</details>"


def _timeline(exchange: RecordedExchange, findings: list[Finding]) -> Iterator[str]:
    """Time runs down; how far an item or a part is nested is how far it stands to the right."""
    rows = wording.timeline(exchange, findings)
    yield '<ol class="timeline">'
    for row in rows[:_MOST_ROWS]:
        depth = _depth(row.type)
        kind = "wrong" if row.wrong else "end" if row.type.startswith(_ENDS) else ""
        yield (
            f'<li class="{kind}" style="--depth:{depth}"><time>{row.at * 1000:.0f} ms</time>'
            f"<code>{escape(row.type)}</code> <span>{escape(row.about)}</span>"
        )
        yield from (f'<p class="reason">↑ {escape(wrong)}</p>' for wrong in row.wrong)
        yield "</li>"
    if len(rows) > _MOST_ROWS:
        yield f"<li>… and {len(rows) - _MOST_ROWS} more</li>"
    yield "</ol>"


_ENDS: Final = ("response.completed", "response.failed", "response.incomplete", "error", "[DONE]")


def _depth(event_type: str) -> int:
    if event_type.startswith("response.output_item"):
        return 1
    if "_part." in event_type or "function_call_arguments" in event_type:
        return 2
    return 3 if event_type.endswith((".delta", ".done")) or "annotation" in event_type else 0


def _checklist(report: Report) -> Iterator[str]:
    lines = lines_of(report)
    if not lines:
        return
    yield "<section><h2>The server check list</h2><ol class='checklist'>"
    for verdict in lines:
        mark = f'<b class="{verdict.outcome}">{_MARKS[verdict.outcome]}</b>'
        yield f"<li>{mark} {escape(str(verdict))}</li>"
    yield "</ol></section>"


def _rules(report: Report) -> Iterator[str]:
    yield "<section><h2>Every rule</h2>"
    for group, results in report.by_group().items():
        passed = sum(result.outcome == "pass" for result in results)
        opened = " open" if any(result.outcome == "fail" for result in results) else ""
        yield f"<details{opened}><summary>{escape(group)} <small>{passed} of {len(results)}</small></summary>"
        yield "<table>"
        for result in results:
            rule = result.rule
            name = escape(rule.id)
            link = f'<a href="#{name}">{name}</a>' if result.outcome == "fail" else name
            why = f'<p class="why">{escape(result.reason)}</p>' if result.outcome != "pass" else ""
            yield (
                f'<tr><td><b class="{result.outcome}">{_MARKS[result.outcome]}</b></td>'
                f"<td><code>{link}</code></td><td>{_level(result)}</td><td>{_mark_code(rule.says)}{why}</td></tr>"
            )
        yield "</table></details>"
    yield "</section>"


def _level(result: RuleResult) -> str:
    level = result.rule.level
    return f'<small class="level {level.lower()}">{level}</small>'


def _mark_code(text: str) -> str:
    """Text between backticks as code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if n % 2 else piece for n, piece in enumerate(pieces))


STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5d6679; --line: #dfe3ea; --paper: #fff;
  --wash: #f6f7f9; --pass: #1a7f4b; --fail: #c2293b; --skip: #9a6b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b8; --line: #333b4a;
  --paper: #14181f; --wash: #1b212b; --pass: #52c98b; --fail: #ff7382; --skip: #e0b04b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .2rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .75rem; }
h3 { font-size: 1rem; margin: 0; }
h4 { margin: .75rem 0 .25rem; color: var(--soft); font-size: .8rem; font-weight: 600; }
p { margin: .25rem 0; }
header p, .from, .why, footer, small { color: var(--soft); font-size: .875rem; }
code, pre, time { font-family: ui-monospace, SFMono-Regular, Menlo, monospace; font-size: .84em; }
pre { margin: 0; padding: .75rem; background: var(--wash); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; max-height: 20rem; overflow: auto; }
.verdict { font-weight: 700; }
.pass { color: var(--pass); } .fail { color: var(--fail); } .skip { color: var(--skip); }
.levels { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: 1.5rem;
  margin-top: 1.5rem; }
.levels h2 { margin: 0 0 .5rem; }
.bar { display: flex; gap: 2px; height: .6rem; border-radius: 4px; overflow: hidden; }
.bar i { background: currentColor; min-width: 3px; }
article { border: 1px solid var(--line); border-left: 4px solid var(--fail); border-radius: 8px;
  padding: 1rem 1.25rem; margin: 0 0 1rem; }
.reason { color: var(--fail); font-weight: 600; }
.level { border: 1px solid var(--line); border-radius: 4px; padding: 0 .4em; font-weight: 600; }
details { margin: .5rem 0; }
summary { cursor: pointer; padding: .25rem 0; overflow-wrap: anywhere; }
section > details > summary { font-weight: 600; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; }
td { padding: .4rem .6rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:nth-child(2) { overflow-wrap: anywhere; min-width: 10rem; }
td:last-child { width: 60%; }
.checklist { padding-left: 1.5rem; columns: 2 22rem; }
.timeline { list-style: none; margin: .5rem 0 0; padding: 0; border-left: 2px solid var(--line); }
.timeline li { position: relative; padding: .12rem 0 .12rem 1rem; font-size: .9rem; }
.timeline li::before { content: ""; position: absolute; left: -6px; top: .6rem; width: 10px; height: 10px;
  border-radius: 50%; background: var(--line); }
.timeline li.end::before { background: var(--soft); }
.timeline li.wrong { background: color-mix(in srgb, var(--fail) 9%, transparent); }
.timeline li.wrong::before { background: var(--fail); }
.timeline code { margin-left: calc(var(--depth, 0) * 1.4rem); }
.timeline time { display: inline-block; width: 5.2rem; color: var(--soft); }
.timeline span { color: var(--soft); overflow-wrap: anywhere; }
a { color: inherit; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
"""
