"""The results of a run: one for every rule, with the exchanges behind each failure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from antiphon.compliance.catalog import LEVELS, Level, ServerRule, Spec
from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.observations import Finding

RuleOutcome = Literal["pass", "fail", "skip"]

PASSED: Final = 0
FAILURES: Final = 1
COULD_NOT_RUN: Final = 2


@dataclass(slots=True)
class RuleResult:
    """The result of one rule. `exchanges` are those of the deciding try."""

    rule: ServerRule
    outcome: RuleOutcome
    reason: str = ""
    tries: int = 1
    seconds: float = 0.0
    exchanges: list[RecordedExchange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """A whole run against one server, or one capture."""

    subject: str
    model: str
    spec: Spec
    version: str
    results: list[RuleResult]
    seconds: float = 0.0
    exchanges: int = 0
    server: str = ""
    started: str = ""

    def of(self, outcome: RuleOutcome, level: Level | None = None) -> list[RuleResult]:
        return [r for r in self.results if r.outcome == outcome and (level is None or r.rule.level == level)]

    @property
    def failures(self) -> list[RuleResult]:
        """The worst first."""
        return sorted(self.of("fail"), key=lambda result: LEVELS.index(result.rule.level))

    @property
    def exit_code(self) -> int:
        """A rule that MAY be kept may also be broken."""
        return FAILURES if any(result.rule.level != "MAY" for result in self.of("fail")) else PASSED

    def counts(self, level: Level | None = None) -> dict[RuleOutcome, int]:
        counted = Counter(r.outcome for r in self.results if level is None or r.rule.level == level)
        outcomes: tuple[RuleOutcome, ...] = ("pass", "fail", "skip")
        return {outcome: counted[outcome] for outcome in outcomes}

    def by_group(self) -> dict[str, list[RuleResult]]:
        groups: dict[str, list[RuleResult]] = {}
        for result in self.results:
            groups.setdefault(result.rule.group, []).append(result)
        return groups
