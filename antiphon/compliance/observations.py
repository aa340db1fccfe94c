"""The rules that every exchange of a run is judged by: streams by the Auditor, shapes of bodies, framing,
errors.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from antiphon.compliance.catalog import LATEST, SPECS, TRANSPORTS, RuleTransport, ServerRule, Spec, observe
from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.spec.codec import Opaque
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ERROR_TYPE_ALIASES, STATUS, SpecError
from antiphon.stream.aliases import BROKEN
from antiphon.stream.auditor import Auditor
from antiphon.stream.dialects import solicited
from antiphon.stream.json_shapes import show
from antiphon.stream.rules import RESPONSE_RULES
from antiphon.stream.whole_answers import check_figures, check_resource

FRAMING: Final = "framing"
ERRORS: Final = "errors"
_SSE: Final = "Streaming HTTP Responses"
_SEEN_IN: Final[tuple[tuple[str, str, tuple[RuleTransport, ...]], ...]] = (
    ("usage.adds_up", "usage", TRANSPORTS),
    ("response.times", "response", TRANSPORTS),
    ("response.consistent", "whole", ("json",)),
)

for _rule in (
    ServerRule(
        "http.json_type",
        "MUST",
        "An answer that is not a stream is `application/json`.",
        "HTTP Responses",
        ("json",),
        FRAMING,
    ),
    ServerRule(
        "http.sse_type",
        "MUST",
        "A streamed answer has the content type `text/event-stream`.",
        _SSE,
        ("sse",),
        FRAMING,
    ),
    ServerRule("sse.no_id", "SHOULD", "Server-sent events have no `id` line.", _SSE, ("sse",), FRAMING),
    ServerRule("sse.utf8", "MUST", "A stream is UTF-8.", "Streaming HTTP Responses", ("sse",), FRAMING),
    ServerRule(
        "sse.one_data_line",
        "SHOULD",
        "The data of an event is on one line: widespread readers keep only the last.",
        "Streaming HTTP Responses",
        ("sse",),
        FRAMING,
    ),
    ServerRule(
        "done.literal",
        "MUST",
        "The end is exactly `data: [DONE]`, and has no `event` line.",
        "Streaming HTTP Responses",
        ("sse",),
        FRAMING,
        needs=("[DONE]",),
    ),
    ServerRule(
        "error.object",
        "MUST",
        "A refusal has a JSON body with `error`: an object with a `type` and a `message`.",
        "Errors",
        ("json",),
        ERRORS,
        needs=("refusal",),
    ),
    ServerRule(
        "error.full",
        "SHOULD",
        "The error of a refusal also has `code` and `param`, each a string or null.",
        "Schema of ErrorPayload",
        ("json",),
        ERRORS,
        needs=("refusal",),
    ),
    ServerRule(
        "error.type_and_status",
        "SHOULD",
        "The error's type fits the HTTP status: invalid_request 400 or another 4xx, not_found 404, "
        "too_many_requests 429, model_error 500, server_error 500 or another 5xx.",
        "Error Types",
        ("json",),
        ERRORS,
        needs=("refusal",),
    ),
    ServerRule(
        "error.no_internals",
        "SHOULD",
        "An error shows no stack trace and no path of the server's source code.",
        "Our requirement",
        TRANSPORTS,
        ERRORS,
        needs=("refusal",),
    ),
    ServerRule(
        "logprobs.present",
        "MUST",
        "In the version of 2026-01-15 text parts and text deltas carry `logprobs`.",
        "Schema of OutputTextContent",
        TRANSPORTS,
        "responses",
        ("2026-01-15",),
        needs=("text",),
    ),
):
    observe(_rule)
for _id, _needs, _transports in _SEEN_IN:
    _known = RESPONSE_RULES[_id]
    observe(
        ServerRule(_id, _known.level, _known.summary, _known.area, _transports, "responses", needs=(_needs,))
    )

_INTERNALS: Final = re.compile(
    r"Traceback \(most recent|File \"/|\bat [\w.$<>]+ \(.*:\d+:\d+\)|site-packages/"
)
_OTHERS_TYPES: Final = frozenset({"authentication_error", "permission_denied", "insufficient_quota"})
_EXACT: Final = frozenset({"not_found", "too_many_requests", "model_error"})
"""Types with a status of their own."""
_TYPED: Final = frozenset({404, 429})
"""Statuses with a type of their own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule in one exchange; `position` is the event, counted from 0, if it is about one."""

    rule: str
    message: str
    exchange: RecordedExchange | None = None
    position: int | None = None


class _Notes:
    """Collects what is said about one exchange."""

    def __init__(self, exchange: RecordedExchange, spec: Spec) -> None:
        self.findings: list[Finding] = []
        self.seen: set[str] = set()
        self.spec = spec
        self._exchange = exchange
        self._requested_tools: frozenset[str] | None = None

    def report(self, rule: str, message: str) -> None:
        self.findings.append(Finding(rule, message, self._exchange))

    def at(self, rule: str, position: int, message: str) -> None:
        self.findings.append(Finding(rule, message, self._exchange, position))

    def quote(self, value: object) -> str:
        return show(value)

    def admits(self, type_name: str) -> bool:
        if ":" in type_name:
            return True
        if self._requested_tools is None:
            self._requested_tools = _requested_tools(self._exchange)
        return type_name in self._requested_tools

    def admits_tools(self) -> bool:
        return True


def observations(exchange: RecordedExchange, spec: Spec = LATEST) -> tuple[list[Finding], set[str]]:
    """Returns the findings about an exchange, and what it contained: event types, and words of
    `Rule.needs`.
    """
    notes = _Notes(exchange, spec)
    if exchange.failure is None and not exchange.left_early and not _humours(exchange):
        if exchange.is_stream:
            _stream(exchange, notes)
        elif exchange.status is not None:
            _body(exchange, notes)
    return notes.findings, notes.seen


def _humours(exchange: RecordedExchange) -> bool:
    """Was something outside the schema carried out? What such an answer repeats is then our own doing."""
    if exchange.path != "/responses" or exchange.transport == "websocket" or exchange.status != 200:
        return False
    try:
        decode_request(exchange.sent)
    except SpecError:
        return True
    return False


def _stream(exchange: RecordedExchange, notes: _Notes) -> None:
    auditor = Auditor(
        transport="websocket" if exchange.transport == "websocket" else "sse",
        extensions=True,
        solicited=_requested_tools(exchange),
    )
    for arrival in exchange.arrivals:
        auditor.feed_sse(arrival.to_sse())
    notes.seen |= {"stream", exchange.transport, *(arrival.type for arrival in exchange.arrivals)}
    for violation in auditor.finish():
        notes.at(violation.rule, violation.position, violation.message)
    if exchange.transport == "sse":
        _framing(exchange, notes)
    for event in exchange.events:
        if event.get("type") == "error":
            notes.seen.add("refusal")
            _no_internals(event.get("error"), notes)
        if notes.spec == SPECS[0] and event.get("type") == "response.output_text.delta":
            _logprobs(event, str(event["type"]), notes)
    if (response := exchange.response) is not None:
        check_figures(response, notes)
        _look_at(response, notes)


def _requested_tools(exchange: RecordedExchange) -> frozenset[str]:
    try:
        return frozenset(solicited(decode_request(exchange.sent).tools))
    except SpecError:
        return _echoed_tools(exchange)


def _echoed_tools(exchange: RecordedExchange) -> frozenset[str]:
    """Returns the tools of a capture's request, which the response repeats."""
    for event in exchange.events:
        if isinstance(response := event.get("response"), dict):
            tools = response.get("tools")
            given = tools if isinstance(tools, list) else []
            return solicited([Opaque.make(**tool) for tool in given if isinstance(tool, dict)])
    return frozenset()


