"""MCP servers as tools: a real one, started as a subprocess, over standard input and output and over HTTP."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.client.agent import Agent
from antiphon.client.errors import ConnectionFailed, UsageError
from antiphon.client.tools.mcp import MCPServer
from antiphon.spec.content import InputImage
from antiphon.spec.tools import FunctionTool
from antiphon.stream.deltas import Finish
from tests.client.scripted_model import ScriptedModel, call, say
from tests.server.servers import DEADLINE

PROGRAM = Path(__file__).with_name("mcp_program.py")
NAMES = ["get_weather", "files_count", "refuse", "draw", "everything", "die"]


def program() -> MCPServer:
    return MCPServer.stdio(sys.executable, [str(PROGRAM)])


@pytest.fixture
def address() -> Iterator[str]:
    with subprocess.Popen([sys.executable, str(PROGRAM), "http"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


async def test_an_agent_uses_the_tools_of_a_program() -> None:
    calls = [*call("get_weather", '{"city":"Paris"}', "c1"), *call("files_count", "{}", "c2"), Finish()]
    model = ScriptedModel(calls, say("Done."))
    async with program() as server:
        assert server.instructions == "Ask me about the weather."
        assert [tool.name for tool in server.tools] == NAMES
        result = await Agent(client=model, tools=[*server.tools]).run("Q")
    assert result.text == "Done."
    assert [outcome.output for outcome in result.outcomes] == ["18 degrees celsius in Paris", "3"]
    assert server.tools == []
    declared = model.requests[0].tools[0]
    assert isinstance(declared, FunctionTool)
    assert declared.name == "get_weather"
    assert declared.parameters is not None
    assert declared.parameters["required"] == ["city"]


async def test_an_agent_uses_the_tools_of_an_address(address: str) -> None:
    model = ScriptedModel([*call("w_get_weather", '{"city":"Rome","unit":"kelvin"}'), Finish()], say("Done."))
    async with MCPServer.http(address, headers={"X-Test": "1"}, prefix="w_") as server:
        result = await Agent(client=model, tools=server.tools).run("Q")
    assert result.outcomes[0].output == "18 degrees kelvin in Rome"


async def test_what_fails_there_becomes_an_output_here() -> None:
    scene = [*call("refuse"), *call("get_weather", '{"town":1}'), *call("draw"), Finish()]
    model = ScriptedModel(scene, say("Done."))
    async with program() as server:
        result = await Agent(client=model, tools=server.tools).run("Q")
    refused, bad, drawn = result.outcomes
    assert (refused.fault, bad.fault, drawn.fault) == ("tool_failed", "tool_failed", None)
    assert isinstance(refused.output, str)
    assert "not today" in json.loads(refused.output)["error"]["message"]
    assert drawn.output == [InputImage("data:image/gif;base64,R0lGODlh")]


async def test_what_the_model_cannot_be_given_is_said_in_words() -> None:
    model = ScriptedModel([*call("everything"), Finish()], say("Done."))
    async with program() as server:
        result = await Agent(client=model, tools=server.tools).run("Q")
    told = result.outcomes[0].output
    assert isinstance(told, str)
    assert told.split("\n") == [
        "words",
        "[audio, audio/wav]",
        "a link: https://a.example/",
        "a page",
        "[data at file:///b.bin]",
    ]


async def test_a_server_that_dies_in_a_call_does_not_break_the_chain() -> None:
    model = ScriptedModel([*call("die"), Finish()], say("It is gone."))
    async with program() as server:
        result = await asyncio.wait_for(Agent(client=model, tools=server.tools).run("Q"), DEADLINE)
    assert (result.outcomes[0].fault, result.text) == ("tool_failed", "It is gone.")


async def test_an_address_that_dies_in_a_call_does_not_break_the_chain(address: str) -> None:
    model = ScriptedModel([*call("die"), Finish()], [*call("get_weather"), Finish()], say("It is gone."))
    async with MCPServer.http(address) as server:
        result = await asyncio.wait_for(Agent(client=model, tools=server.tools).run("Q"), DEADLINE)
    assert [outcome.fault for outcome in result.outcomes] == ["tool_failed", "tool_failed"]
    assert (result.stopped, result.text) == ("answered", "It is gone.")


async def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mcp", "mcp.client.streamable_http"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"pip install 'antiphon\[mcp\]'"):
        MCPServer.stdio("any")
    with pytest.raises(UsageError, match=r"pip install 'antiphon\[mcp\]'"):
        MCPServer.http("http://127.0.0.1:1/mcp")
    with pytest.raises(UsageError, match=r"pip install 'antiphon\[mcp\]'"):
        async with MCPServer("http://127.0.0.1:1/mcp"):
            pass


async def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(ConnectionFailed, match="server no-such-program-anywhere cannot be used") as caught:
        async with MCPServer.stdio("no-such-program-anywhere"):
            pass
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert caught.value.__cause__.__traceback__ is None
    with pytest.raises(ConnectionFailed, match=r"server at 127\.0\.0\.1 cannot be used") as caught:
        async with MCPServer.http("http://127.0.0.1:9/mcp?token=secret"):
            pass
    assert "secret" not in str(caught.value)
