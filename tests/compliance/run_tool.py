"""Shortest ways to run the tool in a test."""

import asyncio
from collections.abc import Iterable
from typing import Any

from antiphon.compliance.catalog import ServerRule, select
from antiphon.compliance.probe import ServerUnderTest
from antiphon.compliance.results import Report
from antiphon.compliance.runner import run
from tests.server.servers import DEADLINE


def judge(url: str, model: str = "model", *, only: Iterable[str] = (), **settings: Any) -> Report:
    """A whole run, or one of these rules only."""
    rules = select(only=only)
    return judge_rules(url, rules, model, **settings)


def judge_rules(url: str, rules: dict[str, ServerRule], model: str = "model", **settings: Any) -> Report:
    target = ServerUnderTest(f"{url}/v1", model, **{"timeout": DEADLINE, **settings})
    return asyncio.run(run(target, rules))


def told(report: Report, outcome: str) -> dict[str, str]:
    """The rules of this outcome, and why."""
    return {result.rule.id: result.reason for result in report.results if result.outcome == outcome}
