"""Texts for all reports: describes an exchange, and lays a stream out as rows of a timeline."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from antiphon.compliance.http_exchange import Arrival, RecordedExchange
from antiphon.compliance.observations import Finding
from antiphon.compliance.results import Report

MAX_BODY: Final = 4000
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True)
class _Row:
    """One event of a stream, and what is wrong with it."""

    position: int
    at: float
    type: str
    about: str
    wrong: tuple[str, ...] = ()


def summarize_musts(report: Report) -> str:
    """Returns the headline: how many MUSTs hold, how many fail, and how many were skipped."""
    counts = report.counts("MUST")
    total = sum(counts.values())
    return f"{counts['pass']} of {total} MUSTs hold, {counts['fail']} fail, {counts['skip']} were skipped"


def request_line(exchange: RecordedExchange) -> str:
    return f"{exchange.method} {exchange.path}"


def sent_text(exchange: RecordedExchange, limit: int = MAX_BODY) -> str:
    return shorten(exchange.sent, limit)


def status_line(exchange: RecordedExchange) -> str:
    """Describes the answer in one line."""
    if exchange.failure is not None and exchange.status is None:
        return exchange.failure
    if exchange.transport == "websocket":
        return f"{len(exchange.arrivals)} messages"
    about = f"HTTP {exchange.status} {exchange.content_type}".rstrip()
    if exchange.is_stream:
        about += f", {len(exchange.arrivals)} events"
    return f"{about} ({exchange.failure})" if exchange.failure else about


def shorten(data: bytes, limit: int = MAX_BODY) -> str:
    words = data[: limit * 4].decode(errors="replace")
    if len(words) <= limit and len(data) <= limit * 4:
        return words
    return f"{words[:limit]}… ({len(data):,} bytes)"


def timeline(exchange: RecordedExchange, findings: Iterable[Finding] = ()) -> list[_Row]:
    """The stream as rows; a finding past the last event gets a row of its own."""
    wrong: dict[int, list[str]] = {}
    for finding in findings:
        if finding.exchange is exchange and finding.position is not None:
            wrong.setdefault(finding.position, []).append(finding.message)
    rows = [
        _Row(
            n,
            arrival.at,
            "[DONE]" if arrival.is_done else arrival.type,
            about(arrival),
            tuple(wrong.pop(n, ())),
        )
        for n, arrival in enumerate(exchange.arrivals)
    ]
    rows += (
        _Row(n, exchange.seconds, "end of the stream", "", tuple(messages)) for n, messages in wrong.items()
    )
    return rows


def about(arrival: Arrival) -> str:
    """The part of an event that tells it from its neighbours."""
    payload = arrival.payload
    if not isinstance(payload, dict):
        return "" if arrival.is_done else arrival.data[:_SHOWN]
    said = [f"#{payload['sequence_number']}"] if "sequence_number" in payload else []
    for key in ("output_index", "content_index", "summary_index"):
        if key in payload:
            said.append(f"{key[:-6]} {payload[key]}")
    for key in ("delta", "text", "arguments", "refusal"):
        if isinstance(payload.get(key), str):
            said.append(repr(payload[key][:_SHOWN]))
    if isinstance(item := payload.get("item"), dict):
        said.append(" ".join(str(item[key]) for key in ("type", "id", "status") if key in item))
    if isinstance(response := payload.get("response"), dict):
        said.append(" ".join(str(response[key]) for key in ("id", "status") if key in response))
    if isinstance(error := payload.get("error"), dict):
        said.append(str(error.get("message", ""))[:_SHOWN])
    return " · ".join(said)
