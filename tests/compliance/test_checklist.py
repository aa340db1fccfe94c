"""The check list for servers: twelve lines, twelve tests; that for clients is in `tests/client`."""

import io
from pathlib import Path

import pytest

from antiphon.compliance.catalog import select
from antiphon.compliance.checklist import SERVER, ChecklistLine, lines_of
from antiphon.compliance.reports import terminal
from antiphon.compliance.results import Report
from tests.compliance.run_tool import judge_rules, told
from tests.compliance.two_tenants import KEYS, TENANTS, toml
from tests.server.servers import Serving, configure

UNSEEN = {"order.queued_silent"}


@pytest.fixture(scope="module")
def report(gateway: Serving) -> Report:
    rules = {rule for line in SERVER for rule in line.rules}
    return judge_rules(gateway.url, select(only=rules), api_key=KEYS["alice"])


@pytest.mark.parametrize("line", SERVER, ids=lambda line: f"{line.number} {line.says}")
def test_our_gateway(report: Report, line: ChecklistLine) -> None:
    (verdict,) = [verdict for verdict in lines_of(report) if verdict.line is line]
    assert (verdict.outcome, verdict.unchecked) == ("pass", ())
    assert set(line.rules) - UNSEEN <= told(report, "pass").keys(), told(report, "fail")


def test_without_a_key_the_line_about_keys_is_not_checked(gateway: Serving) -> None:
    report = judge_rules(gateway.url, select(only=set(SERVER[0].rules)))
    (verdict,) = lines_of(report)
    assert verdict.outcome != "pass"
    assert {"key.required", "key.wrong"} <= set(verdict.unchecked)
    told = io.StringIO()
    terminal.write(report, told)
    assert "takes POST /responses, with a key (not checked: key.required, key.wrong)" in told.getvalue()
    counts = report.counts("MUST")
    assert counts["skip"] > 0
    assert f"{counts['skip']} were skipped" in told.getvalue().splitlines()[1]


def test_an_open_server_is_not_said_to_hold_the_line_about_keys(model_url: str, tmp_path: Path) -> None:
    with Serving(configure(tmp_path, toml(model_url).replace(TENANTS, ""))) as server:
        report = judge_rules(server.url, select(only=set(SERVER[0].rules)))
    (verdict,) = lines_of(report)
    assert "basic-response" in told(report, "pass")
    assert (verdict.outcome, verdict.unchecked) == ("skip", ("key.required", "key.wrong"))
