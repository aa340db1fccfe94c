"""MCP servers that fail, lie, or may not be used; and credentials, which nobody gets to see."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Serve
from tests.server.servers import Serving, until
from tests.server.test_hosted_functions import call, script
from tests.server.test_hosted_mcp import SCRIPTED, kinds, remote
from tests.tools.mcp_servers import mcp_server, program_table

TOKEN = "token-5f1e"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server() as address:
        yield address


@pytest.fixture(scope="module")
def server(serve_all: Serve, address: str) -> Serving:
    limits = 'timeout = "30 s"\nbody_limit = "1 MiB"\nlimit = "10 KiB"\n'
    return serve_all(f'{SCRIPTED}[tools.mcp]\nallow = ["{address}/mcp"]\n{limits}' + program_table())


def failed(response: dict[str, Any]) -> dict[str, Any]:
    """The call that failed, in a response that came to its end all the same."""
    assert response["status"] == "completed"
    (called,) = [item for item in response["output"] if item["type"] == "mcp_call"]
    assert called["status"] == "failed"
    assert kinds(response)[-1] == "message"
    return dict(called)


def error_of(response: dict[str, Any]) -> str:
    """Why the list failed, in a response that came to its end all the same."""
    assert response["status"] == "completed"
    assert kinds(response) == ["mcp_list_tools", "message"]
    listed = response["output"][0]
    assert listed["tools"] == []
    return str(listed["error"])


def test_a_tool_that_fails(server: Serving, address: str) -> None:
    said = script([call("w__refuse")], [{"echo": True}])
    response = server.client().create(input=said, tools=[remote(address)])
    error = failed(response)["error"]
    assert error["type"] == "mcp_tool_execution_error"
    assert "not today" in error["content"][0]["text"]
    assert "not today" in response["output"][-1]["content"][0]["text"]


def test_a_tool_that_is_too_slow(serve: Serve, address: str) -> None:
    server = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{address}"]\ntimeout = "1 s"\n')
    said = script([call("w__slow", seconds=60)], [{"echo": True}])
    error = failed(server.client().create(input=said, tools=[remote(address)]))["error"]
    assert (error["type"], error["message"]) == (
        "mcp_protocol_error",
        "the tool did not answer within 1 seconds",
    )


@pytest.mark.parametrize("label", ["w", "prog"])
def test_a_result_that_is_too_large(server: Serving, address: str, label: str) -> None:
    tool = (
        remote(address)
        if label == "w"
        else {"type": "mcp", "server_label": "prog", "require_approval": "never"}
    )
    said = script([call(f"{label}__big", size=100 * 1024 * 1024)], [{"echo": True}])
    error = failed(server.client().create(input=said, tools=[tool]))["error"]
    assert error["message"] == "the server answered with more than the gateway reads"
    # The next response finds the server again.
    said = script([call(f"{label}__big", size=20_000)], [{"echo": True}])
    response = server.client().create(input=said, tools=[tool])
    assert response["output"][1]["status"] == "completed"
    assert response["output"][-1]["content"][0]["text"].endswith("longer than 10,240 bytes]")


def test_a_program_that_says_too_much_runs_on_for_the_others(serve: Serve) -> None:
    """It was ended with every call that anybody had made."""
    server = serve(f'{SCRIPTED}[tools.mcp]\nbody_limit = "100 KiB"\n' + program_table())
    tool = {"type": "mcp", "server_label": "prog", "require_approval": "never"}
    server.client().create(input=script([call("prog__change")], [{"text": "Done."}]), tools=[tool])
    calls = call("prog__big", size=300_000), call("prog__rows", count=9000)
    for said in calls:
        failed(server.client().create(input=script([said], [{"text": "Done."}]), tools=[tool]))
    listed = server.client().create(input=script([{"text": "Done."}]), tools=[tool])["output"][0]
    assert "later" in [one["name"] for one in listed["tools"]]  # as the same process has it


@pytest.mark.parametrize("label", ["w", "prog"])
def test_a_result_that_would_take_long_to_read(server: Serving, address: str, label: str) -> None:
    """A few hundred kilobytes, but of thousands of objects: reading them would hold up everybody else."""
    tool = {"type": "mcp", "server_label": "prog", "require_approval": "never"}
    tool = remote(address) if label == "w" else tool
    said = script([call(f"{label}__rows", count=9000)], [call(f"{label}__rows", count=900)], [{"echo": True}])
    response = server.client().create(input=said, tools=[tool])
    _, refused, taken, _ = response["output"]
    assert refused["error"]["message"] == "the server answered with more than the gateway reads"
    assert taken["output"].count("{,[") == 900


def test_a_program_that_dies_is_started_again(server: Serving) -> None:
    tool = {"type": "mcp", "server_label": "prog", "require_approval": "never"}
    said = script([call("prog__die")], [call("prog__get_weather", city="Rome")], [{"echo": True}])
    response = server.client().create(input=said, tools=[tool])
    assert [item.get("status") for item in response["output"][1:3]] == ["failed", "completed"]
    assert response["output"][-1]["content"][0]["text"] == "18 degrees in Rome"


def test_a_server_that_is_down(serve: Serve) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{unused.getsockname()[1]}"
        server = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{down}"]\n')
        response = server.client().create(input=script([{"text": "Alone."}]), tools=[remote(down)])
        assert error_of(response) == "the server could not be reached"
        said = script([call("w__get_weather", city="Rome")], [{"echo": True}])
        response = server.client().create(input=said, tools=[remote(down)])
    assert failed(response)["error"]["message"] == "the server could not be reached"
    assert failed(response)["name"] == "get_weather"
    assert response["output"][-1]["content"][0]["text"] == "the server could not be reached"


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_that_the_server_lacks_is_a_call_that_failed(
    server: Serving, address: str, stream: bool
) -> None:
    said = script([call("w__nope", city="Rome")], [{"echo": True}])
    request = {"input": said, "tools": [remote(address)]}
    if stream:
        with server.client().listen("/v1/responses", **request, stream=True) as events:
            response = list(events)[-1]["response"]
    else:
        response = server.client().create(**request)
    called = failed(response)
    assert (called["name"], called["server_label"], called["output"]) == ("nope", "w", None)
    assert called["error"]["message"].startswith("the server has no such tool")
    assert response["output"][-1]["content"][0]["text"] == called["error"]["message"]


def test_a_tool_of_the_client_may_have_a_name_like_one_of_a_server(server: Serving, address: str) -> None:
    mine = {"type": "function", "name": "w__nope", "parameters": {"type": "object"}}
    response = server.client().create(input=script([call("w__nope")]), tools=[remote(address), mine])
    assert kinds(response) == ["mcp_list_tools", "function_call"]


listing, left = threading.Event(), threading.Event()


class Liar(BaseHTTPRequestHandler):
    """Answers every message with whatever the path says."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        asked = json.loads(self.rfile.read(length))
        if "id" not in asked:
            self.send_response(202)
            self.end_headers()
            return
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "tools/list" and self.path == "/schema":
            body["result"] = {"tools": [{"name": "bad", "inputSchema": "no schema"}]}
        elif asked["method"] == "tools/list" and self.path == "/many":
            tools = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(600)]
            body["result"] = {"tools": tools}
        elif asked["method"] == "tools/list" and self.path == "/silent":
            listing.set()
            self.connection.recv(1)  # until the gateway closes it
            left.set()
            self.close_connection = True
            return
        elif asked["method"] == "tools/list" and self.path == "/pages":
            body["result"] = {
                "tools": [{"name": "one", "inputSchema": {"type": "object"}}],
                "nextCursor": "again",
            }
        elif self.path == "/broken":
            self._send(b'{"jsonrpc": "2.0", "id": 1, "result": "secret-of-the-server', "application/json")
            return
        elif self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", "http://db.internal:5432/private/path")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        elif self.path == "/words":
            self._send(b"<html>", "text/html")
            return
        elif self.path == "/endless" and asked["method"] == "tools/list":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            note = b'data: {"jsonrpc":"2.0","method":"notifications/x","params":{"p":"%b"}}\n\n' % (
                b"y" * 1000
            )
            try:
                while True:
                    self.wfile.write(note)
            except OSError:
                return
        elif asked["method"] == "initialize":
            body["result"] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "liar", "version": "1"},
            }
        else:
            body["error"] = {"code": -32601, "message": "no such method"}
        self._send(json.dumps(body).encode(), "application/json")

    def do_GET(self) -> None:
        self.send_response(405)
        self.end_headers()

    def do_DELETE(self) -> None:
        self.send_response(405)
        self.end_headers()

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture(scope="module")
def liar() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("path", ["/schema", "/words", "/endless"])
def test_a_server_that_lies(serve: Serve, liar: str, path: str) -> None:
    toml = f'{SCRIPTED}[tools.mcp]\nallow = ["{liar}"]\ntimeout = "5 s"\nbody_limit = "1 MiB"\n'
    response = serve(toml).client().create(input=script([{"text": "Alone."}]), tools=[remote(liar, path)])
    assert error_of(response)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/broken", "the server's answer could not be read"),
        ("/moved", "the server leads to another address, which the gateway does not follow"),
        ("/words", "the server's answer is not of a kind that MCP has"),
    ],
)
@pytest.mark.parametrize("is_configured", [True, False])
def test_an_error_quotes_neither_an_address_nor_an_answer(
    serve: Serve, liar: str, path: str, says: str, is_configured: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    table = f'[tools.mcp.servers.w]\nurl = "{liar}{path}"\n'
    toml = table if is_configured else f'[tools.mcp]\nallow = ["{liar}"]\n'
    tool = {"type": "mcp", "server_label": "w"} if is_configured else remote(liar, path)
    response = serve(SCRIPTED + toml).client().create(input=script([{"text": "Alone."}]), tools=[tool])
    assert error_of(response) == says
    assert "the MCP server 'w' failed: MCPError" in caplog.text
    assert "secret-of-the-server" not in caplog.text
    assert ("redirects to http://db.internal:5432" in caplog.text) == (path == "/moved")
    assert "private" not in caplog.text


def test_a_list_without_an_end_is_read_no_further(serve: Serve, liar: str) -> None:
    toml = f'{SCRIPTED}[tools.mcp]\nallow = ["{liar}"]\ntimeout = "30 s"\n'
    response = serve(toml).client().create(input=script([{"text": "Alone."}]), tools=[remote(liar, "/pages")])
    assert [tool["name"] for tool in response["output"][0]["tools"]] == ["one"]


def test_a_server_is_left_when_its_list_is_not_waited_for_any_more(serve: Serve, liar: str) -> None:
    client = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{liar}"]\ntimeout = "600 s"\n').client()
    made = client.create(input="Hi", tools=[remote(liar, "/silent")], background=True)
    assert listing.wait(60)
    client.ok("POST", f"/v1/responses/{made['id']}/cancel")
    assert left.wait(60)


def test_more_tools_than_a_model_can_be_given_are_not_cut_off_in_silence(serve: Serve, liar: str) -> None:
    client = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{liar}"]\n').client()
    said = script([{"text": "Alone."}])
    assert "`allowed_tools`" in error_of(client.create(input=said, tools=[remote(liar, "/many")]))
    some = remote(liar, "/many", allowed_tools=["t599"])
    assert client.create(input=said, tools=[some])["output"][0]["tools"][0]["name"] == "t599"


def test_a_tool_list_that_changes_between_turns(serve: Serve) -> None:
    server = serve(SCRIPTED + program_table(require_approval='"never"'))
    client, tool = server.client(), {"type": "mcp", "server_label": "prog"}
    said = script([call("prog__change")], [call("prog__get_weather", city="Rome")], [{"text": "Gone."}])
    first = client.create(input=said, tools=[tool])
    assert [item.get("status") for item in first["output"][1:3]] == ["completed", "failed"]
    again = {"previous_response_id": first["id"], "input": '```script\n[{"text": "Hm."}]\n```'}
    assert kinds(client.create(**again, tools=[tool])) == ["message"]
    anew = client.create(**again, tools=[{**tool, "antiphon:refresh": True}])
    assert "later" in [one["name"] for one in anew["output"][0]["tools"]]


# --- who may use what ---------------------------------------------------------------------------------------


def test_a_server_that_is_not_allowed(server: Serving, address: str) -> None:
    for url in ("https://elsewhere.example/mcp", f"{address}/mcpx", f"{address}/other"):
        tool = {"type": "mcp", "server_label": "w", "server_url": url}
        error = server.client().refused(403, "POST", "/v1/responses", json={"input": "Hi", "tools": [tool]})
        assert (error["code"], error["param"]) == ("server_not_allowed", "tools[0].server_url")
    for url in (f"{address}/mcp/../x", f"{address}/mcp/%2e%2e/x", "ftp://h/mcp", "http://u:p@h/mcp"):
        tool = {"type": "mcp", "server_label": "w", "server_url": url}
        error = server.client().refused(400, "POST", "/v1/responses", json={"input": "Hi", "tools": [tool]})
        assert error["param"] == "tools[0].server_url"


def test_a_redirect_out_of_what_is_allowed_is_not_followed(serve: Serve, address: str) -> None:
    server = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{address}/moved"]\n')
    for target in (f"{address}/mcp", "http://127.0.0.1:9/mcp"):
        tools = [remote(address, f"/moved?to={target}")]
        response = server.client().create(input=script([{"text": "Alone."}]), tools=tools)
        assert error_of(response)


def test_without_a_list_only_public_addresses_are_asked(serve: Serve, address: str) -> None:
    server = serve(f"{SCRIPTED}[tools.mcp]\nallow_any = true\n")
    for url in (address, address.replace("127.0.0.1", "localhost")):
        response = server.client().create(input=script([{"text": "Alone."}]), tools=[remote(url)])
        assert error_of(response) == "the server is at, or leads to, an address that the gateway may not use"


def test_without_configuration_the_tool_is_dropped_with_a_receipt(serve: Serve, address: str) -> None:
    server = serve(SCRIPTED)
    client = server.client(X_Antiphon_Receipts="1")
    response = client.create(input=script([{"text": "Alone."}]), tools=[remote(address)])
    assert kinds(response) == ["message"]
    (receipt,) = response["antiphon:receipts"]
    assert (receipt["param"], receipt["action"]) == ("tools[0]", "dropped")


def test_a_label_of_the_gateway_leads_nowhere_else(server: Serving, address: str) -> None:
    tool = {"type": "mcp", "server_label": "prog", "server_url": f"{address}/mcp"}
    error = server.client().refused(403, "POST", "/v1/responses", json={"input": "Hi", "tools": [tool]})
    assert error["param"] == "tools[0].server_url"


def test_a_key_needs_the_label(serve: Serve, address: str) -> None:
    keys = "".join(
        f'[keys.{name}]\nkey_sha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\ntools = {tools}\n'
        for name, tools in (("alice", '["mcp:prog"]'), ("bob", '["mcp"]'))
    )
    server = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{address}"]\n' + program_table() + keys)
    mine, theirs = {"type": "mcp", "server_label": "prog"}, remote(address)
    for key, allowed, refused in (("alice", mine, theirs), ("bob", theirs, mine)):
        client = server.client(key)
        assert client.create(input=script([{"text": "Yes."}]), tools=[allowed])["status"] == "completed"
        body = {"input": "Hi", "tools": [refused]}
        assert client.refused(403, "POST", "/v1/responses", json=body)["code"] == "tool_not_allowed"


# --- credentials --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"authorization": TOKEN}, {"headers": {"Authorization": f"Bearer {TOKEN}"}}])
def test_credentials_reach_the_server_and_nobody_else(
    serve: Serve, how: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with mcp_server(TOKEN) as guarded:
        server = serve(f'{SCRIPTED}[tools.mcp]\nallow = ["{guarded}"]\n')
        client = server.client()
        said = script([call("w__get_weather", city="Rome")], [{"echo": True}])
        request = {"input": said, "tools": [remote(guarded, **how)]}
        plain = client.post("/v1/responses", json=request)
        assert plain.json()["output"][1]["status"] == "completed"
        with client.listen("/v1/responses", **request, stream=True) as stream:
            list(stream)
        made = client.create(**request, background=True)
        path = f"/v1/responses/{made['id']}"
        until(lambda: client.get(path).json()["status"] == "completed")
        wrong = client.create(input=said, tools=[remote(guarded, authorization="token-wrong")])
        assert wrong["output"][0]["error"] == "the server answered with HTTP 401"
        assert wrong["output"][0]["status"] == "failed"
        seen = plain.text + stream.body.decode() + client.get(path).text + caplog.text
    server.stop()
    files = b"".join(file.read_bytes() for file in (tmp_path / "server").rglob("*") if file.is_file())
    assert TOKEN not in seen
    assert TOKEN.encode() not in files


def test_a_token_of_the_operator_wins(serve: Serve) -> None:
    with mcp_server(TOKEN) as guarded:
        table = f'[tools.mcp.servers.w]\nurl = "{guarded}/mcp"\nauthorization = "{TOKEN}"\n'
        server = serve(f"{SCRIPTED}{table}client_headers = true\n")
        tool = {"type": "mcp", "server_label": "w", "require_approval": "never", "authorization": "mine"}
        said = script([call("w__get_weather", city="Rome")], [{"echo": True}])
        assert server.client().create(input=said, tools=[tool])["output"][1]["status"] == "completed"


@pytest.mark.parametrize("label", ["w", "prog"])
@pytest.mark.parametrize("how", [{"authorization": "mine"}, {"headers": {"X-Tenant": "another"}}])
def test_a_server_of_the_gateway_takes_no_credentials_of_a_client(
    serve: Serve, address: str, label: str, how: dict[str, Any]
) -> None:
    table = f'[tools.mcp.servers.w]\nurl = "{address}/mcp"\n' + program_table()
    client = serve(SCRIPTED + table).client()
    tool = {"type": "mcp", "server_label": label, **how}
    error = client.refused(403, "POST", "/v1/responses", json={"input": "Hi", "tools": [tool]})
    (name,) = how
    assert (error["code"], error["param"]) == ("server_not_allowed", f"tools[0].{name}")
    assert f"leave `{name}` out" in error["message"]
    assert "mine" not in error["message"]


def test_a_server_of_the_gateway_takes_a_token_of_the_client_where_that_is_allowed(serve: Serve) -> None:
    with mcp_server(TOKEN) as guarded:
        table = f'[tools.mcp.servers.w]\nurl = "{guarded}/mcp"\nclient_headers = true\n'
        tool = {"type": "mcp", "server_label": "w", "require_approval": "never", "authorization": TOKEN}
        said = script([call("w__get_weather", city="Rome")], [{"echo": True}])
        response = serve(SCRIPTED + table).client().create(input=said, tools=[tool])
    assert response["output"][1]["status"] == "completed"
