"""All 17 scenarios at once, as the official runner starts them, against each kind of server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.embedded.process import available
from tests.server.scenarios import SCENARIOS, Target
from tests.server.serving import Serving, configure
from tests.server.upstream import Call, Upstream

Results = dict[str, BaseException | None]


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


async def _all_at_once(url: str, model: str) -> Results:
    async with httpx.AsyncClient(timeout=180, trust_env=False) as http:
        target = Target(url, model, http)
        outcomes = await asyncio.gather(
            *(scenario(target) for scenario in SCENARIOS.values()), return_exceptions=True
        )
    return dict(zip(SCENARIOS, outcomes, strict=True))


@pytest.fixture(scope="module")
def behind_a_chat_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    folder: Path = tmp_path_factory.mktemp("chat")
    with Obliging() as upstream, Serving(configure(folder, upstream.toml)) as server:
        yield asyncio.run(_all_at_once(server.url, "model"))


@pytest.fixture(scope="module")
def with_the_embedded_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    assert available() is None, available()
    config = configure(tmp_path_factory.mktemp("embedded"), LOCAL__ENABLED="true")
    assert config.default_model is not None
    with Serving(config) as server:
        yield asyncio.run(_all_at_once(server.url, config.default_model))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_behind_a_chat_upstream(behind_a_chat_upstream: Results, scenario: str) -> None:
    _check(behind_a_chat_upstream[scenario])


@pytest.mark.embedded
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_with_the_embedded_model(with_the_embedded_model: Results, scenario: str) -> None:
    _check(with_the_embedded_model[scenario])


def test_c16_all_seventeen_scenarios_are_here() -> None:
    assert len(SCENARIOS) == 17


def _check(outcome: BaseException | None) -> None:
    if outcome is not None:
        raise outcome
