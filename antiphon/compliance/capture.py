"""A recorded stream, audited without a server: server-sent events, or one JSON event a line."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from antiphon import __version__
from antiphon.compliance.catalog import LATEST, OBSERVED, ServerRule, Spec, select
from antiphon.compliance.http_exchange import Arrival, RecordedExchange
from antiphon.compliance.observations import observations
from antiphon.compliance.results import Report, RuleResult
from antiphon.stream.aliases import BROKEN
from antiphon.stream.sse import Decoder

_Form = Literal["sse", "jsonl"]


class NotACapture(ValueError):
    """The bytes hold no events."""


def read(data: bytes, form: _Form | None = None) -> RecordedExchange:
    """Reads the stream in these bytes; without `form` the first line decides about it."""
    lines = [line for line in data.splitlines() if line.strip()]
    if not lines:
        raise NotACapture("there is nothing in it")
    if form is None:
        form = "jsonl" if lines[0].lstrip().startswith(b"{") else "sse"
    if form == "sse":
        return _sse(data)
    return _jsonl(lines)


def _sse(data: bytes) -> RecordedExchange:
    decoder = Decoder(max(1, len(data)))
    events = decoder.feed(data) + decoder.close()
    if not events:
        raise NotACapture("it holds no server-sent event")
    exchange = RecordedExchange(
        "sse", "CAPTURE", "", b"", status=200, headers={"content-type": "text/event-stream"}
    )
    exchange.body = data
    exchange.arrivals = [Arrival(0.0, event.data, event.event) for event in events]
    return exchange


def _jsonl(lines: Iterable[bytes]) -> RecordedExchange:
    exchange = RecordedExchange("websocket", "CAPTURE", "", b"")
    for number, line in enumerate(lines, 1):
        try:
            msgspec.json.decode(line)
        except BROKEN as error:
            raise NotACapture(f"line {number} is not JSON: {error}") from None
        exchange.arrivals.append(Arrival(0.0, line.decode(errors="replace")))
    return exchange


def audit_capture(
    subject: str, exchange: RecordedExchange, *, spec: Spec = LATEST, only: Iterable[str] = ()
) -> Report:
    """Judges one stream by every rule that can be seen in it."""
    findings, seen = observations(exchange, spec)
    transports = (exchange.transport,)
    rules = [rule for rule in select(spec=spec, transports=transports, only=only).values() if _visible(rule)]
    results: list[RuleResult] = []
    for rule in rules:
        found = [finding for finding in findings if finding.rule == rule.id]
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            results.append(
                RuleResult(rule, "fail", found[0].message + more, exchanges=[exchange], findings=found)
            )
        elif seen.intersection(rule.needs or rule.transports):
            results.append(RuleResult(rule, "pass"))
        else:
            results.append(RuleResult(rule, "skip", f"the stream has no {' or '.join(rule.needs)}"))
    return Report(subject, _model(exchange), spec, __version__, results, exchanges=1)


def _visible(rule: ServerRule) -> bool:
    return rule.id in OBSERVED


def _model(exchange: RecordedExchange) -> str:
    for event in exchange.events:
        if isinstance(response := event.get("response"), dict):
            return str(response.get("model"))
    return "unknown"
