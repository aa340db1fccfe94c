"""The log of the server process, and in it one line for each request that did not go well.

No line has anything of what was asked or answered in it, nor a key; what a client can choose (a path, a
model's name) is cut short, and spelled so that it cannot end the line or reach a terminal.
"""

import asyncio
import json
import logging
import re
import time
from datetime import UTC, datetime

from msgspec import Struct

from antiphon.config import Config
from antiphon.config.known_secrets import KnownSecrets
from antiphon.engine.failures import Problem
from antiphon.engine.request_context import RequestContext
from antiphon.engine.routing.failure_kinds import kind_of
from antiphon.engine.run_state import RunState
from antiphon.spec.errors import ErrorPayload
from antiphon.wires.run_listener import AttemptInfo, RunInfo, SilentListener, Spent

log = logging.getLogger("antiphon.requests")

FAILED = "request failed"
_Fields = dict[str, object]

_LONGEST = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_CONTROL_IN_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_GATE = frozenset(
    {
        "body_too_large",
        "forbidden",
        "headers_too_large",
        "invalid_api_key",
        "invalid_handshake",
        "invalid_http",
        "method_not_allowed",
        "pipeline_too_long",
        "unknown_path",
    }
)
"""Codes that whoever can reach the server can cause as often as they like."""
_INTERVAL = 1.0
_WROTE_BACK = "Fatal error on transport WriteUnixTransport"
_NO_FAILURES = frozenset({"request", "unsupported", "too_long"})
"""What says nothing about a target: the line of the request tells of it."""


class RequestLog(SilentListener):
    """Writes the line of a request once it has ended; with `access`, also of a request that succeeded."""

    def __init__(self, access: bool = False) -> None:
        self.access = access
        self._refusals: dict[str, _Refusals] = {}
        """By code: what was refused at the gate since the last line about it."""

    def log_end(
        self,
        context: RequestContext,
        run: RunState | None,
        route: str,
        began: float,
        status: int,
        problem: Problem | None,
    ) -> None:
        """`status` is what the client got: a stream that fails in the middle has begun with 200."""
        if problem is None:
            if self.access:
                _write(logging.INFO, "request", _fields(context, run, route, began, status))
            return
        fields = _fields(context, run, route, began, status)
        fields["code"] = code = problem.payload.code or problem.payload.type
        if code in _GATE:
            fields["reason"] = problem.payload.message
            self._log_refusal(code, fields)
        else:
            _write(logging.WARNING if problem.status >= 500 else logging.INFO, FAILED, fields)

    def log_refusal(self, error: ErrorPayload, status: int, route: str = "", request_id: str = "") -> None:
        """Log what was no request, or was refused before its sender was known."""
        context = RequestContext(request_id=request_id)
        self.log_end(context, None, route, time.perf_counter(), status, Problem(error, status))

    def attempt_ended(self, run: RunInfo, attempt: AttemptInfo, spent: Spent) -> None:
        """A target of a route that failed has a line. If another answers, no other line tells of it."""
        error = spent.error
        if error is None or not attempt.route or kind_of(error, spent.http_status) in _NO_FAILURES:
            return
        known = {
            "id": run.request_id,
            "key": run.key,
            "target": f"{attempt.provider}/{attempt.model}",
            "kind": kind_of(error, spent.http_status),
            "code": error.code or error.type,
            "upstream_status": attempt.upstream_status,
            "upstream_id": attempt.upstream_id,
        }
        fields: _Fields = {name: value for name, value in known.items() if value}
        _write(logging.WARNING, "attempt failed", {**fields, "ms": round(spent.seconds * 1000)})

    def log_departure(self, context: RequestContext, run: RunState | None, route: str, began: float) -> None:
        _write(logging.INFO, "the client went away", _fields(context, run, route, began, 0))

    def _log_refusal(self, code: str, fields: _Fields) -> None:
        """Log the first refusal of a code at once, and all that follow within a second in one line."""
        if (refusals := self._refusals.get(code)) is not None:
            refusals.count += 1
            refusals.last = fields
            return
        self._refusals[code] = _Refusals(fields)
        _write(logging.INFO, FAILED, fields)
        asyncio.get_running_loop().call_later(_INTERVAL, self._tell_refusals, code)

    def _tell_refusals(self, code: str) -> None:
        refusals = self._refusals[code]
        if not refusals.count:
            del self._refusals[code]
            return
        _write(logging.INFO, FAILED, {**refusals.last, "count": refusals.count})
        refusals.count = 0
        asyncio.get_running_loop().call_later(_INTERVAL, self._tell_refusals, code)


