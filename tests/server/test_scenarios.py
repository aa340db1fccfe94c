"""All 17 official scenarios against each kind of server.

Behind a chat upstream they run all at once, as the official runner starts them. The scenarios live in
`antiphon.compliance`; here two opinions that are not ours join in on every answer.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.compliance.catalog import select
from antiphon.compliance.checks.official import OFFICIAL
from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.probe import ServerUnderTest
from antiphon.compliance.results import Report
from antiphon.compliance.runner import run
from antiphon.embedded.process import why_unavailable
from tests.server.servers import Serving, configure
from tests.server.upstream import Call, Upstream
from tests.spec.validators import assert_valid, assert_valid_event, assert_valid_response


@dataclass
class Results:
    report: Report
    exchanges: list[RecordedExchange]


class Obliging(Upstream):
    """A chat upstream that calls the first tool it is given, and otherwise says a few words."""

    def _take(self, handler: Any, body: dict[str, Any]) -> None:
        call = Call(handler, body)
        if body.get("tools"):
            name = body["tools"][0]["function"]["name"]
            call.begin_call(name, '{"location": "San Francisco, CA"}')
            call.finish(reason="tool_calls")
        else:
            call.finish("That ", "is ", "fine.")


def _results(url: str, model: str, at_once: int = len(OFFICIAL)) -> Results:
    exchanges: list[RecordedExchange] = []
    judging = run(
        ServerUnderTest(f"{url}/v1", model, timeout=540.0),
        select(only=OFFICIAL),
        concurrency=at_once,
        keep=lambda rule, exchange: exchanges.append(exchange),
    )
    return Results(asyncio.run(judging), exchanges)


@pytest.fixture(scope="module")
def behind_a_chat_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    folder: Path = tmp_path_factory.mktemp("chat")
    with Obliging() as upstream, Serving(configure(folder, upstream.toml)) as server:
        yield _results(server.url, "model")


@pytest.fixture(scope="module")
def with_the_embedded_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    assert why_unavailable() is None, why_unavailable()
    config = configure(tmp_path_factory.mktemp("embedded"), LOCAL__ENABLED="true")
    assert config.default_model is not None
    with Serving(config) as server:
        # One by one: what a small model says depends a little on what else it is computing just then, and one
        # time in ten it would come to no end within its limit of tokens.
        yield _results(server.url, config.default_model, at_once=1)


@pytest.mark.parametrize("scenario", OFFICIAL)
def test_scenario_behind_a_chat_upstream(behind_a_chat_upstream: Results, scenario: str) -> None:
    _check(behind_a_chat_upstream, scenario)


@pytest.mark.embedded
@pytest.mark.parametrize("scenario", OFFICIAL)
def test_scenario_with_the_embedded_model(with_the_embedded_model: Results, scenario: str) -> None:
    _check(with_the_embedded_model, scenario)


def test_every_answer_is_valid_to_others(behind_a_chat_upstream: Results) -> None:
    _check_opinions(behind_a_chat_upstream)


@pytest.mark.embedded
def test_every_answer_of_the_embedded_model_is_valid_to_others(with_the_embedded_model: Results) -> None:
    _check_opinions(with_the_embedded_model)


def test_all_seventeen_scenarios_are_here() -> None:
    assert len(OFFICIAL) == 17


def _check(results: Results, scenario: str) -> None:
    result = next(result for result in results.report.results if result.rule.id == scenario)
    assert (result.outcome, result.reason) == ("pass", "")


def _check_opinions(results: Results) -> None:
    judged = 0
    for exchange in results.exchanges:
        for event in exchange.events:
            if exchange.transport == "websocket" and event["type"] == "error":
                assert_valid("WebSocketErrorEvent", event)
            else:
                assert_valid_event(event)
        body = exchange.json if not exchange.is_stream else None
        if isinstance(body, dict) and body.get("object") == "response":
            assert_valid_response(body)
        elif isinstance(body, dict) and body.get("object") == "response.compaction":
            assert_valid("CompactResource", body)
        judged += 1
    assert judged > len(OFFICIAL)
