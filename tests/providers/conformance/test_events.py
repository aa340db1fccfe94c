"""The events on a provider's page are those that its answers give: no more, no fewer, in that order."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from antiphon.providers.base import Provider
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import OURS
from antiphon.providers.script import ScriptProvider
from antiphon.spec.events import EVENTS as SPECIFIED
from scripts import provider_pages
from scripts.provider_events import ALWAYS, EVENTS, KINDS
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.build import build
from tests.providers.compose import batches, composed, make_turn
from tests.providers.conformance import scenarios
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.own_answers import OWN, PAGE
from tests.providers.conformance.said import Called, Fake, Script
from tests.providers.conformance.scenarios import SCENARIOS

Json = dict[str, Any]
DOCS = Path(__file__).parents[3] / "docs"
WIRES = {kind: [wire for wire in FAKES if wire.partition(" ")[0] == kind] for kind in EVENTS}
# Models that summarise their reasoning do so by their names.
MODELS = {"anthropic": "claude-opus-5-5"}
CUSTOM = Script((Called("run_sql", json.dumps({"input": "SELECT 1"})),), "tool_calls")
MADE = re.compile(r"(?:msg|rs|fc|ctc|ws|call)_?\d+")


async def came(provider: Provider, request: Any = "Hi", model: str = "m") -> list[Json]:
    """The events of one streamed answer."""
    return composed(await batches(provider, make_turn(request, model=model)))[0]


def types(events: list[Json]) -> list[str]:
    """Without what a delta repeats."""
    names = [event["type"] for event in events]
    return [name for n, name in enumerate(names) if name != names[n - 1] or not name.endswith(".delta")]


def queue(fake: Any, answer: Any) -> None:
    (fake.replies if isinstance(fake, FakeAnthropic) else fake.says)(answer)


async def everything(wire: str, fake: Fake, provider: Provider) -> list[list[Json]]:
    """What comes of each scenario that this wire can play, and of what only this wire can say."""
    runs = []
    for scenario in SCENARIOS:
        if scenario.name not in fake.lacks and scenario.name != "large arguments":
            fake.plays(scenario.script)
            runs.append(await came(provider, scenario.request))
    fake.plays(CUSTOM)
    runs.append(await came(provider, {"input": "Go.", "tools": [scenarios.SQL]}))
    for own in OWN.get(wire, ()):
        queue(fake, own.answer)
        runs.append(await came(provider, model=own.model))
    return runs


@pytest.mark.parametrize("kind", [kind for kind in EVENTS if WIRES[kind]])
async def test_every_event_of_a_provider_is_on_its_page_and_comes(kind: str, http: UpstreamClient) -> None:
    seen: set[str] = set()
    for wire in WIRES[kind]:
        async with FAKES[wire]() as fake:
            provider = fake.provider(http)
            for events in await everything(wire, fake, provider):
                seen |= {event["type"] for event in events}
                places = [e["output_index"] for e in events if e["type"] == "response.output_item.added"]
                assert places == list(range(len(places)))
            await provider.close()
    assert seen == EVENTS[kind].types()


@pytest.mark.parametrize("wire", FAKES)
async def test_the_order_on_a_page_is_the_order_of_the_events(wire: str, http: UpstreamClient) -> None:
    table = EVENTS[wire.partition(" ")[0]]
    name = "call after text after reasoning" if len(table.order) > 2 else "call after text"
    [scenario] = [one for one in SCENARIOS if one.name == name]
    async with FAKES[wire]() as fake:
        provider = fake.provider(http)
        fake.plays(scenario.script)
        events = await came(provider, scenario.request, MODELS.get(wire, "m"))
        await provider.close()
    assert types(events) == table.sequence()
    pieces = [e for e in events if e["type"] == "response.function_call_arguments.delta"]
    assert (len(pieces) == 1) == table.whole_calls


@pytest.mark.parametrize("wire", FAKES)
async def test_ids_are_made_or_kept_as_the_page_says(wire: str, http: UpstreamClient) -> None:
    """Item ids are the Composer's; a call id is the upstream's where the wire has one."""
    async with FAKES[wire]() as fake:
        provider = fake.provider(http)
        fake.plays(Script((Called("get_weather", scenarios.PARIS, "call_given"),), "tool_calls"))
        events = await came(provider, scenarios.TOOLS)
        await provider.close()
        has_ids = "call ids" not in fake.lacks
    [item] = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    about = {event["item_id"] for event in events if "item_id" in event}
    assert about == {item["id"]}
    assert MADE.fullmatch(item["id"])
    assert (item["call_id"] == "call_given") == has_ids


async def test_a_script_gives_every_event_of_its_page() -> None:
    steps: list[Json] = [
        {"reasoning": "Hm.", "chunk": 2},
        {"text": "So.", "chunk": 2},
        {"call": "f"},
    ]
    more: list[list[Json]] = [
        [{"summary": "Hm."}, {"refusal": "No."}, {"finish": "length"}],
        [{"text": "So."}, {"annotation": {"type": "url_citation", **PAGE, "start_index": 0, "end_index": 3}}],
        [{"custom": "run_sql", "input": "SELECT 1"}, {"event": "demo:progress"}],
        [{"text": "So."}, {"error": {"message": "it broke"}}],
    ]
    seen: set[str] = set()
    for n, script in enumerate([steps, *more]):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(json.dumps(script))
            file.flush()
            events = await came(build(ScriptProvider, "demo", UpstreamClient(), file=file.name))
        seen |= set(types(events))
        if n == 0:
            assert types(events) == EVENTS["script"].sequence()
    assert seen == EVENTS["script"].types()


def test_every_kind_of_event_is_given_or_left_out_with_a_reason() -> None:
    assert set(EVENTS) == set(OURS)
    for told in EVENTS.values():
        assert {*told.gives, *told.omits} == set(KINDS)
        assert not told.gives.keys() & told.omits.keys()
    named = {*ALWAYS, *(name for names in KINDS.values() for name in names)}
    assert named == set(SPECIFIED)


@pytest.mark.parametrize("kind", EVENTS)
def test_the_events_on_a_page_are_fresh(kind: str) -> None:
    committed = provider_pages.page_of(kind, DOCS).read_text(encoding="utf-8")
    assert committed == provider_pages.with_events(kind, committed), "run: python -m scripts.provider_pages"
