"""The unmodified `openai` package drives hosted tools: items and events are those of its own types."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from openai.types import responses as types
from pydantic import TypeAdapter
from websockets.sync.client import connect

from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving
from tests.server.test_hosted_functions import call, script
from tests.server.test_hosted_mcp import SCRIPTED
from tests.tools.mcp_servers import mcp_server

ITEM: TypeAdapter[Any] = TypeAdapter(types.ResponseOutputItem)
EVENT: TypeAdapter[Any] = TypeAdapter(types.ResponseStreamEvent)
DIALECT = {"X-Antiphon-Dialect": "openai"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server() as address:
        yield address


@pytest.fixture(scope="module")
def server(serve_all: Serve, address: str) -> Serving:
    return serve_all(f'{SCRIPTED}[tools.mcp]\nallow = ["{address}"]\n')


@pytest.fixture
def client(server: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = f"{server.url}/v1"
    with OpenAI(base_url=url, api_key="sk", max_retries=0, timeout=DEADLINE, default_headers=DIALECT) as one:
        yield one


def mcp(address: str, approval: Any = "never") -> Any:
    return {
        "type": "mcp",
        "server_label": "w",
        "server_url": f"{address}/mcp",
        "allowed_tools": ["get_weather", "append", "refuse"],
        "require_approval": approval,
    }


def strictly(adapter: TypeAdapter[Any], value: Any) -> Any:
    """The value as the package's own type: what the type requires is there, and of the right kind."""
    return adapter.validate_json(value.to_json() if hasattr(value, "to_json") else json.dumps(value))


def test_a_response_is_made_of_the_packages_types(client: OpenAI, address: str) -> None:
    turn = {"calls": [call("w__get_weather", city="Rome"), call("w__refuse")]}
    said = script([turn], [{"text": "Warm."}])
    response = client.responses.create(model="s/m", input=said, tools=[mcp(address)])
    listed, called, failed, message = [strictly(ITEM, item) for item in response.output]
    assert isinstance(listed, types.response_output_item.McpListTools)
    assert {tool.name for tool in listed.tools} == {"get_weather", "append", "refuse"}
    assert isinstance(called, types.response_output_item.McpCall)
    assert (called.output, called.error, called.status) == ("18 degrees in Rome", None, "completed")
    assert failed.error is not None
    assert failed.error.type == "mcp_tool_execution_error"
    assert message.content[0].text == response.output_text == "Warm."


def test_a_stream_is_made_of_the_packages_types(client: OpenAI, address: str) -> None:
    said = script([call("w__get_weather", city="Rome")], [{"text": "Warm."}])
    stream = client.responses.create(model="s/m", input=said, tools=[mcp(address)], stream=True)
    events = [strictly(EVENT, event) for event in stream]
    kinds = [type(event).__name__ for event in events]
    for name in (
        "ResponseMcpListToolsInProgressEvent",
        "ResponseMcpListToolsCompletedEvent",
        "ResponseMcpCallInProgressEvent",
        "ResponseMcpCallArgumentsDeltaEvent",
        "ResponseMcpCallArgumentsDoneEvent",
        "ResponseMcpCallCompletedEvent",
    ):
        assert name in kinds
    assert events[-1].response.output_text == "Warm."


@pytest.mark.parametrize("store", [True, False])
def test_a_human_approves(client: OpenAI, address: str, tmp_path: Path, store: bool) -> None:
    file = tmp_path / "lines"
    tools = [mcp(address, {"never": {"tool_names": ["get_weather"]}})]
    said = script([call("w__append", path=str(file), line="one")], [{"echo": True}])
    first = client.responses.create(model="s/m", input=said, tools=tools, store=store)
    asked = strictly(ITEM, first.output[-1])
    assert isinstance(asked, types.response_output_item.McpApprovalRequest)
    answer: Any = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
    history: Any = [{"role": "user", "content": said}, *(item.to_dict() for item in first.output), answer]
    more: Any = {"input": [answer], "previous_response_id": first.id} if store else {"input": history}
    forged: Any = [{**item, "arguments": "{}"} if item.get("id") == asked.id else item for item in history]
    if not store:
        with pytest.raises(Exception, match="cannot be used"):
            client.responses.create(model="s/m", tools=tools, store=False, input=forged)
    second = client.responses.create(model="s/m", tools=tools, store=store, **more)
    called = strictly(ITEM, second.output[0])
    assert (called.type, called.approval_request_id) == ("mcp_call", asked.id)
    assert second.output_text == "written"
    assert file.read_text() == "one\n"


def test_a_human_denies(client: OpenAI, address: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    tools = [mcp(address, "always")]
    said = script([call("w__append", path=str(file), line="one")], [{"echo": True}])
    first = client.responses.create(model="s/m", input=said, tools=tools)
    answer: Any = {
        "type": "mcp_approval_response",
        "approval_request_id": first.output[-1].id,
        "approve": False,
        "reason": "not on a Sunday",
    }
    second = client.responses.create(model="s/m", tools=tools, input=[answer], previous_response_id=first.id)
    assert second.output_text.startswith("The user has not approved this call")
    assert "not on a Sunday" in second.output_text
    yes: Any = {**answer, "approve": True}
    with pytest.raises(Exception, match="cannot be used"):
        client.responses.create(model="s/m", tools=tools, input=[yes], previous_response_id=first.id)
    assert not file.exists()


def test_the_same_over_a_websocket(server: Serving, address: str) -> None:
    said = script([call("w__get_weather", city="Rome")], [{"text": "Warm."}])
    url = server.url.replace("http", "ws", 1) + "/v1/responses"
    with connect(url, additional_headers=DIALECT, proxy=None) as socket:
        request = {"type": "response.create", "model": "s/m", "input": said, "tools": [mcp(address)]}
        socket.send(json.dumps(request))
        events: list[Any] = []
        while not events or events[-1]["type"] != "response.completed":
            events.append(json.loads(socket.recv(DEADLINE)))
    kinds = [strictly(EVENT, event).type for event in events]
    assert "response.mcp_call.completed" in kinds
    assert [item["type"] for item in events[-1]["response"]["output"]][:2] == ["mcp_list_tools", "mcp_call"]
