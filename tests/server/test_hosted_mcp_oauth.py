"""A configured MCP server behind OAuth: the gateway gets a token, and a new one when the server wants one."""

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.server.conftest import Serve
from tests.server.test_hosted_functions import call, script
from tests.server.test_hosted_mcp import SCRIPTED

SECRET = "secret-77"


class Protected(ThreadingHTTPServer):
    """An MCP server and its authorization server; a token can be taken back."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.issued: list[str] = []
        self.grants: list[str] = []
        self.prefix = "token-"
        self.repeats = False
        """Does the tool give back the token that it was called with?"""
        self.refuses = False
        self.seconds = 3600
        """For how long a token holds."""


class Handler(BaseHTTPRequestHandler):
    server: Protected

    def do_GET(self) -> None:
        url = self.server.url
        if self.path.startswith("/.well-known/oauth-protected-resource"):
            self._send(200, {"resource": f"{url}/mcp", "authorization_servers": [url]})
        elif self.path.startswith("/.well-known/oauth-authorization-server"):
            self._send(
                200,
                {
                    "issuer": url,
                    "authorization_endpoint": f"{url}/authorize",
                    "token_endpoint": f"{url}/token",
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["client_credentials"],
                    "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                },
            )
        else:
            self._send(405, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path == "/token":
            self._token(parse_qs(body.decode()))
        elif self.headers["Authorization"] != f"Bearer {(self.server.issued or ['none'])[-1]}":
            self.send_response(401)
            place = f"{self.server.url}/.well-known/oauth-protected-resource"
            self.send_header("WWW-Authenticate", f'Bearer resource_metadata="{place}"')
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._message(json.loads(body))

    def _token(self, asked: dict[str, list[str]]) -> None:
        given = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if self.server.refuses or given != f"gateway:{SECRET}":
            self._send(401, {"error": "invalid_client"})
            return
        self.server.grants += asked["grant_type"]
        self.server.issued.append(f"{self.server.prefix}{len(self.server.issued)}")
        token = {"access_token": self.server.issued[-1], "expires_in": self.server.seconds}
        self._send(200, {**token, "token_type": "Bearer", "refresh_token": "refresh-me"})

    def _message(self, asked: dict[str, Any]) -> None:
        said = self.headers["Authorization"] if self.server.repeats else "the gateway"
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": said}]},
        }
        if "id" not in asked:
            self._send(202, {})
        elif asked["method"] in results:
            self._send(200, {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]})
        else:
            error = {"code": -32601, "message": "no such method"}
            self._send(200, {"jsonrpc": "2.0", "id": asked["id"], "error": error})

    def do_DELETE(self) -> None:
        self._send(405, {})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture
def protected() -> Iterator[Protected]:
    with Protected() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_token_is_got_kept_and_replaced(serve: Serve, protected: Protected) -> None:
    toml = (
        f'{SCRIPTED}[tools.mcp.servers.p]\nurl = "{protected.url}/mcp"\nrequire_approval = "never"\n'
        f'oauth = {{ client_id = "gateway", client_secret = "{SECRET}", issuer = "{protected.url}" }}\n'
    )
    client = serve(toml).client()
    said = script([call("p__whoami")], [{"echo": True}])
    request = {"input": said, "tools": [{"type": "mcp", "server_label": "p"}]}
    for _ in range(2):
        assert client.create(**request)["output"][-1]["content"][0]["text"] == "the gateway"
    assert protected.issued == ["token-0"]
    protected.issued.append("token-that-nobody-has")
    assert client.create(**request)["output"][1]["status"] == "completed"
    assert set(protected.grants) <= {"client_credentials", "refresh_token"}
    protected.issued.append("again")
    protected.refuses = True
    refused = client.create(input=script([{"text": "Alone."}]), tools=request["tools"])
    listed = refused["output"][0]
    assert (refused["status"], listed["tools"]) == ("completed", [])
    assert listed["error"]
    assert SECRET not in json.dumps(refused)


def test_a_token_that_the_gateway_got_is_shown_to_no_client(serve: Serve, protected: Protected) -> None:
    protected.prefix, protected.repeats = "token-from-the-server-", True
    toml = (
        f'{SCRIPTED}[tools.mcp.servers.p]\nurl = "{protected.url}/mcp"\nrequire_approval = "never"\n'
        f'oauth = {{ client_id = "gateway", client_secret = "{SECRET}", issuer = "{protected.url}" }}\n'
    )
    request = {
        "input": script([call("p__whoami")], [{"echo": True}]),
        "tools": [{"type": "mcp", "server_label": "p"}],
    }
    response = serve(toml).client().create(**request)
    assert response["output"][1]["output"] == "Bearer ********"
    assert "token-from-the-server-" not in json.dumps(response)


def test_a_token_that_expires_in_the_middle_is_renewed(serve: Serve, protected: Protected) -> None:
    """Each token holds for no time at all, so that every message needs another one."""
    protected.seconds = -60
    toml = (
        f'{SCRIPTED}[tools.mcp.servers.p]\nurl = "{protected.url}/mcp"\nrequire_approval = "never"\n'
        f'oauth = {{ client_id = "gateway", client_secret = "{SECRET}", issuer = "{protected.url}" }}\n'
    )
    said = script([call("p__whoami")], [call("p__whoami")], [{"echo": True}])
    request = {"input": said, "tools": [{"type": "mcp", "server_label": "p"}]}
    response = serve(toml).client().create(**request)
    assert [item["status"] for item in response["output"][1:]] == ["completed"] * 3
    assert set(protected.grants) == {"client_credentials", "refresh_token"}
