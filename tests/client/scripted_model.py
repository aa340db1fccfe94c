"""A model for tests of agents: it says what it is told to, through the Composer, and keeps its requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from antiphon.client.agent import Agent
from antiphon.client.agent.events import ToolOutcome
from antiphon.client.tools import tool
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    type_of,
)
from antiphon.spec.request import Request, encode_request, new_response
from antiphon.spec.response import Response
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, CallDelta, Finish, ItemEnd, TextDelta

Scene = Iterable[AnyDelta] | Exception | Callable[[Request], Iterable[AnyDelta]]


def say(text: str) -> list[AnyDelta]:
    return [TextDelta(text), Finish()]


def call(name: str, arguments: str = "{}", call_id: str = "") -> list[AnyDelta]:
    key = f"{name}{arguments}{call_id}"
    return [CallDelta(key, arguments, name, call_id), ItemEnd(key, "completed")]


class Refusal(Exception):
    """As the client raises it: a code, and nothing else that the agent looks at."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class ScriptedModel:
    """Plays one scene a request; the last one again and again. A scene without an end never ends."""

    def __init__(self, *scenes: Scene) -> None:
        self._scenes = list(scenes)
        self._numbers = count(100)
        self.requests: list[Request] = []
        self.started = asyncio.Event()
        self.closed = 0
        self.remembers = False

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator["_Stream"]:
        encode_request(request)  # what cannot be sent fails here, as it would there
        self.requests.append(request)
        scene = self._scenes.pop(0) if len(self._scenes) > 1 else self._scenes[0]
        if isinstance(scene, Exception):
            raise scene
        deltas = scene(request) if callable(scene) else scene
        response = new_response(request, model=request.model or "m", now=1)
        response.id = f"resp_{next(self._numbers)}"
        try:
            yield _Stream(Composer(response, clock=lambda: 2.0), list(deltas), self.started)
        finally:
            self.closed += 1


class _Stream:
    def __init__(self, composer: Composer, deltas: list[AnyDelta], started: asyncio.Event) -> None:
        self._composer = composer
        self._deltas = deltas
        self._started = started

    @property
    def response(self) -> Response:
        return self._composer.snapshot()

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        for delta in self._deltas:
            for event in self._composer.feed([delta]):
                yield event
            await asyncio.sleep(0)
        self._started.set()
        if not self._composer.finished:
            await asyncio.Event().wait()


def unanswered(items: Sequence[Item]) -> list[str]:
    """Calls without an output, and outputs without a call before them."""
    open_calls: list[str] = []
    orphans: list[str] = []
    for item in items:
        if isinstance(item, FunctionCall | CustomToolCall):
            open_calls.append(item.call_id)
        elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            (open_calls.remove if item.call_id in open_calls else orphans.append)(item.call_id)
    return open_calls + orphans


def compose(deltas: Iterable[AnyDelta]) -> tuple[list[AnyEvent], Response]:
    """The events of deltas, judged by the Auditor."""
    composer = Composer(Response.new("resp_1", "m", now=1), clock=lambda: 2.0)
    events = composer.feed([*deltas])
    if not composer.finished:
        events += composer.fail(ErrorPayload("server_error", "no end"))
    assert audit(events, extensions=True, solicited={"custom_tool_call"}) == []
    return events, composer.response


@tool
def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"18 degrees in {city}"


@tool
def broken() -> str:
    """Fails."""
    raise ValueError("no such thing")


def agent(model: ScriptedModel, *tools: Any, **options: Any) -> Agent:
    return Agent(model="m", tools=tools or [get_weather], client=model, **options)


def told(outcome: ToolOutcome) -> tuple[str | None, str]:
    """The fault, and what the model reads about it."""
    assert isinstance(outcome.output, str)
    error = json.loads(outcome.output)["error"]
    assert error["code"] == outcome.fault
    return outcome.fault, error["message"]


def kinds(items: Any) -> list[str]:
    return [type_of(item) for item in items]
