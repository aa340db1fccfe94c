"""A program that uses the whole public API, for type checkers to read; it is never run.

`assert_type` fails where a type is lost on the way.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import assert_type

import msgspec

import antiphon
from antiphon import Agent, AgentResult, AsyncClient, Client, Response, Retries, Timeouts
from antiphon.client import (
    AsyncEventStream,
    AsyncSession,
    Conversation,
    Deleted,
    EventStream,
    InputTokens,
    Model,
    Parsed,
    Session,
)
from antiphon.spec.events import OutputTextDeltaEvent, ResponseCompletedEvent
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message
from antiphon.spec.response import CompactResource
from antiphon.spec.tools import FunctionTool


class Place(msgspec.Struct):
    city: str


@dataclass
class Point:
    x: int


def synchronous() -> str:
    tool = FunctionTool("get_weather", "The weather", {"type": "object", "properties": {}})
    with Client("http://127.0.0.1:8080/v1", timeouts=Timeouts(total=60), retries=Retries(3)) as client:
        response = client.responses.create("Hello", model="demo", temperature=0.5, tools=[tool])
        assert_type(response, Response)
        assert_type(response.output_text, str)
        for item in response.output:
            if isinstance(item, FunctionCall):
                assert_type(item.arguments, str)
        outputs = [FunctionCallOutput(call_id="call_1", output="18")]
        client.responses.create([*response.output, *outputs, {"role": "user", "content": "And?"}])
        client.responses.create(Message(role="user", content="Hi"), text={"verbosity": "low"}, store=False)
        with client.responses.stream("Hello", reasoning={"effort": "low"}) as stream:
            assert_type(stream, EventStream)
            for event in stream:
                if isinstance(event, OutputTextDeltaEvent):
                    assert_type(event.delta, str)
                elif isinstance(event, ResponseCompletedEvent):
                    assert_type(event.response, Response)
            assert_type(stream.text_deltas(), Iterator[str])
            assert_type(stream.final(), Response)
            assert_type(stream.response, Response)
        assert_type(client.responses.create("Hello", stream=True), EventStream)
        assert_type(client.responses.parse("Where?", into=Place), Parsed[Place])
        assert_type(client.responses.parse("Where?", into=Point).output.x, int)
        assert_type(client.responses.retrieve("resp_1"), Response)
        assert_type(client.responses.retrieve("resp_1", stream=True, starting_after=3), EventStream)
        assert_type(client.responses.cancel("resp_1"), Response)
        assert_type(client.responses.delete("resp_1"), Deleted)
        assert_type(client.responses.compact("x", model="demo"), CompactResource)
        assert_type(client.responses.input_items("resp_1", order="asc"), Iterator[Item])
        assert_type(client.responses.input_tokens("x"), InputTokens)
        assert_type(client.conversations.create(metadata={"a": "b"}), Conversation)
        assert_type(client.conversations.items.list("conv_1"), Iterator[Item])
        assert_type(client.models.list(), tuple[Model, ...])
        with client.session(model="demo", store=False) as session:
            assert_type(session, Session)
            assert_type(session.create("Hello"), Response)
            with session.stream("Hello") as turn:
                assert_type(turn, EventStream)
        return antiphon.via(response)


def agents() -> None:
    assert_type(Agent().run_sync("Hello").output, str)
    agent = Agent(output=Place)
    assert_type(agent, Agent[Place])
    assert_type(agent.run_sync("Where?").output, Place)
    with agent.stream_sync("Where?") as run:
        assert_type(run.text_deltas(), Iterator[str])
    assert_type(run.result, AgentResult[Place])


def plain(agent: Agent) -> str:
    return agent.run_sync("Hello").output


async def asynchronous() -> None:
    async with Agent(output=Point).stream("Where?") as run:
        async for _ in run:
            pass
    assert_type(run.result.output.x, int)
    async with AsyncClient(transport="local", config="antiphon.toml") as client:
        assert_type(await client.responses.create("Hello"), Response)
        assert_type(await client.responses.create("Hello", stream=True), AsyncEventStream)
        async with client.responses.stream("Hello") as stream:
            async for event in stream:
                assert_type(event.sequence_number, int)
            assert_type(stream.text_deltas(), AsyncIterator[str])
            assert_type(await stream.final(), Response)
        assert_type(await client.responses.parse("Where?", into=Place), Parsed[Place])
        assert_type(await client.responses.retrieve("resp_1", stream=True), AsyncEventStream)
        async for item in client.responses.input_items("resp_1"):
            assert_type(item, Item)
        async with client.session() as session:
            assert_type(session, AsyncSession)
            assert_type(await session.create("Hello"), Response)


def careful(client: Client) -> str:
    try:
        return client.responses.create("Hello").output_text
    except antiphon.StatusError as error:
        assert_type(error.status, int)
        assert_type(error.retry_after, float | None)
        return error.message
    except antiphon.StreamBroken as error:
        return error.response.output_text
    except antiphon.AntiphonError as error:
        return str(error)
