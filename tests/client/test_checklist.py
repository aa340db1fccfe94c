"""The check list for clients of the protocol: eight lines, eight tests."""

import asyncio
import json

from antiphon.client import AsyncClient
from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message, Reasoning
from antiphon.spec.response import Response
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Finish,
    ItemDelta,
    ReasoningDelta,
    TextDelta,
    VendorDelta,
)
from antiphon.stream.sse import DONE
from tests.client.scripted_server import Player, composed, events, streamed, whole

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
DEGREES = {"Paris": 18, "Tokyo": 25}

# The model asks for two cities at once, and answers when it has both.
TWO_CITIES = """Compare the weather in Paris and Tokyo.
```script
{"turns": [
  {"when": {"last": "message"}, "steps": [
    {"call": "get_weather", "arguments": {"city": "Paris"}, "id": "call_paris"},
    {"call": "get_weather", "arguments": {"city": "Tokyo"}, "id": "call_tokyo"}]},
  {"when": {"last": "function_call_output"}, "steps": [{"text": "Tokyo is warmer."}]}]}
```"""


def calls_in(response: Response) -> list[FunctionCall]:
    return [item for item in response.output if isinstance(item, FunctionCall)]


async def get_weather(call: FunctionCall) -> FunctionCallOutput:
    city = str(call.get_arguments_dict()["city"])
    return FunctionCallOutput(call_id=call.call_id, output=json.dumps({"degrees": DEGREES[city]}))


async def test_1_it_sends_authorization_and_content_type() -> None:
    async with Player(whole("hi"), streamed("hi")) as server, server.client("the-key") as client:
        await client.responses.create("x")
        async with client.responses.stream("x") as stream:
            await stream.final()
    for received in server.requests:
        assert received.headers["authorization"] == "Bearer the-key"
        assert received.headers["content-type"] == "application/json"


async def test_2_it_parses_items_by_their_type() -> None:
    deltas: list[AnyDelta] = [
        ReasoningDelta("hm"),
        TextDelta("hi"),
        CallDelta(1, '{"a":1}', "f", "call_1"),
        ItemDelta(Opaque.make(type="acme:search", id="s_1", status="completed")),
        Finish(),
    ]
    _, pieces = composed(deltas)
    async with Player(events(pieces)) as server, server.client() as client:
        streamed_ = await client.responses.create("x", stream=True)
        async with streamed_:
            response = await streamed_.final()
    assert [type(item) for item in response.output] == [Reasoning, Message, FunctionCall, Opaque]


async def test_3_it_tracks_the_states_of_items_and_of_the_response(client: AsyncClient) -> None:
    states: list[tuple[str, list[str | None]]] = []
    async with client.responses.stream('x\n```script\n[{"reasoning": "hm"}, {"text": "hi"}]\n```') as stream:
        async for _ in stream:
            found = stream.response
            now = (found.status, [getattr(item, "status", None) for item in found.output])
            if not states or states[-1] != now:
                states.append(now)
    assert states == [
        ("in_progress", []),
        ("in_progress", ["in_progress"]),
        ("in_progress", ["completed"]),
        ("in_progress", ["completed", "in_progress"]),
        ("in_progress", ["completed", "completed"]),
        ("completed", ["completed", "completed"]),
    ]


async def test_4_it_reads_event_and_data_lines_and_done() -> None:
    response, pieces = composed([TextDelta("zwölf"), Finish()])
    body = b": a comment\n\n" + b"".join(pieces).replace(b"\n", b"\r\n").replace(b"event: ", b"event:") + DONE
    async with Player(events([body])) as server, server.client() as client:
        server.slice = 3
        async with client.responses.stream("x") as stream:
            seen = [event.type async for event in stream]
    assert seen == [piece.partition(b"\n")[0].removeprefix(b"event: ").decode() for piece in pieces]
    assert stream.response == response


async def test_5_it_runs_the_loop_of_tools_that_are_hosted_outside(client: AsyncClient) -> None:
    response = await client.responses.create(TWO_CITIES, tools=[WEATHER])
    turns = 1
    while calls := calls_in(response):
        outputs = [await get_weather(call) for call in calls]
        response = await client.responses.create(outputs, tools=[WEATHER], previous_response_id=response.id)
        turns += 1
    assert (turns, response.output_text) == (2, "Tokyo is warmer.")


async def test_6_it_ignores_unknown_items_and_events_silently() -> None:
    known: list[AnyDelta] = [TextDelta("hi"), Finish()]
    unknown: list[AnyDelta] = [
        ItemDelta(Opaque.make(type="acme:thing", id="t_1", status="completed")),
        VendorDelta("acme:progress", {"percent": 50}),
    ]
    _, pieces = composed([*unknown, *known])
    async with (
        Player(events(pieces)) as server,
        server.client() as client,
        client.responses.stream("x") as stream,
    ):
        seen = [event async for event in stream]
        assert (await stream.final()).output_text == "hi"
    assert [event.type for event in seen if isinstance(event, ev.OtherEvent)] == ["acme:progress"]


async def test_7_it_continues_with_previous_response_id(client: AsyncClient) -> None:
    first = await client.responses.create("My name is Ada.")
    second = await client.responses.create("What is my name?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    given = [item async for item in client.responses.input_items(second.id, order="asc")]
    texts = [item.get_text() for item in given if isinstance(item, Message)]
    assert texts == ["My name is Ada.", "My name is Ada.", "What is my name?"]


async def test_8_it_handles_parallel_calls_in_one_response(client: AsyncClient) -> None:
    first = await client.responses.create(TWO_CITIES, tools=[WEATHER])
    calls = calls_in(first)
    assert [call.call_id for call in calls] == ["call_paris", "call_tokyo"]
    outputs = await asyncio.gather(*map(get_weather, calls))
    second = await client.responses.create(outputs, tools=[WEATHER], previous_response_id=first.id)
    assert second.output_text == "Tokyo is warmer."
    given = [item async for item in client.responses.input_items(second.id, order="asc")]
    assert [item.call_id for item in given if isinstance(item, FunctionCallOutput)] == [
        "call_paris",
        "call_tokyo",
    ]
