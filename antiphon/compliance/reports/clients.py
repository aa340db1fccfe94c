"""The verdict on a client, for a terminal."""

from typing import Final, TextIO

from antiphon.compliance.client.verdicts import RULES, Verdict
from antiphon.compliance.reports.terminal import MARKS, Paint
from antiphon.compliance.results import COULD_NOT_RUN, FAILURES, PASSED, RuleOutcome

_NOBODY: Final = "no client has asked for a play"


def write(told: list[Verdict], out: TextIO, *, verbose: bool = False) -> int:
    """Shows what was found, and gives the exit code."""
    paint = Paint(out)
    if all(verdict.outcome == "skip" for verdict in told):
        print(_NOBODY, file=out)
        return COULD_NOT_RUN
    for rule in RULES.values():
        found = [verdict for verdict in told if verdict.rule is rule]
        outcome = outcome_of(found)
        mark, code = MARKS[outcome]
        line = f" (line {rule.line})" if rule.line else ""
        print(f"{paint(mark, code)} {rule.id} [{rule.level}] {rule.says}{line}", file=out)
        for verdict in found:
            if verbose or verdict.outcome != "pass":
                print(
                    f"    {MARKS[verdict.outcome][0]} {verdict.play}: {verdict.reason}".rstrip(": "), file=out
                )
    failed = sum(verdict.outcome == "fail" for verdict in told)
    print(f"\n{len(told) - failed} of {len(told)} passed or were not tried, {failed} failed", file=out)
    return FAILURES if failed else PASSED


def outcome_of(found: list[Verdict]) -> RuleOutcome:
    outcomes = {verdict.outcome for verdict in found}
    return "fail" if "fail" in outcomes else "pass" if "pass" in outcomes else "skip"
