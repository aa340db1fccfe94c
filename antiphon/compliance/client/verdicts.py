"""Judges clients by the rules for them, which include the eight lines of their check list."""

from dataclasses import dataclass
from typing import Final, TextIO

from antiphon.compliance.catalog import Level
from antiphon.compliance.client.scenario_server import Received, Seen
from antiphon.compliance.client.scenarios import SCENARIOS, Scenario
from antiphon.compliance.http_exchange import Json
from antiphon.compliance.reports.terminal import MARKS, Paint
from antiphon.compliance.results import COULD_NOT_RUN, FAILURES, PASSED, RuleOutcome


@dataclass(frozen=True, slots=True)
class ClientRule:
    """One rule for clients; `line` is its place in the check list, if it has one."""

    id: str
    level: Level
    says: str
    line: int | None = None


RULES: Final[dict[str, ClientRule]] = {
    rule.id: rule
    for rule in (
        ClientRule("client.headers", "MUST", "It sends `Authorization` and `Content-Type`.", 1),
        ClientRule("client.items", "MUST", "It tells items and parts apart by their type.", 2),
        ClientRule("client.states", "MUST", "It follows the states of the response to its end.", 3),
        ClientRule("client.sse", "MUST", "It reads server-sent events however they are framed and cut.", 4),
        ClientRule("client.done", "SHOULD", "It stops at `[DONE]`, and waits for nothing more.", 4),
        ClientRule("client.loop", "MUST", "It answers a call with its output.", 5),
        ClientRule("client.unknown", "MUST", "It ignores events, items and fields that it does not know.", 6),
        ClientRule("client.previous", "MUST", "It continues with `previous_response_id`.", 7),
        ClientRule("client.parallel", "MUST", "It answers all calls of one response in one request.", 8),
        ClientRule("client.utf8", "MUST", "It puts characters together that came in two pieces."),
        ClientRule("client.errors", "MUST", "It notices that a response has failed."),
        ClientRule("client.retries", "SHOULD", "It tries again after HTTP 429."),
        ClientRule("client.no_retries", "SHOULD", "It does not repeat a request that is wrong."),
    )
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one rule in one scenario."""

    rule: ClientRule
    scenario: str
    outcome: RuleOutcome
    reason: str = ""


def judge_scenarios(seen: dict[str, Seen]) -> list[Verdict]:
    """Judges what clients did in each scenario; a scenario without a request is skipped."""
    results: list[Verdict] = []
    for scenario in SCENARIOS.values():
        if (did := seen.get(scenario.id)) is None:
            results.append(Verdict(RULES[scenario.rule], scenario.id, "skip", "it was never asked for"))
            continue
        results.append(_verdict("client.headers", scenario, _headers(did.requests)))
        results.append(_verdict(scenario.rule, scenario, _performance(scenario, did)))
        if did.replies:
            results.append(_verdict("client.previous", scenario, _previous(did)))
    return results


def _verdict(rule: str, scenario: Scenario, wrong: str | None) -> Verdict:
    return Verdict(RULES[rule], scenario.id, "fail" if wrong else "pass", wrong or "")


def _headers(requests: list[Received]) -> str | None:
    for received in requests:
        if not received.headers.get("authorization", "").startswith("Bearer "):
            return "a request has no `Authorization: Bearer …`"
        kind = received.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return f"a request has the content type {kind!r}"
    return None


def _performance(scenario: Scenario, seen: Seen) -> str | None:
    if scenario.rule == "client.no_retries":
        return None if seen.refused == 1 else f"it sent a refused request {seen.refused} times"
    if seen.refused and not seen.response_ids:
        return "it gave up at HTTP 429, although the server said when to retry"
    if seen.left_early:
        return "it went away before the stream had ended"
    if seen.held_to_the_end:
        return "it kept the connection open after [DONE]"
    if not seen.replies:
        return "it did not continue: it never sent what it understood"
    if scenario.calls:
        return _calls(scenario, seen)
    found = _input(seen.replies[-1].json)
    if found != scenario.reply:
        return f"it understood {found[:120]!r}, told was {(scenario.reply or '')[:120]!r}"
    return None


def _calls(scenario: Scenario, seen: Seen) -> str | None:
    answered = [
        str(item.get("call_id"))
        for item in seen.replies[0].json.get("input") or ()
        if isinstance(item, dict) and item.get("type") == "function_call_output"
    ]
    if sorted(answered) != sorted(scenario.calls):
        return f"it answered the calls {answered}, made were {list(scenario.calls)}"
    return None


def _previous(seen: Seen) -> str | None:
    given = seen.replies[-1].json.get("previous_response_id")
    return None if given in seen.response_ids else f"previous_response_id is {given!r}"


def _input(body: Json) -> str:
    """The words of the last message of an input, in whichever form."""
    given = body.get("input")
    if isinstance(given, str):
        return given
    last = given[-1] if isinstance(given, list) and given else {}
    content = last.get("content") if isinstance(last, dict) else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


_NOBODY: Final = "no client has asked for a play"


def write_verdicts(results: list[Verdict], out: TextIO, *, verbose: bool = False) -> int:
    """Writes the verdicts for a terminal, and returns the exit code."""
    paint = Paint(out)
    if all(verdict.outcome == "skip" for verdict in results):
        print(_NOBODY, file=out)
        return COULD_NOT_RUN
    for rule in RULES.values():
        found = [verdict for verdict in results if verdict.rule is rule]
        outcome = outcome_of(found)
        mark, code = MARKS[outcome]
        line = f" (line {rule.line})" if rule.line else ""
        print(f"{paint(mark, code)} {rule.id} [{rule.level}] {rule.says}{line}", file=out)
        for verdict in found:
            if verbose or verdict.outcome != "pass":
                print(
                    f"    {MARKS[verdict.outcome][0]} {verdict.scenario}: {verdict.reason}".rstrip(": "),
                    file=out,
                )
    failed = sum(verdict.outcome == "fail" for verdict in results)
    print(f"\n{len(results) - failed} of {len(results)} passed or were not tried, {failed} failed", file=out)
    return FAILURES if failed else PASSED


def outcome_of(found: list[Verdict]) -> RuleOutcome:
    outcomes = {verdict.outcome for verdict in found}
    return "fail" if "fail" in outcomes else "pass" if "pass" in outcomes else "skip"
