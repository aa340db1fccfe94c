"""A provider that does what a test says, a run of it, and an end that keeps the events."""

import asyncio
from collections.abc import Callable
from typing import Any

from antiphon.config import Config, ProviderSettings
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.run import Run
from antiphon.providers.base import AnsweringProvider, Capabilities, Sink, Turn
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.events import AnyEvent
from antiphon.store import SqliteStore
from antiphon.stream.deltas import AnyDelta
from antiphon.wires.sealing import Seal

Step = list[AnyDelta] | BaseException | asyncio.Event | Callable[[Sink], None]


class Playing(AnsweringProvider):
    """A provider that does what the test says, step by step."""

    name = "playing"
    capabilities = Capabilities(frozenset({"temperature"}))

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.closed = False
        self.waiting = asyncio.Event()

    async def answer(self, turn: Turn, sink: Sink) -> None:
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, asyncio.Event):
                    self.waiting.set()
                    await step.wait()
                elif callable(step):
                    step(sink)
                elif not step:
                    sink.accepted()
                elif not sink.put(step):
                    await sink.ready()
        finally:
            self.closed = True


async def start(opened: SqliteStore, provider: Playing, strict: bool = False, **fields: Any) -> Run:
    config = Config(default_model="p/m", providers={"p": ProviderSettings(type="playing")})
    engine = Engine(config, {"p": provider}, opened, Seal([bytes(32)]), lambda: 1000.0)
    return await engine.start(
        decode_request(encode({"input": "hi", **fields})),
        engine.new_run(RequestContext(receipts=True, strict=strict)),
    )


class Heard:
    """An end that keeps what it is given; `full` says when it wants no more, `broken` when it fails."""

    def __init__(self, *, full: bool = False, broken: bool = False) -> None:
        self.batches: list[list[AnyEvent]] = []
        self.full = full
        self.broken = broken
        self.waits = 0
        self.is_open = self.is_closed = False

    @property
    def events(self) -> list[AnyEvent]:
        return [event for batch in self.batches for event in batch]

    def open(self) -> None:
        assert not self.is_open
        self.is_open = True

    def put(self, events: list[AnyEvent]) -> bool:
        assert self.is_open
        assert not self.is_closed
        assert events
        if self.broken:
            raise ArithmeticError
        self.batches.append(events)
        return not self.full

    async def ready(self) -> None:
        self.waits += 1

    async def put_long(self, event: AnyEvent) -> None:
        self.put([event])
        await asyncio.sleep(0)

    async def close(self, events: list[AnyEvent]) -> None:
        if events:
            self.put(events)
        self.is_closed = True


async def played(run: Run, patience: float = 5) -> list[AnyEvent]:
    heard = Heard()
    await run.deliver(heard, patience)
    assert heard.is_closed
    return heard.events


def types(events: list[AnyEvent]) -> list[str]:
    return [event.type.removeprefix("response.") for event in events]
