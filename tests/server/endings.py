"""How one request ends over each transport, and what a server still holds afterwards."""

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx
from websockets.sync.client import ClientConnection, connect

from antiphon.store import SqliteStore
from tests.server.servers import DEADLINE, Client, Listening, Serving, until

Json = dict[str, Any]


TERMINAL: Final = ("response.completed", "response.failed", "response.incomplete")


class Server(Protocol):
    """Any server of which the address is known."""

    url: str


@dataclass(frozen=True)
class Outcome:
    """An error before there was a response, or a response that has ended."""

    status: int
    error: Json | None = None
    response: Json | None = None

    @property
    def code(self) -> str | None:
        error = self.error or (self.response or {}).get("error") or {}
        return error.get("code")

    @property
    def text(self) -> str:
        items = (self.response or {}).get("output", [])
        return "".join(part["text"] for item in items for part in item.get("content", []))


def over_json(server: Server, **request: Any) -> Outcome:
    with Client(server.url) as client:
        answer = client.post("/v1/responses", json=request)
    return Outcome(200, response=answer.json()) if answer.status_code == 200 else _refused(answer)


def over_sse(server: Server, **request: Any) -> Outcome:
    """Checks the end: one terminal event, after `error` if it failed, and `[DONE]`."""
    body = {**request, "stream": True}
    with Client(server.url) as client, client.stream("POST", "/v1/responses", json=body) as answer:
        if answer.status_code != 200:
            answer.read()
            return _refused(answer)
        stream = Listening(answer)
        events = list(stream)
    assert stream.done, "no [DONE]"
    return _ended(events, error_event=True)


def over_websocket(server: Server, **request: Any) -> Outcome:
    """Checks the end: one envelope alone, or one terminal event and no envelope."""
    with dial(server) as connection:
        events = turn(connection, **request)
    if events[-1]["type"] == "error":
        assert len(events) == 1, "an envelope after the response began"
        return Outcome(events[0]["status"], error=events[0]["error"])
    return _ended(events, error_event=False)


def turn(connection: ClientConnection, **request: Any) -> list[Json]:
    """Everything up to the message that ends the turn."""
    connection.send(json.dumps({"type": "response.create", **request}))
    events: list[Json] = []
    while not events or events[-1]["type"] not in (*TERMINAL, "error"):
        events.append(json.loads(connection.recv(DEADLINE)))
    return events


Asked = Callable[..., Outcome]
"""One request over some transport."""

TRANSPORTS: Final[dict[str, Asked]] = {
    "json": over_json,
    "sse": over_sse,
    "websocket": over_websocket,
}


def dial(server: Server, *, buffer: int | None = None, **options: Any) -> ClientConnection:
    address = server.url.replace("http", "ws", 1) + "/v1/responses"
    connection: ClientConnection = connect(
        address, sock=_connected(server, buffer), open_timeout=DEADLINE, **options
    )
    return connection


def _connected(server: Server, buffer: int | None) -> socket.socket:
    """A connection to the server; a small buffer makes the client's slowness felt at once."""
    url = httpx.URL(server.url)
    connection = socket.socket()
    connection.settimeout(DEADLINE)
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect((url.host, url.port or 0))
    return connection


def _refused(answer: httpx.Response) -> Outcome:
    body = answer.json()
    assert set(body) == {"error"}
    assert all(isinstance(body["error"][name], str) for name in ("type", "message", "code", "param"))
    assert body["error"]["message"]
    return Outcome(answer.status_code, error=body["error"])


def _ended(events: list[Json], *, error_event: bool) -> Outcome:
    types = [event["type"] for event in events]
    assert [kind for kind in types if kind in TERMINAL] == types[-1:], types
    response = events[-1]["response"]
    failed = types[-1] == "response.failed"
    assert types.count("error") == (failed and error_event), types
    if failed and error_event:
        assert types[-2] == "error"
        assert events[-2]["error"]["code"] == response["error"]["code"]
    return Outcome(200, response=response)


class Departing:
    """A client that sends one request and can then vanish, or read as slowly as it likes."""

    def __init__(
        self, server: Server, path: str = "/v1/responses", *, buffer: int | None = None, **request: Any
    ) -> None:
        self.socket = _connected(server, buffer)
        body = json.dumps(request).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.socket.sendall(head.encode() + body)
        self.read = b""

    def read_until(self, text: bytes) -> None:
        while text not in self.read:
            data = self.socket.recv(65536)
            assert data, self.read
            self.read += data

    def vanish(self) -> None:
        self.socket.close()


class Inside:
    """What a server in this process holds, compared with what it held before."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self._tasks = self._count()

    def until_nothing_is_left(self) -> None:
        state = self._server._server.server_state
        gateway = self._server.gateway
        until(lambda: not gateway._runs and not gateway._sockets)
        until(lambda: not state.connections and not state.tasks)
        until(lambda: self.more_tasks() <= 0)

    def more_tasks(self) -> int:
        """How many tasks there are beyond those that it had before."""
        return self._count() - self._tasks

    def _count(self) -> int:
        store = self._server.gateway.store
        assert isinstance(store, SqliteStore)
        return len(asyncio.all_tasks(store._loop))


def kept(server: Server, outcome: Outcome) -> dict[str, Any]:
    """The stored response, which must be the one that the client was given."""
    assert outcome.response is not None
    with Client(server.url) as client:
        found: dict[str, Any] = client.ok("GET", f"/v1/responses/{outcome.response['id']}")
    assert found == outcome.response
    return found
