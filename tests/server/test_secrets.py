"""A server that repeats the gateway's secrets: no client sees them, and no log."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server.conftest import Serve, Spawn
from tests.server.servers import Serving, until
from tests.server.test_hosted_functions import FUNCTIONS, call, hosted, script
from tests.server.test_hosted_mcp import SCRIPTED, remote
from tests.server.upstream import Upstream
from tests.tools.mcp_servers import mcp_server, program_table

TOKEN = "token-of-the-gateway-77"
OWN = "token-of-the-client-99"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server(TOKEN) as address:
        yield address


@pytest.fixture(scope="module")
def open_address() -> Iterator[str]:
    with mcp_server() as address:
        yield address


@pytest.fixture(scope="module")
def server(serve_all: Serve, address: str, open_address: str) -> Serving:
    crm = f'[tools.mcp.servers.crm]\nurl = "{address}/mcp"\nauthorization = "{TOKEN}"\n'
    allow = f'[tools.mcp]\nallow = ["{open_address}"]\n'
    return serve_all(SCRIPTED + allow + program_table(env=f'{{ SECRET = "{TOKEN}" }}') + crm)


def configured(label: str, **fields: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": label, "require_approval": "never", **fields}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("label", "variable"), [("prog", "SECRET"), ("crm", "AUTHORIZATION")])
def test_a_result_of_an_mcp_server_does_not_show_its_token(
    server: Serving, label: str, variable: str, fails: bool
) -> None:
    said = script([call(f"{label}__repeat", variable=variable, fails=fails)], [{"echo": True}])
    response = server.client().create(input=said, tools=[configured(label)])
    listed, called, message = response["output"]
    assert (listed["error"], called["status"]) == (None, "failed" if fails else "completed")
    assert "********" in json.dumps(called["error"] if fails else called["output"])
    assert "********" in message["content"][0]["text"]
    assert TOKEN not in json.dumps(response)
    client = server.client()
    assert TOKEN not in json.dumps(client.get(f"/v1/responses/{response['id']}").json())


def test_a_token_that_a_request_brings_does_not_come_back(server: Serving, open_address: str) -> None:
    said = script([call("w__repeat", variable="AUTHORIZATION")], [{"text": "Done."}])
    declared = remote(open_address, authorization=OWN)
    response = server.client().create(input=said, tools=[declared])
    assert response["output"][1]["output"] == "got Bearer ********"


def test_a_result_of_a_function_shows_no_secret_and_an_answer_is_left_alone(serve: Serve) -> None:
    key = 'api_key = "key-of-the-other-one"'
    other = f'[providers.other]\ntype = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n{key}\n'
    client = serve(SCRIPTED + FUNCTIONS + other).client()
    text = "key-of-the-other-one"
    said = script([call("shout", text=text, times=2)], [{"text": text}])
    _, message = (response := client.create(input=said, tools=hosted("shout")))["output"]
    assert response["output"][0]["output"] == "********" * 2
    assert message["content"][0]["text"] == text


def test_the_log_shows_no_secret(spawn: Spawn) -> None:
    name = "PROVIDERS__OTHER__"
    given = {f"{name}TYPE": "openai", f"{name}API_KEY": TOKEN}
    server = spawn(**given)
    server.client().get(f"/v1/{TOKEN}")
    until(lambda: "unknown_path" in server.log())
    assert "/v1/********" in server.log()
    assert TOKEN not in server.log()


@pytest.mark.parametrize("name", ["connector_id", "tunnel_id"])
def test_another_way_to_a_configured_server_is_refused(server: Serving, name: str) -> None:
    asked = {"input": "hi", "tools": [configured("prog", **{name: "connector_dropbox"})]}
    error = server.client().refused(400, "POST", "/v1/responses", json=asked)
    assert error["param"] == f"tools[0].{name}"
    assert "leave `" in error["message"]


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_an_upstream_that_repeats_the_key_or_a_header_does_not_show_it(
    serve: Serve, upstream: Upstream, status: int
) -> None:
    keys = f'api_key = "{TOKEN}"\nheaders = {{ X-Team = "{OWN}" }}\n'
    asking = serve(upstream.toml.replace("[models]", f"{keys}[models]")).client()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(asking.post, "/v1/responses", json={"input": "hi"})
        upstream.next().refuse(status, f"neither {TOKEN} nor {OWN} may do that")
        said = asked.result().text
    assert "neither ******** nor ********" in said
    assert TOKEN not in said
    assert OWN not in said
