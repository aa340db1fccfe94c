"""MCP servers behind the gateway, as processes of their own, over every transport."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.wires.tools.names import DeclaredTool, flat_name
from tests.server.conftest import Serve
from tests.server.servers import Serving, until
from tests.server.test_hosted_functions import call, script
from tests.tools.mcp_servers import mcp_server, program_table

SCRIPTED = 'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n'


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server() as address:
        yield address


@pytest.fixture(scope="module")
def server(serve_all: Serve, address: str) -> Serving:
    return serve_all(f'{SCRIPTED}[tools.mcp]\nallow = ["{address}"]\n' + program_table())


def remote(address: str, path: str = "/mcp", **fields: Any) -> dict[str, Any]:
    declared = {"type": "mcp", "server_label": "w", "server_url": f"{address}{path}"}
    return {**declared, "require_approval": "never", **fields}


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_a_call_over_http(server: Serving, address: str, path: str) -> None:
    said = script([call("w__get_weather", city="Rome")], [{"echo": True}])
    response = server.client().create(input=said, tools=[remote(address, path)])
    assert kinds(response) == ["mcp_list_tools", "mcp_call", "message"]
    listed, called, message = response["output"]
    assert "get_weather" in [tool["name"] for tool in listed["tools"]]
    assert (listed["status"], listed["server_label"], listed["error"]) == ("completed", "w", None)
    assert called["output"] == message["content"][0]["text"] == "18 degrees in Rome"
    assert (called["name"], called["status"], called["error"]) == ("get_weather", "completed", None)


def test_a_program_that_the_gateway_runs(server: Serving) -> None:
    said = script([call("prog__get_weather", city="Oslo")], [{"echo": True}])
    mine = {"type": "mcp", "server_label": "prog", "require_approval": "never"}
    response = server.client().create(input=said, tools=[mine])
    assert kinds(response) == ["mcp_list_tools", "mcp_call", "message"]
    assert response["output"][2]["content"][0]["text"] == "18 degrees in Oslo"


def test_a_program_gets_only_the_environment_that_its_table_names(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_GATEWAY", "s")
    monkeypatch.setenv("NAMED", "n")
    table = program_table(env='{ OWN = "value" }', pass_env='["NAMED"]', require_approval='"never"')
    said = script([call("prog__environment")], [{"echo": True}])
    tools = [{"type": "mcp", "server_label": "prog"}]
    response = serve(SCRIPTED + table).client().create(input=said, tools=tools)
    names = set(response["output"][1]["output"].split())
    assert {"OWN", "NAMED"} <= names
    assert not names & {"SECRET_OF_THE_GATEWAY", "HOME", "PATH"}


def test_the_events_of_a_list_and_a_call(server: Serving, address: str) -> None:
    said = script([call("w__get_weather", city="Rome")], [{"text": "Warm."}])
    request = {"input": said, "tools": [remote(address)], "stream": True}
    with server.client().listen("/v1/responses", **request) as stream:
        events = [event for event in stream if event.get("output_index") in (0, 1)]
    assert [event["type"].removeprefix("response.") for event in events] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    assert {event["item_id"] for event in events[5:9]} == {events[4]["item"]["id"]}


def test_a_call_runs_once_the_client_has_approved_it(server: Serving, address: str, tmp_path: Path) -> None:
    client, file = server.client(), tmp_path / "lines"
    tools = [remote(address, require_approval="always")]
    said = script([call("w__append", path=str(file), line="one")], [{"echo": True}], [{"text": "Fine."}])
    first = client.create(input=said, tools=tools)
    assert (first["status"], kinds(first)) == ("completed", ["mcp_list_tools", "mcp_approval_request"])
    asked = first["output"][1]
    assert (asked["status"], asked["name"], asked["server_label"]) == ("completed", "append", "w")
    assert not file.exists()
    answer = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
    follow = {"previous_response_id": first["id"], "input": [answer], "tools": tools}
    unclear = {**follow, "input": [{"role": "user", "content": "Go on."}, {**answer, "approve": "yes"}]}
    error = client.refused(400, "POST", "/v1/responses", json=unclear)
    assert error["param"] == "input[1].approve"
    second = client.create(**follow)
    assert kinds(second) == ["mcp_call", "message"]
    assert second["output"][0]["approval_request_id"] == asked["id"]
    assert second["output"][1]["content"][0]["text"] == "written"
    assert file.read_text() == "one\n"
    error = client.refused(400, "POST", "/v1/responses", json=follow)
    assert (error["code"], error["param"]) == ("approval_not_valid", "input[0]")
    assert file.read_text() == "one\n"


@pytest.mark.parametrize("label", ["w", "prog"])
def test_whoever_goes_away_ends_the_call_at_the_server(
    server: Serving, address: str, tmp_path: Path, label: str
) -> None:
    note = tmp_path / "note"
    mine = {"type": "mcp", "server_label": "prog", "require_approval": "never"}
    said = script([call(f"{label}__slow", seconds=300, path=str(note))])
    request = {"input": said, "tools": [remote(address) if label == "w" else mine], "stream": True}
    with server.client().listen("/v1/responses", **request) as stream:
        stream.until("response.mcp_call.in_progress")
        until(lambda: note.exists() and note.read_text())
    until(lambda: note.read_text() == "cancelled")


FORGED = "q\nWARNING forged"


def test_a_tool_that_only_a_list_of_the_client_has_does_not_reach_the_server(
    server: Serving, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in (FORGED, "get_weather")]
    listed = {"type": "mcp_list_tools", "id": "m", "server_label": "w", "tools": tools}
    forged = flat_name(DeclaredTool(f"w__{FORGED}"))
    calls = {"calls": [call(forged), call("w__get_weather", city="Rome")]}
    said = {"role": "user", "content": script([calls], [{"text": "Fine."}])}
    response = server.client().create(input=[listed, said], tools=[remote(address)])
    assert kinds(response) == ["mcp_call", "mcp_call", "message"]
    first, second, _ = response["output"]
    assert (first["name"], first["status"]) == (FORGED, "failed")
    assert first["error"]["message"].startswith("the server has no such tool")
    assert (second["status"], second["output"]) == ("completed", "18 degrees in Rome")
    assert "forged" not in caplog.text


def test_nothing_that_the_mcp_package_logs_is_written(server: Serving, address: str) -> None:
    said = script([call("w__get_weather", city="Rome")], [{"text": "Fine."}])
    server.client().create(input=said, tools=[remote(address)])
    for name in ("client", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher", "httpx2"):
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)
