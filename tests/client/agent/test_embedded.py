"""The agent with the embedded model: a forced call, run, answered, over every way to ask."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.client import Agent, AsyncClient, MCPServer, Timeouts
from antiphon.client.agent.model import AgentClient
from antiphon.client.tools import Tool, tool
from antiphon.spec.items import type_of
from antiphon.spec.request import Request
from antiphon.spec.tools import FunctionToolChoice
from tests.server.servers import Serving, configure

pytestmark = pytest.mark.embedded

SLOW = Timeouts(read=120, idle=120)
PROGRAM = Path(__file__).parents[1] / "tools" / "mcp_program.py"


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return "18 degrees and sunny"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("embedded"), LOCAL__ENABLED="true")) as serving:
        yield serving


@asynccontextmanager
async def asked(how: str, server: Serving, folder: Path) -> AsyncIterator[AgentClient]:
    if how == "local":
        config = folder / "antiphon.toml"
        config.write_text(f'[store]\npath = "{folder / "data"}"\n[local]\nthreads = 1\n', encoding="utf-8")
        async with AsyncClient(transport="local", config=config, timeouts=SLOW) as client:
            yield client
        return
    async with AsyncClient(f"{server.url}/v1", timeouts=SLOW, trust_env=False) as client:
        if how == "http":
            yield client
        else:
            async with client.session() as session:
                yield session


async def run_forced(client: AgentClient, one: Tool) -> None:
    request = Request(
        tool_choice=FunctionToolChoice(one.name), parallel_tool_calls=False, max_output_tokens=48
    )
    agent = Agent(tools=[one], client=client, request=request)
    result = await agent.run("What is the weather like in Paris?")
    assert result.stopped in ("answered", "incomplete")
    assert [type_of(item) for item in result.items[:3]] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    (outcome, *_) = result.outcomes
    assert outcome.call.name == one.name
    assert outcome.fault is None
    assert "city" in json.loads(outcome.call.arguments)
    assert result.text
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("how", ["http", "websocket", "local"])
async def test_a_forced_call_is_run_and_answered(how: str, server: Serving, tmp_path: Path) -> None:
    async with asked(how, server, tmp_path) as client:
        await run_forced(client, get_weather)


async def test_a_tool_of_an_mcp_server_is_run_and_answered(server: Serving, tmp_path: Path) -> None:
    async with (
        asked("http", server, tmp_path) as client,
        MCPServer.stdio(sys.executable, [str(PROGRAM)]) as mcp,
    ):
        await run_forced(client, mcp.tools[0])
