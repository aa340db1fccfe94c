"""The agent over everything that can be asked: HTTP, a WebSocket session, in-process, the sync client."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.client import Agent, AsyncClient, Client, Hooks, UsageError
from antiphon.client.agent.model import AgentClient
from antiphon.spec.codec import to_builtins
from antiphon.spec.items import type_of
from antiphon.spec.request import Request
from examples.paris_tokyo import SCRIPT, get_weather, weatherman
from tests.client.scripted_model import unanswered
from tests.server.servers import Serving

GOLDEN = Path(__file__).parents[1] / "golden" / "paris_tokyo.json"
ANSWER = "It is 18 °C and sunny in Paris, and 22 °C and cloudy in Tokyo."
SLOW = '```script\n[{"text": "Once upon a time", "chunk": 4, "delay": 0.05}, {"delay": 30}]\n```'
SILENT = '```script\n[{"delay": 30}, {"text": "At last."}]\n```'
QUESTION = "What is the weather in Paris and in Tokyo?"


@asynccontextmanager
async def asked(how: str, gateway: Serving, config: Path) -> AsyncIterator[AgentClient]:
    url = f"{gateway.url}/v1"
    if how == "local":
        async with AsyncClient(transport="local", config=config) as local:
            yield local
    elif how in ("http", "websocket"):
        async with AsyncClient(url, trust_env=False) as client:
            if how == "http":
                yield client
            else:
                async with client.session() as session:
                    yield session
                    assert session.transport == "websocket"
    else:
        with Client(url, trust_env=False) as sync:
            if how == "sync":
                yield sync
            else:
                with sync.session() as turns:
                    yield turns


@pytest.mark.parametrize("store", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("how", ["http", "websocket", "local", "sync", "sync websocket"])
async def test_a_loop_of_two_steps_and_another_run(
    how: str, store: bool, gateway: Serving, local_config: Path
) -> None:
    async with asked(how, gateway, local_config) as client:
        agent = Agent(tools=[get_weather], instructions=SCRIPT, client=client, store=store)
        result = await agent.run(QUESTION)
        assert (result.stopped, result.text) == ("answered", ANSWER)
        assert [type_of(item) for item in result.items] == [
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
            "message",
        ]
        assert unanswered(result.items) == []
        assert result.usage.total_tokens > 0
        again = await agent.run("And again?", after=result)
    assert (again.stopped, again.text, len(again.steps)) == ("answered", ANSWER, 2)


async def test_paris_and_tokyo_as_the_protocol_has_it(client: AsyncClient) -> None:
    """The worked example: one request, two calls, one follow-up with both outputs, one answer."""
    exchanged: list[Any] = []
    agent = weatherman(client)
    agent.hooks = Hooks(
        before_step=lambda number, request: exchanged.append({"request": _shown(request)}),
        after_step=lambda number, response: exchanged.append({"response": _shown(response)}),
    )
    await agent.run(QUESTION)
    seen: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        prefix = match[1]
        count = sum(known.startswith(prefix) for known in seen)
        return seen.setdefault(match[0], f"{prefix}{100 + count}")

    text = re.sub(r"\b(resp_|msg_|fc_)[0-9a-f]{24}", renamed, json.dumps(exchanged, ensure_ascii=False))
    assert json.loads(text) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def _shown(value: Any) -> Any:
    """What the example is about, without what is the same in every exchange."""
    plain = to_builtins(value)
    names = ("id", "previous_response_id", "status", "input", "tools", "output")
    shown = {name: plain[name] for name in names if plain.get(name) is not None}
    return shown if isinstance(value, Request) else {k: v for k, v in shown.items() if k != "tools"}


async def test_the_environment_says_whom_to_ask(gateway: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_BASE_URL", f"{gateway.url}/v1")
    assert (await weatherman().run(QUESTION)).text == ANSWER


async def test_a_session_continues_its_own_conversation_and_no_other(client: AsyncClient) -> None:
    async with client.session() as session:
        agent = Agent(client=session)
        assert (await agent.run("first")).text == "first"
        with pytest.raises(UsageError, match="a session continues its own conversation"):
            await agent.run("second", previous_response_id="resp_other")


@pytest.mark.parametrize("how", ["http", "websocket", "local", "sync", "sync websocket"])
async def test_a_run_can_be_left_in_the_middle_of_a_word(
    how: str, gateway: Serving, local_config: Path
) -> None:
    async with asked(how, gateway, local_config) as client:
        agent = Agent(client=client, instructions=SLOW)
        async with agent.stream("Tell me.") as run:
            async for event in run:
                if event.type == "response.output_text.delta":
                    break
        assert run.result.stopped == "cancelled"
        assert run.result.text.startswith("Once")
        agent = Agent(client=client)
        assert (await agent.run("Hello", after=run.result)).text == "Hello"


@pytest.mark.parametrize("how", ["http", "websocket", "local", "sync", "sync websocket"])
async def test_a_run_can_be_left_before_a_word_was_said(
    how: str, gateway: Serving, local_config: Path
) -> None:
    async with asked(how, gateway, local_config) as client:
        agent = Agent(client=client, instructions=SILENT)
        async with agent.stream("Tell me.") as run:
            async for event in run:
                assert event.type == "agent.step.started"
                break
        assert (run.result.stopped, run.result.text) == ("cancelled", "")
        assert (await Agent(client=client).run("Hello")).text == "Hello"


async def test_a_run_that_is_left_closes_its_connection(gateway: Serving) -> None:
    class Counting(httpx.AsyncHTTPTransport):
        closed = 0

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            inner = response.stream
            assert isinstance(inner, httpx.AsyncByteStream)
            response.stream = _Watched(inner, self)
            return response

    class _Watched(httpx.AsyncByteStream):
        def __init__(self, inner: httpx.AsyncByteStream, transport: Counting) -> None:
            self._inner = inner
            self._transport = transport

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._inner:
                yield chunk

        async def aclose(self) -> None:
            self._transport.closed += 1
            await self._inner.aclose()

    transport = Counting()
    async with AsyncClient(f"{gateway.url}/v1", transport=transport, trust_env=False) as client:
        async with Agent(client=client, instructions=SLOW).stream("Tell me.") as run:
            async for event in run:
                if event.type == "response.output_text.delta":
                    break
        assert transport.closed == 1
    assert run.result.stopped == "cancelled"
    assert run.result.text.startswith("Once")