def _framing(exchange: RecordedExchange, notes: _Notes) -> None:
    try:
        text = exchange.body.decode()
    except UnicodeDecodeError as error:
        notes.report("sse.utf8", f"byte {error.start} of the stream is not UTF-8")
        text = exchange.body.decode(errors="replace")
    data_lines = 0
    lines = re.split(r"\r\n|\r|\n", text)
    for n, line in enumerate(lines):
        name, _, value = line.partition(":")
        if name == "id":
            notes.report("sse.no_id", f"line {n + 1} of the stream is {show(line)}")
        data_lines = data_lines + 1 if name == "data" else (0 if not line else data_lines)
        if name == "data" and data_lines == 2:
            notes.report("sse.one_data_line", f"line {n + 1} of the stream is a second data line")
        if name == "data" and value.strip() == "[DONE]":
            notes.seen.add("[DONE]")
            if line not in ("data: [DONE]", "data:[DONE]") or (n and lines[n - 1].startswith("event")):
                notes.report("done.literal", f"the end is written {show(lines[n - 1] + ' ' + line)}")


def _body(exchange: RecordedExchange, notes: _Notes) -> None:
    notes.seen.add("json")
    body = exchange.json
    is_json = exchange.content_type == "application/json" or exchange.content_type.endswith("+json")
    asked_stream = _wanted_stream(exchange)
    if exchange.status == 200 and asked_stream:
        notes.seen.add("sse")
        notes.report("http.sse_type", f"a stream was asked for, {exchange.content_type or 'nothing'} came")
    elif exchange.body and not is_json and exchange.method == "POST":
        notes.report("http.json_type", f"the content type is {show(exchange.content_type)}")
    if exchange.status is not None and exchange.status >= 400:
        _error(exchange, body, notes)
    elif isinstance(body, dict) and check_resource(body, notes):
        _look_at(body, notes)
        if body["object"] == "response":
            notes.seen.add("whole")


