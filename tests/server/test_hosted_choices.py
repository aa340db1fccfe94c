"""A choice of tools where the hosted ones cannot be used: the model answers without them."""

from typing import Any

import pytest

from tests.server.conftest import Serve
from tests.server.test_hosted_functions import MINE, SCRIPTED, call, script

WEB = {"type": "web_search"}
DOWN = {"type": "mcp", "server_label": "down", "require_approval": "never"}
TABLE = '[tools.mcp.servers.down]\nurl = "http://127.0.0.1:9/mcp"\n'


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [*tools]}


@pytest.mark.parametrize("tool", [WEB, DOWN])
@pytest.mark.parametrize("how", ["required", "named", "allowed"])
def test_what_cannot_be_called_is_not_required(serve: Serve, tool: dict[str, Any], how: str) -> None:
    named = {name: value for name, value in tool.items() if name in ("type", "server_label")}
    choice = {"required": "required", "named": named, "allowed": allowed("required", named)}[how]
    request = {"input": script([{"text": "Without."}]), "tools": [tool], "tool_choice": choice}
    response = serve(SCRIPTED + TABLE).client(X_Antiphon_Receipts="1").create(**request)
    assert response["status"] == "completed"
    assert response["output"][-1]["content"][0]["text"] == "Without."
    if tool is WEB:
        assert response["antiphon:receipts"][0]["param"] == "tools[0]"


def test_a_call_of_the_client_is_still_required(serve: Serve) -> None:
    client = serve(SCRIPTED).client()
    request = {"input": script([{"text": "Without."}]), "tools": [WEB, MINE]}
    mine = {"type": "function", "name": "mine"}
    for choice in ("required", mine, allowed("required", WEB, mine)):
        error = client.refused(500, "POST", "/v1/responses", json={**request, "tool_choice": choice})
        assert error["code"] == "tool_call_required"


def test_a_tool_that_was_not_allowed_is_not_called_instead(serve: Serve) -> None:
    said = script([call("mine"), {"text": "Without."}])
    request = {"input": said, "tools": [WEB, MINE], "tool_choice": allowed("required", WEB)}
    response = serve(SCRIPTED).client().create(**request)
    assert [item["type"] for item in response["output"]] == ["message"]


def test_a_server_that_the_request_does_not_name_cannot_be_chosen(serve: Serve) -> None:
    client = serve(SCRIPTED + TABLE).client()
    other = {"type": "mcp", "server_label": "other"}
    request = {"input": script([{"text": "No."}]), "tools": [DOWN]}
    for choice, place in (
        (other, "tool_choice.server_label"),
        (allowed("auto", DOWN, other), "tool_choice.tools[1].server_label"),
    ):
        error = client.refused(400, "POST", "/v1/responses", json={**request, "tool_choice": choice})
        assert (error["param"], error["message"]) == (place, "there is no MCP server 'other' in `tools`")
