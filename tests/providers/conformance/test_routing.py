"""Every wire as a target that fails or breaks off, and every wire as the one that goes on, over real sockets.

The Auditor has nothing to say about any stream, and the official types accept every request.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import product
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from antiphon.config import UpstreamTimeouts
from antiphon.providers.base import Provider
from antiphon.providers.http import UpstreamClient
from antiphon.spec.items import Reasoning
from antiphon.spec.response import Response
from antiphon.store import SqliteStore
from tests.engine.routed import World, outcomes
from tests.providers.build import build
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import SETTINGS
from tests.providers.conformance.said import Called, Fake, Script, Text, Thought
from tests.providers.conformance.scenarios import SQL, TOOLS
from tests.providers.fake_server import FakeServer, Received, Step, Wire, refusal, refusing_address

TEXT = "The quick brown fox jumps over the lazy dog."
HALF, REST = TEXT[:26], TEXT[10:]
CUTS: Final = ("restart", "continue", "fail")
FOLLOWED: Final = ("sse", "websocket", "background")
"""Ways to ask in which somebody follows the answer, or may do so later."""
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

    def rest(self) -> str:
        """What the second says after `HALF`: a model that is given a beginning repeats nothing of it."""
        prefill = self._providers[1].capabilities.prefill
        return TEXT[26:] if prefill is not None and prefill.search(self._models["second"]) else REST

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
        if "responses" not in wire:  # which tells the input by itself, and its fake only a whole one
            yield "input", Script((Called("run_sql", '{"input": "SELECT 1'),), "cut"), {"tools": [SQL]}


async def answered(world: World, way: str, **request: Any) -> tuple[Response, list[tuple[str, str]]]:
    """The response in the end, and who was asked; a job keeps that to itself."""
    if way == "background":
        return await world.background(**request), []
    if way == "plain":
        run = await world.plain(**request)
    else:
        run, _ = await world.stream(is_socket=way == "websocket", **request)
    return run.response, outcomes(run)


@pytest.mark.parametrize("wire", FAKES)
async def test_an_answer_that_breaks_off(pair: Pair, wire: str) -> None:
    for way, on_cut in product(FOLLOWED, CUTS):
        for moment, script, request in breaks(wire):
            goes_on = on_cut == "continue" and moment not in ("call", "input")
            if goes_on:
                pair.plays(script, Script((Text(pair.rest() if moment == "text" else TEXT),)))
            else:
                pair.first.plays(script)
            response, asked = await answered(pair.world(on_cut), way, **request)
            case = (wire, way, on_cut, moment, script.ending, response.error)
            assert (response.status == "completed") == goes_on, case
            if goes_on:
                assert response.output_text == TEXT, case
                assert response.usage is not None
            if goes_on and moment == "reasoning":
                thought = response.output[0]
                assert isinstance(thought, Reasoning), case
            if asked:
                assert asked[0][1] in ("connection", "server_error", "overloaded"), case
    pair.check()


@pytest.mark.parametrize("wire", FAKES)
async def test_an_answer_that_never_begins(pair: Pair, wire: str) -> None:
    pair.plays(Script((), "cut"), Script((Text(TEXT),)))
    run, _ = await pair.world("restart").stream()
    assert run.response.output_text == TEXT
    assert run.response.model.startswith("second/")
    pair.check()


KINDS: Final = {"refused": "connection", "429": "rate_limit", "401": "auth", "late": "timeout"}
"""What each way to fail before the head is called in the receipt."""
HASTY: Final = UpstreamTimeouts(connect=0.03, first_byte=0.03, whole=0.03)


class Faulty(FakeServer):
    """An upstream of any wire that begins no answer, or no more than that."""

    fault = ""

    def reply(self, received: Received) -> Wire:
        if self.fault == "late":
            return Wire([Step.HANG], framing="raw")
        if self.fault == "cut":
            return Wire([b"{", Step.CLOSE], headers={"content-type": "application/json"})
        return refusal(int(self.fault), b'{"error": {"message": "no"}}')


def elsewhere(wire: str, http: UpstreamClient, url: str, limits: UpstreamTimeouts | None = None) -> Provider:
    """Our adapter for this wire at an address where no fake of it is, with these limits."""
    fake = FAKES[wire]()
    with pytest.MonkeyPatch.context() as patch:
        prefix = getattr(fake, "prefix", "/v1")
        patch.setattr(type(fake), "base_url", f"http://127.0.0.1:{httpx.URL(url).port}{prefix}")
        if limits is not None:

            def hasty(*given: Any, **keys: Any) -> Any:
                return build(*given, **{**keys, "timeouts": limits})

            patch.setattr(f"{type(fake).__module__}.build", hasty)
        return fake.provider(http)


@pytest.mark.parametrize("wire", FAKES)
async def test_a_target_that_fails_before_its_answer_begins(
    wire: str, http: UpstreamClient, tmp_path: Path
) -> None:
    """Whatever `on_cut` says and however it was asked for, the next target answers."""
    store = await SqliteStore.open(tmp_path)
    models = {"first": SETTINGS[wire][1], "second": SETTINGS[NEXT[wire]][1]}
    async with Faulty() as faulty, FAKES[NEXT[wire]]() as fake:
        with refusing_address() as nobody:
            well, hasty = (
                elsewhere(wire, http, faulty.base_url),
                elsewhere(wire, http, faulty.base_url, HASTY),
            )
            first = {"refused": elsewhere(wire, http, nobody), "late": hasty}
            second = fake.provider(http)
            for fault, way, on_cut in product(KINDS, (*FOLLOWED, "plain"), CUTS):
                faulty.fault = fault
                providers = [first.get(fault, well), second]
                for provider, name in zip(providers, ("first", "second"), strict=True):
                    provider.name = name
                fake.plays(Script((Text(TEXT),)))
                world = World(store, *providers, models=models, on_cut=on_cut)
                response, asked = await answered(world, way)
                case = (wire, fault, way, on_cut, response.error, asked)
                assert (response.status, response.output_text) == ("completed", TEXT), case
                assert response.model == f"second/{models['second']}", case
                if asked:
                    assert [outcome for _, outcome in asked] == [KINDS[fault], "answered"], case
            for provider in (*first.values(), well, second):
                await provider.close()
        assert [fake.mistakes(request) for request in fake.requests] == [[]] * len(fake.requests)
    await store.close()


@pytest.mark.parametrize("wire", [wire for wire in FAKES if wire != "responses websocket"])
async def test_a_whole_answer_that_breaks_off(wire: str, http: UpstreamClient, tmp_path: Path) -> None:
    """Nothing of it was sent, so another target begins anew, whatever `on_cut` says."""
    store = await SqliteStore.open(tmp_path)
    models = {"first": SETTINGS[wire][1], "second": SETTINGS[NEXT[wire]][1]}
    async with Faulty() as faulty, FAKES[NEXT[wire]]() as fake:
        faulty.fault = "cut"
        first, second = elsewhere(wire, http, faulty.base_url), fake.provider(http)
        first.name, second.name = "first", "second"
        for on_cut in CUTS:
            fake.plays(Script((Text(TEXT),)))
            response, asked = await answered(
                World(store, first, second, models=models, on_cut=on_cut), "plain"
            )
            assert (response.status, response.output_text) == ("completed", TEXT), on_cut
            assert [outcome for _, outcome in asked] == ["connection", "answered"], on_cut
        await first.close()
        await second.close()
    await store.close()
