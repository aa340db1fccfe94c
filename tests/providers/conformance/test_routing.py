"""Every wire as a target that breaks off, and every wire as the one that goes on, over real sockets.

The Auditor has nothing to say about any stream, and the official types accept every request.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from antiphon.providers.http import UpstreamClient
from antiphon.spec.items import Reasoning
from antiphon.store import SqliteStore
from tests.engine.routed import World, outcomes
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import SETTINGS
from tests.providers.conformance.said import Called, Fake, Script, Text, Thought
from tests.providers.conformance.scenarios import TOOLS

TEXT = "The quick brown fox jumps over the lazy dog."
HALF, REST = TEXT[:26], TEXT[10:]
NEXT = dict(zip(FAKES, [*list(FAKES)[1:], next(iter(FAKES))], strict=True))


class Pair:
    """A wire that breaks off, and the next one of the list, which goes on."""

    def __init__(
        self, store: SqliteStore, http: UpstreamClient, first: Fake, second: Fake, wire: str
    ) -> None:
        self.first, self.second = first, second
        self._store = store
        self._providers = [first.provider(http), second.provider(http)]
        for provider, name in zip(self._providers, ("first", "second"), strict=True):
            provider.name = name
        self._models = {"first": SETTINGS[wire][1], "second": SETTINGS[NEXT[wire]][1]}

    def world(self, on_cut: str) -> World:
        return World(self._store, *self._providers, models=self._models, on_cut=on_cut, failures=1000)

    def plays(self, first: Script, second: Script) -> None:
        self.first.plays(first)
        self.second.plays(second)

    def check(self) -> None:
        for fake in (self.first, self.second):
            assert [fake.mistakes(request) for request in fake.requests] == [[]] * len(fake.requests)

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()


@pytest.fixture
async def pair(wire: str, http: UpstreamClient, tmp_path: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(FAKES[wire]())
        second = await stack.enter_async_context(FAKES[NEXT[wire]]())
        store = await SqliteStore.open(tmp_path)
        pair = Pair(store, http, first, second, wire)
        yield pair
        await pair.close()
        await store.close()


def breaks(wire: str) -> Iterator[tuple[str, Script, dict[str, Any]]]:
    """Ways to break off, as far as the wire can say what comes before."""
    lacks = FAKES[wire]().lacks
    for ending in ("cut", "error"):
        yield "text", Script((Text(HALF),), ending), {}
    if "reasoning" not in lacks:
        yield "reasoning", Script((Thought("Let me think."),), "cut"), {"reasoning": {"effort": "medium"}}
    if "cut in a call" not in lacks:
        yield "call", Script((Called("get_weather", '{"city": "Par'),), "cut"), TOOLS


@pytest.mark.parametrize("wire", FAKES)
async def test_an_answer_that_breaks_off(pair: Pair, wire: str) -> None:
    for on_cut in ("restart", "continue", "fail"):
        for moment, script, request in breaks(wire):
            goes_on = on_cut == "continue" and moment != "call"
            if goes_on:
                pair.plays(script, Script((Text(REST if moment == "text" else TEXT),)))
            else:
                pair.first.plays(script)
            run, _ = await pair.world(on_cut).stream(**request)
            case = (wire, on_cut, moment, script.ending, run.response.error)
            assert (run.response.status == "completed") == goes_on, case
            if goes_on:
                assert run.response.output_text == TEXT, case
                assert run.response.usage is not None
            if goes_on and moment == "reasoning":
                thought = run.response.output[0]
                assert isinstance(thought, Reasoning), case
            assert outcomes(run)[0][1] in ("connection", "server_error", "overloaded"), case
    pair.check()


@pytest.mark.parametrize("wire", FAKES)
async def test_an_answer_that_never_begins(pair: Pair, wire: str) -> None:
    pair.plays(Script((), "cut"), Script((Text(TEXT),)))
    run, _ = await pair.world("restart").stream()
    assert run.response.output_text == TEXT
    assert run.response.model.startswith("second/")
    pair.check()