def _wanted_stream(exchange: RecordedExchange) -> bool:
    try:
        sent = msgspec.json.decode(exchange.sent)
    except BROKEN:
        return False
    return isinstance(sent, dict) and sent.get("stream") is True and exchange.path == "/responses"


def _error(exchange: RecordedExchange, body: object, notes: _Notes) -> None:
    notes.seen.add("refusal")
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        notes.report("error.object", f"HTTP {exchange.status} has no error object")
        return
    if not isinstance(error.get("type"), str) or not error.get("message"):
        notes.report("error.object", f"HTTP {exchange.status}: an error needs a type and a message")
    for key in ("code", "param"):
        if key not in error or not isinstance(error[key], str | None):
            notes.report("error.full", f"HTTP {exchange.status}: {key} is {show(error.get(key, 'missing'))}")
    kind = str(error.get("type"))
    official = ERROR_TYPE_ALIASES.get(kind, kind)
    status = exchange.status or 0
    expected = STATUS.get(official)
    if expected is None:
        if official not in _OTHERS_TYPES:
            notes.report("error.type_and_status", f"{show(kind)} is no error type of the specification")
    elif status != expected and (status // 100 != expected // 100 or official in _EXACT or status in _TYPED):
        notes.report("error.type_and_status", f"HTTP {status} with the type {show(kind)}")
    _no_internals(error, notes)


def _no_internals(error: object, notes: _Notes) -> None:
    message = error.get("message") if isinstance(error, dict) else None
    if isinstance(message, str) and (found := _INTERNALS.search(message)):
        notes.report("error.no_internals", f"the message holds {show(found.group())}")


def _look_at(response: dict[str, Any], notes: _Notes) -> None:
    notes.seen.add("response")
    if isinstance(response.get("usage"), dict):
        notes.seen.add("usage")
    for item in response.get("output") or ():
        for part in (item.get("content") or ()) if isinstance(item, dict) else ():
            if isinstance(part, dict) and part.get("type") == "output_text":
                notes.seen.add("text")
                if part.get("annotations"):
                    notes.seen.add("annotations")
                if notes.spec == SPECS[0]:
                    _logprobs(part, "an output_text part", notes)


def _logprobs(holder: dict[str, Any], what: str, notes: _Notes) -> None:
    if not isinstance(holder.get("logprobs"), list):
        notes.report("logprobs.present", f"{what} has no logprobs")
