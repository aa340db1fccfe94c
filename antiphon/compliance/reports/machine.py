"""The report for programs: JSON, JUnit XML for build servers, and every exchange of a run as a file."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec

from antiphon.compliance.checklist import lines_of
from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.reports import wording
from antiphon.compliance.results import Report, RuleResult


def to_json(report: Report) -> bytes:
    document = {
        "subject": report.subject,
        "model": report.model,
        "spec": report.spec,
        "version": report.version,
        "server": report.server,
        "started": report.started,
        "seconds": round(report.seconds, 3),
        "exchanges": report.exchanges,
        "exit_code": report.exit_code,
        "counts": report.counts(),
        "checklist": [
            {
                "line": verdict.line.number,
                "says": verdict.line.says,
                "outcome": verdict.outcome,
                "unchecked": verdict.unchecked,
            }
            for verdict in lines_of(report)
        ],
        "results": [_result(result) for result in report.results],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def _result(result: RuleResult) -> dict[str, Any]:
    rule = result.rule
    told: dict[str, Any] = {
        "rule": rule.id,
        "level": rule.level,
        "outcome": result.outcome,
        "reason": result.reason,
        "says": rule.says,
        "source": rule.source,
        "group": rule.group,
        "transports": rule.transports,
        "tries": result.tries,
        "seconds": round(result.seconds, 3),
    }
    if result.outcome == "fail":
        told["findings"] = [{"message": f.message, "event": f.position} for f in result.findings]
        told["exchanges"] = [exchange_to_builtins(exchange) for exchange in result.exchanges]
    return told


def exchange_to_builtins(exchange: RecordedExchange) -> dict[str, Any]:
    """An exchange as it was, for `--json` and `--record`."""
    return {
        "transport": exchange.transport,
        "request": {
            "method": exchange.method,
            "path": exchange.path,
            "headers": exchange.sent_headers,
            "body": wording.shorten(exchange.sent, 100_000),
        },
        "status": exchange.status,
        "headers": exchange.headers,
        "body": "" if exchange.is_stream else wording.shorten(exchange.body, 100_000),
        "events": [
            {"at": round(arrival.at, 4), "event": arrival.name, "data": arrival.data}
            for arrival in exchange.arrivals
        ],
        "failure": exchange.failure,
        "seconds": round(exchange.seconds, 4),
    }


def to_junit(report: Report) -> bytes:
    counts = report.counts()
    top = ET.Element(
        "testsuites",
        name=f"Open Responses {report.spec}",
        tests=str(len(report.results)),
        failures=str(counts["fail"]),
        skipped=str(counts["skip"]),
        time=f"{report.seconds:.3f}",
    )
    for group, results in report.by_group().items():
        suite = ET.SubElement(
            top,
            "testsuite",
            name=group,
            tests=str(len(results)),
            failures=str(sum(result.outcome == "fail" for result in results)),
            skipped=str(sum(result.outcome == "skip" for result in results)),
        )
        for result in results:
            _case(suite, result)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(top, encoding="unicode").encode()


def _case(suite: ET.Element, result: RuleResult) -> None:
    rule = result.rule
    case = ET.SubElement(suite, "testcase", classname=rule.group, name=rule.id, time=f"{result.seconds:.3f}")
    if result.outcome == "skip":
        ET.SubElement(case, "skipped", message=_printable(result.reason))
    elif result.outcome == "fail":
        failure = ET.SubElement(case, "failure", message=_printable(result.reason), type=rule.level)
        told = [rule.says, rule.source]
        for exchange in result.exchanges[-1:]:
            told += [
                wording.request_line(exchange),
                wording.sent_text(exchange),
                wording.status_line(exchange),
            ]
            told += [
                f"{row.position} {row.type} {' '.join(row.wrong)}"
                for row in wording.timeline(exchange, result.findings)
            ]
        failure.text = _printable("\n".join(told))


def _printable(text: str) -> str:
    """XML has no place for most control characters."""
    return "".join(c if c in "\t\n" or ord(c) >= 32 else "\N{REPLACEMENT CHARACTER}" for c in text)


class Recorder:
    """Writes `RULE-N.json`, and beside it `RULE-N.sse` or `RULE-N.jsonl`, which `--capture` reads."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count: dict[str, int] = {}

    def keep(self, rule: str, exchange: RecordedExchange) -> None:
        self._count[rule] = number = self._count.get(rule, 0) + 1
        path = self._folder / f"{rule}-{number}"
        document = msgspec.json.encode(exchange_to_builtins(exchange))
        path.with_name(f"{path.name}.json").write_bytes(msgspec.json.format(document, indent=1))
        if exchange.transport == "websocket":
            lines = "".join(f"{arrival.data}\n" for arrival in exchange.arrivals)
            path.with_name(f"{path.name}.jsonl").write_text(lines, encoding="utf-8")
        elif exchange.is_stream:
            path.with_name(f"{path.name}.sse").write_bytes(exchange.body)
