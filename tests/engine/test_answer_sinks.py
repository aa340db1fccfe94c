"""The sinks between the one who asks for an answer and the run, and one more that is put among them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.providers.base import Sink, Turn, WrappingSink
from antiphon.spec.events import OutputTextDeltaEvent
from antiphon.spec.items import FunctionCall
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import AnyDelta, CallDelta, Finish, TextDelta, UsageDelta
from tests.engine.played import Step
from tests.engine.routed import CUT, Scenes, World

REAL, HIDDEN = "Ada", "PERSON"
SCHEMA = {
    "format": {
        "type": "json_schema",
        "name": "who",
        "strict": True,
        "schema": {"type": "object", "properties": {"name": {"enum": [REAL]}}, "required": ["name"]},
    }
}
TOOLS = [{"type": "function", "name": name, "parameters": None, "strict": False} for name in ("one", "two")]


class Restoring(WrappingSink):
    """Puts the real name in the place of the one that the upstream knows, and keeps what it has seen."""

    def __init__(self, sink: Sink, turn: Turn) -> None:
        super().__init__(sink)
        self.turn = turn
        self.seen: list[AnyDelta] = []
        self.finished = 0

    def put(self, deltas: list[AnyDelta]) -> bool:
        self.seen += deltas
        return self._sink.put([self._restore(delta) for delta in deltas])

    async def finish(self) -> None:
        await asyncio.sleep(0)
        self.finished += 1

    def _restore(self, delta: AnyDelta) -> AnyDelta:
        if isinstance(delta, TextDelta):
            return replace(delta, text=delta.text.replace(HIDDEN, REAL))
        return delta


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path)
    yield opened
    await opened.close()


def restoring(store: SqliteStore, *providers: Scenes, **settings: Any) -> tuple[World, list[Restoring]]:
    world, made = World(store, *providers, **settings), list[Restoring]()

    def make(sink: Sink, turn: Turn) -> Restoring:
        made.append(Restoring(sink, turn))
        return made[-1]

    world.engine.services.sinks = (make,)
    return world, made


async def test_an_added_sink_sees_every_answer_before_the_client(store: SqliteStore) -> None:
    fine = Scenes("a", [[], [TextDelta(f"Hello {HIDDEN}")], [UsageDelta(Usage.of(3, 2)), Finish()]])
    world, made = restoring(store, fine)
    run, events = await world.stream()
    plain = await world.plain()
    background = await world.background()
    assert run.response.output_text == plain.response.output_text == background.output_text == "Hello Ada"
    assert [event.delta for event in events if isinstance(event, OutputTextDeltaEvent)] == ["Hello Ada"]
    assert [sink.finished for sink in made] == [1, 1, 1]


async def test_it_stands_before_the_schema_check(store: SqliteStore) -> None:
    told: Step = [TextDelta(json.dumps({"name": HIDDEN}))]
    world, _ = restoring(store, Scenes("a", [[], told, [Finish()]]))
    run = await world.plain(text=SCHEMA)
    assert (run.response.status, json.loads(run.response.output_text)) == ("completed", {"name": REAL})
    world.engine.services.sinks = ()
    run = await world.plain(text=SCHEMA)
    assert run.response.status == "failed"


async def test_it_sees_the_calls_that_the_policy_takes_out(store: SqliteStore) -> None:
    calls = [CallDelta("1", name="two", arguments="{}"), CallDelta("2", name="one", arguments="{}")]
    world, made = restoring(store, Scenes("a", [[], [*calls], [Finish("tool_calls")]]))
    choice = {"type": "function", "name": "one"}
    run = await world.plain(tools=TOOLS, tool_choice=choice)
    assert [item.name for item in run.response.output if isinstance(item, FunctionCall)] == ["one"]
    assert [one.name for one in made[0].seen if isinstance(one, CallDelta)] == ["two", "one"]


async def test_it_sees_one_answer_where_a_second_target_goes_on_with_it(store: SqliteStore) -> None:
    cut, rest = (
        Scenes("a", [[], [TextDelta("Hello ")], CUT]),
        Scenes("b", [[], [TextDelta(HIDDEN)], [Finish()]]),
    )
    world, made = restoring(store, cut, rest, on_cut="continue")
    run, _ = await world.stream()
    assert run.response.output_text == "Hello Ada"
    (sink,) = made
    assert "".join(one.text for one in sink.seen if isinstance(one, TextDelta)) == f"Hello {HIDDEN}"
    assert sink.finished == 1
