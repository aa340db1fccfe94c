"""Runs checks against a live server, several at a time, and judges everything that went over the wire."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from antiphon import __version__
from antiphon.client.transport.answer_limits import UNPACKED, limit_answers
from antiphon.compliance.catalog import CHECKS, OBSERVED, Check, ServerRule
from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.observations import Finding, observations
from antiphon.compliance.probe import (
    MAX_BODY,
    Failed,
    NotOffered,
    Probe,
    ServerUnderTest,
    Skipped,
    TooWeak,
    describe_answer,
)
from antiphon.compliance.results import Report, RuleResult
from antiphon.spec.errors import UNSUPPORTED_CONTENT, UNSUPPORTED_OPERATION, UNSUPPORTED_PARAMETER
from antiphon.stream.aliases import BROKEN

CONCURRENCY: Final = 8
_KEPT: Final = 20
"""How many findings of one observed rule are kept in full."""
_MALFORMED: Final = (KeyError, IndexError, TypeError, AttributeError, ValueError)

Watcher = Callable[[Check, RuleResult | None], None]
"""Called with a check when it begins, with None, and with its result when it has ended."""


class CouldNotRun(Exception):
    """The server could not be judged at all."""


@dataclass(slots=True)
class _Observed:
    """The findings about the observed rules so far."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    streams: int = 0
    exchanges: int = 0

    def add(self, exchange: RecordedExchange, target: ServerUnderTest) -> None:
        found, seen = observations(exchange, target.spec)
        self.exchanges += 1
        self.seen |= seen
        self.streams += "stream" in seen
        for finding in found:
            self.counts[finding.rule] = self.counts.get(finding.rule, 0) + 1
            kept = self.findings.setdefault(finding.rule, [])
            if len(kept) < _KEPT:
                kept.append(finding)

    def result(self, rule: ServerRule) -> RuleResult:
        if findings := self.findings.get(rule.id):
            more = self.counts[rule.id] - 1
            reason = findings[0].message + (f" (and {more} more)" if more else "")
            exchanges = [finding.exchange for finding in findings[:1] if finding.exchange is not None]
            return RuleResult(rule, "fail", reason, exchanges=exchanges, findings=findings)
        needed = rule.needs or rule.transports
        if not self.seen.intersection(needed):
            return RuleResult(rule, "skip", f"nothing in this run had {' or '.join(needed)}")
        return RuleResult(rule, "pass", f"{self.streams} streams, {self.exchanges} exchanges")


async def run(
    target: ServerUnderTest,
    rules: Mapping[str, ServerRule],
    *,
    concurrency: int = CONCURRENCY,
    watch: Watcher = lambda check, result: None,
    keep: Callable[[str, RecordedExchange], None] = lambda rule, exchange: None,
) -> Report:
    """Judges the server by these rules. `keep` is given every exchange with the rule it was made for."""
    begun = time.monotonic()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    chosen = _select_checks(rules, target)
    observed = _Observed()
    results: dict[str, RuleResult] = {}
    limit = asyncio.Semaphore(concurrency)
    async with _client(
        timeout=None,
        verify=target.url.startswith("https:"),  # loading certificates takes a while
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=concurrency),
    ) as http:
        server = await _read_server_name(target, http)

        async def one(check: Check) -> None:
            async with limit:
                watch(check, None)
                result, exchanges = await _try(check, target, http)
                for exchange in exchanges:
                    observed.add(exchange, target)
                    keep(check.rule.id, exchange)
                results[check.rule.id] = result
                watch(check, result)

        async with asyncio.TaskGroup() as group:
            for check in chosen:
                if not check.alone:
                    group.create_task(one(check))
        for check in chosen:
            if check.alone:
                await one(check)
    for rule in rules.values():
        if rule.id in OBSERVED:
            results[rule.id] = observed.result(rule)
    return Report(
        target.url,
        target.model,
        target.spec,
        __version__,
        [results[name] for name in rules],
        time.monotonic() - begun,
        observed.exchanges,
        server,
        started,
    )


def _client(**options: Any) -> httpx.AsyncClient:
    hooks = {"response": [limit_answers(MAX_BODY)]}
    return httpx.AsyncClient(trust_env=False, headers=UNPACKED, event_hooks=hooks, **options)


def _select_checks(rules: Mapping[str, ServerRule], target: ServerUnderTest) -> list[Check]:
    """Returns the checks of these rules; for observed rules, also the checks whose exchanges show them."""
    chosen = [CHECKS[name] for name in rules if name in CHECKS]
    observed = [rule for rule in rules.values() if rule.id in OBSERVED]
    if observed:
        wanted = {transport for rule in observed for transport in rule.transports}
        wanted.intersection_update(target.transports)
        chosen += (
            check
            for name, check in CHECKS.items()
            if check.drives
            and name not in rules
            and target.spec in check.rule.specs
            and wanted.intersection(check.rule.transports)
        )
    return chosen


async def _read_server_name(target: ServerUnderTest, http: httpx.AsyncClient) -> str:
    """Returns the name that the server gives itself; raises `CouldNotRun` if no server answers."""
    try:
        answer = await http.get(f"{target.url}/models", headers=target.headers(), timeout=target.timeout)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise CouldNotRun(f"{target.url} does not answer: {reason}") from error
    return str(answer.headers.get("server", ""))


