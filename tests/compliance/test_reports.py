"""The reports: each tells everything that failed, and survives whatever a server sent."""

import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from antiphon.compliance.capture import audit_capture, read
from antiphon.compliance.catalog import OBSERVED
from antiphon.compliance.http_exchange import Arrival, RecordedExchange
from antiphon.compliance.observations import Finding
from antiphon.compliance.reports import html, machine, terminal, wording
from antiphon.compliance.results import Report, RuleResult
from antiphon.compliance.runner import _Observed
from antiphon.stream.sse import DONE, encode
from tests.compliance.run_tool import judge
from tests.compliance.two_tenants import KEYS
from tests.server.servers import Serving
from tests.stream import streams

NASTY = '</pre><script>alert("1")</script> \x00\x1b[31m & \ud800'.encode("utf-8", "replace").decode()


def sse(*events: dict[str, object]) -> bytes:
    return b"".join(encode(str(e["type"]), json.dumps(e).encode()) for e in events) + DONE


@pytest.fixture
def broken_stream() -> Report:
    events = streams.text()
    delta = next(e for e in events if e["type"] == "response.output_text.delta")
    delta["delta"] = NASTY
    return audit_capture("a stream", read(sse(*events)))


class Page(HTMLParser):
    """Collects what a page has, and that its tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        self.links += [given["href"]] if given.get("href") else []  # type: ignore[list-item]
        self.scripts += tag == "script"
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(broken_stream: Report) -> None:
    text = html.page(broken_stream)
    page = Page(text)
    assert page.open == []
    assert page.scripts == 0
    assert not re.search(r"https?://|@import|url\(", text)
    assert {link.removeprefix("#") for link in page.links} <= page.ids
    assert "text.deltas_equal_done" in page.ids
    assert 'class="wrong"' in text


def test_the_terminal_shows_the_place_in_the_stream(broken_stream: Report) -> None:
    out = io.StringIO()
    terminal.write(broken_stream, out)
    told = out.getvalue()
    assert "✗ text.deltas_equal_done [MUST]" in told
    assert re.search(r"response\.output_text\.done .*\n.*\^ .*the deltas were", told)
    assert "\x1b" not in told.replace(NASTY, "")


def test_json_has_every_rule_and_the_exchange_behind_each_failure(broken_stream: Report) -> None:
    told = json.loads(machine.to_json(broken_stream))
    assert {one["rule"] for one in told["results"]} == {one.rule.id for one in broken_stream.results}
    failed = [one for one in told["results"] if one["outcome"] == "fail"]
    assert [one["rule"] for one in failed] == ["text.deltas_equal_done"]
    assert failed[0]["exchanges"][0]["events"]
    assert told["exit_code"] == 1


def test_junit_counts_what_failed(broken_stream: Report) -> None:
    top = ET.fromstring(machine.to_junit(broken_stream))
    assert top.get("failures") == "1"
    assert int(top.get("tests") or 0) == len(broken_stream.results)
    assert [case.get("name") for case in top.iter("testcase") if case.find("failure") is not None] == [
        "text.deltas_equal_done"
    ]


def test_a_real_run_in_every_form(gateway: Serving) -> None:
    report = judge(gateway.url, only=["official", "tenants", "content.broken_image"], api_key=KEYS["alice"])
    assert Page(html.page(report)).open == []
    assert ET.fromstring(machine.to_junit(report)) is not None
    told = machine.to_json(report).decode()
    for form in (told, html.page(report), machine.to_junit(report).decode()):
        assert KEYS["alice"] not in form
        assert "no --second-key was given" in form


def test_a_may_that_fails_changes_nothing(broken_stream: Report) -> None:
    assert broken_stream.exit_code == 1
    failed = broken_stream.failures[0]
    failed.rule = replace(failed.rule, level="MAY")
    assert broken_stream.exit_code == 0


def test_a_finding_past_the_last_event_has_a_row_of_its_own() -> None:
    exchange = RecordedExchange("sse", "POST", "/responses", b"", arrivals=[Arrival(0.1, '{"type": "x"}')])
    rows = wording.timeline(exchange, [Finding("done.required", "no end", exchange, 1)])
    assert [(row.type, row.wrong) for row in rows] == [("x", ()), ("end of the stream", ("no end",))]


def test_an_observed_rule_is_skipped_when_nothing_showed_it() -> None:
    result: RuleResult = _Observed().result(OBSERVED["annotation.kept"])
    assert result.outcome == "skip"
    assert "response.output_text.annotation.added" in result.reason