class _Refusals(Struct):
    """The refusals with one code that are not logged yet."""

    last: _Fields
    count: int = 0


def _write(level: int, message: str, fields: _Fields) -> None:
    log.log(level, message, extra={"fields": fields})


def _fields(context: RequestContext, run: RunState | None, route: str, began: float, status: int) -> _Fields:
    turn, target = (None, None) if run is None else (run.turn, run.target)
    known = {
        "id": context.request_id,
        "key": context.key,
        "route": route,
        "model": run and run.model,
        "target": target and f"{target.provider}/{target.upstream_model}",
        "status": status,
        "upstream_status": turn and turn.upstream_status,
        "upstream_id": turn and turn.upstream_id,
    }
    fields: _Fields = {name: value for name, value in known.items() if value}
    fields["ms"] = round((time.perf_counter() - began) * 1000)
    return fields


def configure(config: Config) -> None:
    """Have everything that is logged written to stderr, a line each, without the gateway's secrets."""
    handler = logging.StreamHandler()
    formatter = JsonLine() if config.log.format == "json" else TextLine()
    handler.setFormatter(_Masking(formatter, KnownSecrets.of(config)))
    logging.basicConfig(level=config.log.level.upper(), handlers=[handler])
    # Which credentials it found is news to nobody who set them.
    logging.getLogger("botocore.credentials").setLevel(logging.WARNING)
    logging.getLogger("asyncio").addFilter(without_noise_of_children)
    # It tells the beginning and the end of each job, and every poll.
    logging.getLogger("procrastinate").setLevel(logging.WARNING)


def without_noise_of_children(record: logging.LogRecord) -> bool:
    """Tell in one line that a child process wrote into its standard input, from which it may only read.

    Code in a sandbox can do so as often as it likes. uvloop does not expect it, and logs a traceback.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, TypeError) and record.getMessage().startswith(_WROTE_BACK):
        record.msg, record.args = "a child process wrote into its standard input, and has lost it", ()
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.INFO, "INFO"
        return logging.getLogger(record.name).isEnabledFor(logging.INFO)
    return True


class _Masking(logging.Formatter):
    """Hides secrets in the lines of another formatter, whatever code has put them into the record."""

    def __init__(self, inner: logging.Formatter, secrets: KnownSecrets) -> None:
        super().__init__()
        self._inner = inner
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return self._secrets.mask(self._inner.format(record))


class TextLine(logging.Formatter):
    """`TIME LEVEL logger: message name=value …`

    Whatever a record holds, it is one line. Only a traceback follows in lines of its own; each begins with
    blanks, so that none can be taken for a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: _Fields = getattr(record, "fields", {})
        values = "".join(f" {name}={_plain(value)}" for name, value in fields.items())
        message = _CONTROL.sub(_escape_character, record.getMessage())
        line = f"{_time(record)} {record.levelname} {record.name}: {message}{values}"
        if place := _traceback(self, record):
            line += "".join(
                f"\n  {_CONTROL_IN_LINES.sub(_escape_character, one)}" for one in place.split("\n")
            )
        return line


class JsonLine(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in getattr(record, "fields", {}).items():
            line[name] = value[:_LONGEST] if isinstance(value, str) else value
        if place := _traceback(self, record):
            line["traceback"] = place
        return json.dumps(line)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Where it happened: of an exception, or what the caller logs instead of the exception's words."""
    if record.exc_info:
        return formatter.formatException(record.exc_info)
    return str(getattr(record, "traceback", "")).rstrip("\n")


def _escape_character(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] < "\x7f" else f"\\u{ord(found[0]):04x}"


def _plain(value: object) -> str:
    """As it is if it is one printable word of ASCII, else in quotes as JSON has it."""
    text = str(value)[:_LONGEST]
    is_word = text.isascii() and text.isprintable() and not set(text) & set(' "=\\')
    return text if is_word else json.dumps(text)