async def with_version(target: ServerUnderTest) -> ServerUnderTest:
    """Adds the missing `/v1` to the address of the target, if the server is there."""
    if urlsplit(target.url).path:
        return target
    versioned = replace(target, url=f"{target.url}/v1")
    async with _client(timeout=target.timeout) as http:
        with suppress(httpx.HTTPError):
            statuses = [
                (await http.get(f"{one.url}/models", headers=one.headers())).status_code
                for one in (target, versioned)
            ]
            if statuses[0] == 404 != statuses[1]:
                return versioned
    return target


async def find_model(target: ServerUnderTest) -> str:
    """The first model that the server lists."""
    async with _client(timeout=target.timeout) as http:
        try:
            answer = await http.get(f"{target.url}/models", headers=target.headers())
            listed = answer.json()["data"][0]["id"]
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise CouldNotRun(f"{target.url} does not answer: {reason}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise CouldNotRun(f"{target.url}/models lists no model; name one with --model") from error
    return str(listed)


async def _try(
    check: Check, target: ServerUnderTest, http: httpx.AsyncClient
) -> tuple[RuleResult, list[RecordedExchange]]:
    begun = time.monotonic()
    made: list[RecordedExchange] = []
    result = RuleResult(check.rule, "skip")
    for number in range(1, check.tries + 1):
        probe = Probe(target, http, number)
        result = _skip_if_declined(await _try_once(check, probe))
        result.tries = number
        made += probe.exchanges
        is_open = check.tempts and result.outcome == "pass"
        if not is_open and not result.reason.startswith(_WEAK):
            break
    if result.tries > 1:
        result.reason = f"{result.reason} ({result.tries} tries)".strip()
    result.seconds = time.monotonic() - begun
    return result, made


_WEAK: Final = "model too weak: "


def _skip_if_declined(result: RuleResult) -> RuleResult:
    """Turns a failure into a skip if the server says that it lacks what the rule is about."""
    if result.outcome != "pass" and result.exchanges and (what := find_declined(result.exchanges[-1])):
        return RuleResult(result.rule, "skip", f"capability absent: {what}", exchanges=result.exchanges)
    return result


async def _try_once(check: Check, probe: Probe) -> RuleResult:
    rule = check.rule
    try:
        await check.run(probe)
    except TooWeak as weak:
        return RuleResult(rule, "skip", f"{_WEAK}{weak}", exchanges=probe.exchanges)
    except Skipped as skipped:
        return RuleResult(rule, "skip", str(skipped), exchanges=probe.exchanges)
    except NotOffered as absent:
        if rule.group == "official":
            return RuleResult(rule, "fail", str(absent), exchanges=probe.exchanges)
        return RuleResult(rule, "skip", f"capability absent: {absent}", exchanges=probe.exchanges)
    except Failed as failed:
        return RuleResult(rule, "fail", str(failed), exchanges=probe.exchanges)
    except _MALFORMED as error:
        with suppress(IndexError):
            last = probe.exchanges[-1]
            if last.failure is not None:
                return RuleResult(rule, "fail", last.failure, exchanges=probe.exchanges)
        about = f"{type(error).__name__}: {error}".removesuffix(": ")
        return RuleResult(
            rule,
            "fail",
            f"the answer has not the form that it must have ({about})",
            exchanges=probe.exchanges,
        )
    return RuleResult(rule, "pass", exchanges=probe.exchanges)


PARAMETERS: Final = ("tools", "tool_choice", "previous_response_id", "text.format")
PARTS: Final = ("input_image", "input_file", "input_video", "compaction")
OPERATIONS: Final = ("/responses/compact",)

_STEP: Final = re.compile(r"(\w+)|\[(\d+)\]")


def find_declined(exchange: RecordedExchange) -> str | None:
    """Returns what the server says that it cannot do; None if it says anything else."""
    error = exchange.error
    refused = exchange.types == ["error"] if exchange.status is None else 400 <= exchange.status < 500
    if error is None or not refused or not error.get("message"):
        return None
    code, param = error.get("code"), error.get("param")
    what = ""
    if code == UNSUPPORTED_OPERATION and exchange.path in OPERATIONS:
        what = exchange.path
    elif isinstance(param, str) and (sent := _find_sent(exchange, param)):
        if code == UNSUPPORTED_PARAMETER and param in PARAMETERS:
            what = param
        elif code == UNSUPPORTED_CONTENT and isinstance(sent, dict) and sent.get("type") in PARTS:
            what = str(sent["type"])
    return f"`{what}` is declined ({describe_answer(exchange)})" if what else None


def _find_sent(exchange: RecordedExchange, param: str) -> Any:
    """Returns the value of the request at this place, such as `input[0].content[1]`, or None."""
    try:
        found: Any = msgspec.json.decode(exchange.sent)
        for name, number in _STEP.findall(param):
            found = found[name] if name else found[int(number)]
    except (*BROKEN, LookupError, TypeError):
        return None
    return found
