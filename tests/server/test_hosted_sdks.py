"""Each hosted tool, driven by the unmodified `openai` and `openai-agents` packages over every transport."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agents import (
    Agent,
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    RunConfig,
    Runner,
    Tool,
    WebSearchTool,
)
from openai import AsyncOpenAI, OpenAI

from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving
from tests.server.test_code_interpreter import TOOL as CODE_INTERPRETER
from tests.server.test_code_interpreter import code, script
from tests.server.test_file_search import CATS, filled, searching
from tests.server.test_files import sdk
from tests.server.test_hosted_functions import FUNCTIONS, call, hosted
from tests.server.test_hosted_openai_sdk import DIALECT, EVENT, ITEM, mcp, strictly
from tests.server.test_hosted_web_search import TOOL as WEB_SEARCH
from tests.server.test_hosted_web_search import configured, search
from tests.server.test_openai_sdk import legacy
from tests.tools.mcp_servers import mcp_server
from tests.tools.search_servers import web_of_pages

QUIET = RunConfig(tracing_disabled=True)
WAYS = ["plain", "streamed", "helper", "websocket"]


class Case(NamedTuple):
    """What the model calls, what that adds to the response, and a part of what the model reads then."""

    turn: dict[str, Any]
    items: list[str]
    event: str
    result: str


CASES = {
    "mcp": Case(
        call("w__get_weather", city="Rome"),
        ["mcp_list_tools", "mcp_call"],
        "response.mcp_call.completed",
        "18 degrees in Rome",
    ),
    "web_search": Case(
        search("bridge"), ["web_search_call"], "response.web_search_call.completed", "It is 244 metres long."
    ),
    "file_search": Case(
        call("file_search", query="cats"), ["file_search_call"], "response.file_search_call.completed", CATS
    ),
    "code_interpreter": Case(
        code("6 * 7"), ["code_interpreter_call"], "response.code_interpreter_call.completed", "42"
    ),
    "antiphon:function": Case(
        call("add", a=1, b=2), ["antiphon:function_call"], "response.output_item.done", "3"
    ),
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server() as address:
        yield address


@pytest.fixture(scope="module")
def server(serve_all: Serve, address: str) -> Iterator[Serving]:
    """A gateway with all five tools."""
    with web_of_pages() as web:
        web.find("/bridge", "The bridge", "It is 244 metres long.")
        yield serve_all(f'{configured(web)}[tools.mcp]\nallow = ["{address}"]\n{FUNCTIONS}')


@pytest.fixture
def client(server: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = f"{server.url}/v1"
    with OpenAI(base_url=url, api_key="sk", max_retries=0, timeout=DEADLINE, default_headers=DIALECT) as one:
        yield one


@pytest.fixture(scope="module")
def tools(server: Serving, address: str) -> dict[str, Any]:
    """The declaration of each tool."""
    with sdk(server) as client:
        store = filled(client, cats=CATS)
    return {
        "mcp": mcp(address),
        "web_search": WEB_SEARCH,
        "file_search": searching(store.id),
        "code_interpreter": CODE_INTERPRETER,
        "antiphon:function": hosted("add")[0],
    }


# --- openai -----------------------------------------------------------------------------------------------


def answered(client: OpenAI, way: str, **request: Any) -> tuple[Any, list[Any]]:
    """The response, and the events that came before it, if any."""
    if way == "plain":
        return client.responses.create(model="s/m", **request), []
    if way == "helper":
        with client.responses.stream(model="s/m", **request) as stream:
            events: list[Any] = list(stream)
            return stream.get_final_response(), events
    if way == "streamed":
        events = list(client.responses.create(model="s/m", stream=True, **request))
        return events[-1].response, events
    events = []
    with client.responses.connect() as connection:
        connection.response.create(model="s/m", **request)
        while not events or events[-1].type != "response.completed":
            events.append(connection.recv())
            assert events[-1].type not in ("error", "response.failed", "response.incomplete"), events[-1]
    return events[-1].response, events


@legacy
@pytest.mark.filterwarnings("ignore:(?s)Pydantic serializer warnings.*antiphon.function:UserWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_openais_client_uses_a_tool(client: OpenAI, tools: dict[str, Any], name: str, way: str) -> None:
    case = CASES[name]
    said = script([case.turn], [{"echo": True}])
    response, events = answered(client, way, input=said, tools=[tools[name]])
    assert [item.type for item in response.output] == [*case.items, "message"]
    assert case.result in response.output_text
    if way != "plain":
        assert case.event in [event.type for event in events]
    if name == "antiphon:function":  # not among the package's types
        assert response.output[0].to_dict()["output"] == case.result
        return
    for item in response.output:
        strictly(ITEM, item)
    if way != "helper":  # its events are of types of its own
        for event in events:
            strictly(EVENT, event)


@legacy
@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_openais_client_approves(
    client: OpenAI, address: str, tmp_path: Path, way: str, approve: bool
) -> None:
    file, declared = tmp_path / "lines", [mcp(address, "always")]
    said = script([call("w__append", path=str(file), line="one")], [{"echo": True}])
    first, _ = answered(client, way, input=said, tools=declared)
    asked = strictly(ITEM, first.output[-1])
    assert (asked.type, asked.name) == ("mcp_approval_request", "append")
    decided = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": approve}
    second, _ = answered(client, way, input=[decided], tools=declared, previous_response_id=first.id)
    assert file.exists() is approve
    assert ("written" in second.output_text) is approve


# --- openai-agents ----------------------------------------------------------------------------------------


@pytest.fixture(params=[OpenAIResponsesModel, OpenAIResponsesWSModel], ids=["http", "websocket"])
async def model(
    request: pytest.FixtureRequest, server: Serving, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Any]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="sk", max_retries=0, timeout=DEADLINE, default_headers=DIALECT
    ) as one:
        model = request.param(model="s/m", openai_client=one)
        yield model
        await model.close()


async def run(agent: Agent[Any], said: Any, streamed: bool) -> Any:
    if not streamed:
        return await Runner.run(agent, said, run_config=QUIET)
    running = Runner.run_streamed(agent, said, run_config=QUIET)
    told = [event.item async for event in running.stream_events() if event.type == "run_item_stream_event"]
    assert told == running.new_items
    return running


def as_agents_have_it(declared: Any) -> Tool:
    match declared["type"]:
        case "mcp":
            return HostedMCPTool(tool_config=declared)
        case "web_search":
            return WebSearchTool()
        case "file_search":
            return FileSearchTool(declared["vector_store_ids"], include_search_results=True)
        case _:  # also what the package has no class for: this one sends any declaration as it is
            return CodeInterpreterTool(tool_config=declared)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", CASES)
async def test_an_agent_uses_a_tool(model: Any, tools: dict[str, Any], name: str, streamed: bool) -> None:
    """And goes on from there: the package keeps the conversation itself, and sends every item back."""
    case = CASES[name]
    agent = Agent(name="a", model=model, tools=[as_agents_have_it(tools[name])])
    first = await run(agent, script([case.turn], [{"echo": True}]), streamed)
    (response,) = first.raw_responses
    assert [item.type for item in response.output] == [*case.items, "message"]
    assert case.result in first.final_output
    if name != "antiphon:function":  # which the package takes for a message
        assert "tool_call_item" in [item.type for item in first.new_items]
    more = {"role": "user", "content": script([{"text": "Done."}], first=3)}
    assert (await run(agent, [*first.to_input_list(), more], streamed)).final_output == "Done."


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_an_agent_approves(
    model: Any, address: str, tmp_path: Path, streamed: bool, approve: bool
) -> None:
    file, asked = tmp_path / "lines", []

    def decide(request: Any) -> Any:
        asked.append(request.data.name)
        return {"approve": approve, "reason": "because"}

    tool = HostedMCPTool(tool_config=mcp(address, "always"), on_approval_request=decide)
    said = script([call("w__append", path=str(file), line="one")], [{"echo": True}])
    result = await run(Agent(name="a", model=model, tools=[tool]), said, streamed)
    assert asked == ["append"]
    assert file.exists() is approve
    assert ("written" in result.final_output) is approve
