"""The check list for servers, R002-36: twelve lines, twelve tests; that for clients is in `tests/client`."""

import pytest

from antiphon.compliance.catalog import select
from antiphon.compliance.checklist import SERVER, Line, lines_of
from antiphon.compliance.results import Report
from tests.compliance.judging import judge_rules, told
from tests.compliance.model import KEYS
from tests.server.serving import Serving

UNSEEN = {"order.queued_silent"}


@pytest.fixture(scope="module")
def report(gateway: Serving) -> Report:
    rules = {rule for line in SERVER for rule in line.rules}
    return judge_rules(gateway.url, select(only=rules), api_key=KEYS["alice"])


@pytest.mark.parametrize("line", SERVER, ids=lambda line: f"{line.number} {line.says}")
def test_our_gateway(report: Report, line: Line) -> None:
    assert dict(lines_of(report))[line] == "pass"
    assert set(line.rules) - UNSEEN <= told(report, "pass").keys(), told(report, "fail")
