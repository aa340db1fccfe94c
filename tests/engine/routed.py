"""Several playing providers behind one alias, and what came of asking them."""

from typing import Any

from antiphon.config import Config, ModelFacts, ProviderSettings, RouteSettings
from antiphon.engine.background.background import Background
from antiphon.engine.context import Memory
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.engine.run import Run
from antiphon.providers.base import Provider, Sink, Turn
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_event, decode_request, decode_websocket_create
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent, LifecycleEvent
from antiphon.spec.request import Request
from antiphon.spec.response import Receipt, Response
from antiphon.store import SqliteStore
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import Failure
from antiphon.stream.dialects import solicited
from antiphon.wires.responses_socket import TurnMemory
from antiphon.wires.sealing import Seal
from tests.engine.played import Heard, Playing, Step

CUT: Step = [Failure(ErrorPayload("server_error", "cut", "upstream_closed"))]
"""An upstream that breaks off."""


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
    """An alias `r` over these providers, each with the model `m` or one of `models`."""

    def __init__(
        self,
        store: SqliteStore,
        *providers: Provider,
        catalogue: dict[str, ModelFacts] | None = None,
        models: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.now = 1000.0
        self.providers = {provider.name: provider for provider in providers}
        spare = settings.get("context_window_fallback", "").partition("/")[0]
        listed = tuple(f"{name}/{(models or {}).get(name, 'm')}" for name in self.providers if name != spare)
        config = Config(
            default_model="r",
            providers={name: ProviderSettings(type="playing") for name in self.providers},
            models={"r": listed},
            routes={"r": RouteSettings(**settings)},
            catalogue=catalogue or {},
        )
        self.engine = Engine(config, self.providers, store, Seal([bytes(32)]), lambda: self.now)

    async def start(
        self, context: RequestContext | None = None, memory: Memory | None = None, **fields: Any
    ) -> Run:
        run = self.engine.new_run(context or RequestContext(receipts=True))
        if memory is not None:
            message = encode({"type": "response.create", "input": "hi", **fields})
            request: Request = decode_websocket_create(message)
            return await self.engine.start(request, run, memory=memory, error_event=False)
        return await self.engine.start(decode_request(encode({"input": "hi", "stream": True, **fields})), run)

    async def stream(self, *, is_socket: bool = False, **fields: Any) -> tuple[Run, list[AnyEvent]]:
        """A streamed answer, held to the rules."""
        if is_socket:
            fields.setdefault("memory", TurnMemory())
        run, heard = await self.start(**fields), Heard()
        await run.deliver(heard, 5)
        check(heard.events, fields.get("tools", []))
        return run, heard.events

    async def plain(self, **fields: Any) -> Run:
        run = await self.start(stream=False, **fields)
        await run.result()
        return run

    async def background(self, **fields: Any) -> Response:
        """The response that a job gives, whose log is held to the rules as any stream."""
        background = Background(self.engine)
        await background.open()
        request = decode_request(encode({"input": "hi", "background": True, **fields}))
        job = await background.start(request, self.engine.new_run(RequestContext(receipts=True)))
        events: list[AnyEvent] = []
        while logged := await background.events("", job.id, len(events) - 1):
            events += [decode_event(one.data) for one in logged]
        await background.wait_until_idle()
        await background.close()
        check(events, fields.get("tools", []))
        last = events[-1]
        assert isinstance(last, LifecycleEvent)
        return last.response


def check(events: list[AnyEvent], tools: list[dict[str, Any]]) -> None:
    """Hold a stream to the rules: it begins once and ends once."""
    declared = decode_request(encode({"input": "", "tools": tools})).tools
    assert audit(events, solicited=solicited(declared)) == []
    kinds = [event.type for event in events]
    assert kinds.count("response.created") == 1
    assert sum(event.is_terminal for event in events) == 1


def route_of(run: Run) -> Receipt:
    """The one receipt that tells the attempts."""
    (found,) = [receipt for receipt in run.turn.receipts if receipt.action == "route"]
    return found


def outcomes(run: Run) -> list[tuple[str, str]]:
    attempts = route_of(run).attempts
    assert isinstance(attempts, tuple)
    return [(attempt.target, attempt.outcome) for attempt in attempts]
