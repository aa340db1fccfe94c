"""Several playing providers behind one alias, and what came of asking them."""

import asyncio
from typing import Any

from antiphon.config import Config, ProviderSettings, RouteSettings
from antiphon.engine.engine import Caller, Engine
from antiphon.engine.run import Run
from antiphon.providers.base import Sink, Turn
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Receipt
from antiphon.store import SqliteStore
from antiphon.stream.auditor import audit
from antiphon.wires.sealing import Seal
from tests.engine.played import Heard, Playing, Step


class Scenes(Playing):
    """Each time it is asked it plays the next scene, the last one again and again; it keeps the turns."""

    def __init__(self, name: str, *scenes: list[Step]) -> None:
        super().__init__()
        self.name = name
        self.scenes = scenes
        self.turns: list[Turn] = []

    async def answer(self, turn: Turn, sink: Sink) -> None:
        self.steps = tuple(self.scenes[min(len(self.turns), len(self.scenes) - 1)])
        self.turns.append(turn)
        await super().answer(turn, sink)


class World:
    """An alias `r` over these providers, each with the model `m`."""

    def __init__(self, store: SqliteStore, *providers: Playing, **settings: Any) -> None:
        self.now = 1000.0
        self.providers = {provider.name: provider for provider in providers}
        spare = settings.get("context_window_fallback", "").partition("/")[0]
        listed = tuple(f"{name}/m" for name in self.providers if name != spare)
        config = Config(
            default_model="r",
            providers={name: ProviderSettings(type="playing") for name in self.providers},
            models={"r": listed},
            routes={"r": RouteSettings(**settings)},
        )
        self.engine = Engine(config, self.providers, store, Seal([bytes(32)]), lambda: self.now)

    async def start(self, caller: Caller | None = None, **fields: Any) -> Run:
        request = decode_request(encode({"input": "hi", "stream": True, **fields}))
        return await self.engine.start(request, caller or Caller(receipts=True))

    async def stream(self, **fields: Any) -> tuple[Run, list[AnyEvent]]:
        """A streamed answer, held to the rules."""
        run, heard = await self.start(**fields), Heard()
        await run.deliver(heard, 5)
        assert audit(heard.events) == []
        kinds = [event.type for event in heard.events]
        assert kinds.count("response.created") == 1
        assert sum(event.is_terminal for event in heard.events) == 1
        return run, heard.events

    async def plain(self, **fields: Any) -> Run:
        run = await self.start(stream=False, **fields)
        await run.result()
        return run


def route_of(run: Run) -> Receipt:
    """The one receipt that tells the attempts."""
    (found,) = [receipt for receipt in run.turn.receipts if receipt.action == "route"]
    return found


def outcomes(run: Run) -> list[tuple[str, str]]:
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    return [(attempt.target, attempt.outcome) for attempt in attempts]


async def gone(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait({task})
