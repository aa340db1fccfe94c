"""Deltas through the Composer, judged by the Auditor: what every provider's answer must survive."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from itertools import count
from typing import Any, cast

import msgspec
import pytest

from antiphon.config import UpstreamTimeouts
from antiphon.providers.base import Provider, Turn
from antiphon.spec.codec import to_builtins
from antiphon.spec.decode import decode_request
from antiphon.spec.items import Item, Message
from antiphon.spec.response import Response
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta
from tests.providers.fake_server import SOON
from tests.spec.validators import assert_valid_event

SOLICITED = {
    "custom_tool_call",
    "image_generation_call",
    "local_shell_call",
    "tool_search_call",
    "web_search_call",
}


def compose(
    batches: Iterable[list[AnyDelta]], *, schema: bool = False, solicited: set[str] = SOLICITED
) -> Response:
    """The response that these batches make; its stream must be without a violation, and fit the schema."""
    return composed(batches, schema=schema, solicited=solicited)[1]


def composed(
    batches: Iterable[list[AnyDelta]], *, schema: bool = False, solicited: set[str] = SOLICITED
) -> tuple[list[dict[str, Any]], Response]:
    """The same with the events that lead to it."""
    numbers = count(1)
    composer = Composer(
        Response.new("resp_1", "m", now=1),
        clock=lambda: 2.0,
        new_id=lambda prefix: f"{prefix}{next(numbers)}",
    )
    events = [event for batch in batches for event in composer.feed(batch)]
    assert composer.finished, f"the answer has no end: {events[-3:]}"
    payloads = [msgspec.json.decode(event.to_json()) for event in events]
    assert audit(payloads, solicited=solicited, extensions=True) == []
    seen: Counter[str] = Counter()
    for payload in payloads if schema else ():
        # Deltas of one kind differ in nothing but their words.
        seen[payload["type"]] += 1
        if not payload["type"].endswith(".delta") or seen[payload["type"]] <= 3:
            assert_valid_event(as_functions(payload))
    return payloads, composer.response


def as_functions(value: Any) -> Any:
    """An event with its custom tool calls told as function calls, the nearest thing in the specification."""
    if isinstance(value, list):
        return [as_functions(one) for one in value]
    if not isinstance(value, dict):
        return value
    told = {key: as_functions(one) for key, one in value.items()}
    kind = told.get("type")
    if not isinstance(kind, str) or "custom_tool_call" not in kind:
        return told
    told["type"] = kind.replace("custom_tool_call_input", "function_call_arguments").replace(
        "custom_tool_call", "function_call"
    )
    if "input" in told:
        told["arguments"] = told.pop("input")
    return told


def plain(response: Response) -> dict[str, Any]:
    return cast(dict[str, Any], to_builtins(response))


def told(response: Response) -> list[Any]:
    """The output in short: text, or what a call says, and `!` before what is incomplete."""
    return [_short(item) for item in plain(response)["output"]]


def _short(item: dict[str, Any]) -> Any:
    mark = "!" if item.get("status") == "incomplete" else ""
    match item["type"]:
        case "message":
            return mark + "".join(part.get("text", "") + part.get("refusal", "") for part in item["content"])
        case "reasoning":
            return mark + "reasoning: " + "".join(part["text"] for part in item.get("content") or ())
        case "function_call":
            return mark + item["name"], item["arguments"], item["call_id"]
        case "custom_tool_call":
            return mark + item["name"], item["input"], item["call_id"]
    return item


def make_turn(
    request: str | dict[str, Any] = "Hi",
    *,
    items: list[Item] | None = None,
    model: str = "m",
    stream: bool = True,
) -> Turn:
    """A turn as the engine makes it, from the JSON of a request."""
    body = {"input": request} if isinstance(request, str) else request
    decoded = decode_request(msgspec.json.encode({"model": model, **body}))
    if items is None:
        given = decoded.input or []
        items = [Message(role="user", content=given)] if isinstance(given, str) else list(given)
    return Turn(model=model, request=decoded, items=items, tools=decoded.tools, stream=stream)


class Collected:
    """A sink that keeps what is put; an empty batch stands for "accepted"."""

    def __init__(self, *, has_room: bool = True) -> None:
        self.batches: asyncio.Queue[list[AnyDelta]] = asyncio.Queue()
        self._has_room = has_room

    def accepted(self) -> None:
        self.put([])

    def queued(self) -> None:
        return

    def put(self, deltas: list[AnyDelta]) -> bool:
        self.batches.put_nowait(deltas)
        return self._has_room

    async def ready(self) -> None:
        await self.batches.join()


async def answering(provider: Provider, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
    """The batches of an answer, one at a time; closing this cancels whoever awaits the answer."""
    sink = Collected(has_room=False)
    task = asyncio.ensure_future(provider.answer(turn, sink))
    try:
        while not (task.done() and sink.batches.empty()):
            coming = asyncio.ensure_future(sink.batches.get())
            await asyncio.wait({coming, task}, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                yield coming.result()
                sink.batches.task_done()
            else:
                coming.cancel()
        await task
    finally:
        if not task.done():
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def batches(provider: Provider, turn: Turn) -> list[list[AnyDelta]]:
    sink = Collected()
    await provider.answer(turn, sink)
    return [sink.batches.get_nowait() for _ in range(sink.batches.qsize())]


async def answer(provider: Provider, turn: Turn) -> Response:
    return compose(await batches(provider, turn))


def patience(code: str) -> UpstreamTimeouts:
    """Little only where silence is the failure: else a busy machine would look like one."""
    return UpstreamTimeouts(first_byte=SOON, idle=0.3 if code == "timeout" else SOON)


async def cancelled(provider: Provider, gone: asyncio.Event) -> None:
    """Cancels whoever reads an answer; the upstream must notice that its client is gone."""
    sink = Collected()
    task = asyncio.ensure_future(provider.answer(make_turn(), sink))
    await asyncio.wait_for(sink.batches.get(), SOON)
    task.cancel()
    await asyncio.wait_for(gone.wait(), SOON)
    with pytest.raises(asyncio.CancelledError):
        await task
