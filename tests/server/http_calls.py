"""Ways to call a server, and to look at what it answers."""

import hashlib
import json
import logging
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from antiphon.engine.run import End, Run
from antiphon.spec.events import AnyEvent
from tests.server.servers import DEADLINE, Client, Event, Serving, Spawned

Json = dict[str, Any]
Change = Callable[[list[AnyEvent]], list[AnyEvent]]


class ChangedEnd:
    """An end whose batches are changed on their way."""

    def __init__(self, end: End, change: Change) -> None:
        self._end = end
        self._change = change

    def open(self) -> None:
        self._end.open()

    def put(self, events: list[AnyEvent]) -> bool:
        return self._end.put(self._change(events))

    async def ready(self) -> None:
        await self._end.ready()

    async def put_long(self, event: AnyEvent) -> None:
        for changed in self._change([event]):
            await self._end.put_long(changed)

    async def close(self, events: list[AnyEvent]) -> None:
        await self._end.close(self._change(events))


def change_events(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """From here on every run delivers its batches with this change."""
    whole = Run.deliver

    async def changed(run: Run, end: End, patience: float = 0.0) -> None:
        await whole(run, ChangedEnd(end, change), patience)

    monkeypatch.setattr(Run, "deliver", changed)


def key_table(name: str, **settings: str) -> str:
    """A `[keys.NAME]` table whose key is `sk-NAME`."""
    digest = hashlib.sha256(f"sk-{name}".encode()).hexdigest()
    lines = [f'{key} = "{value}"' for key, value in ({"key_sha256": digest} | settings).items()]
    return "\n".join([f"[keys.{name}]", *lines, ""])


def raw(server: Serving, *lines: str, body: bytes = b"") -> bytes:
    """The beginning of the answer to a request of these lines."""
    address = httpx.URL(server.url)
    with socket.create_connection((address.host, address.port or 0), DEADLINE) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return connection.recv(65536)


def dial(server: Serving | Spawned, **options: Any) -> ClientConnection:
    address = server.url.replace("http", "ws", 1) + options.pop("path", "/v1/responses")
    connection: ClientConnection = connect(address, proxy=None, open_timeout=DEADLINE, **options)
    return connection


def turn(socket: ClientConnection, **request: Any) -> Json:
    """The last message of one turn."""
    socket.send(json.dumps({"type": "response.create", **request}))
    while True:
        event: Json = json.loads(socket.recv(DEADLINE))
        if event["type"] in ("error", "response.completed", "response.failed", "response.incomplete"):
            return event


def streamed(client: Client, **request: Any) -> list[Event]:
    with client.listen("/v1/responses", stream=True, **request) as stream:
        events = list(stream)
        assert stream.done
    return events


def refusal(client: Client, **request: Any) -> Event:
    """The error of a request that is refused as invalid."""
    return client.refused(400, "POST", "/v1/responses", json={"input": "hi", **request})


def script(*steps: Json) -> str:
    """A prompt that tells the `script` provider what to say."""
    return f"```script\n{json.dumps(list(steps))}\n```"


def receipts(response: Json) -> list[tuple[str, str]]:
    return [(one["param"], one["action"]) for one in response["antiphon:receipts"]]


def text_of(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] for part in item.get("content", []) if "text" in part
    )


def calls_of(response: Json) -> list[str]:
    return [item["name"] for item in response["output"] if item["type"] == "function_call"]


def violations() -> list[str]:
    """What the audit has logged; the lines are held by the fixture that fails a test for them."""
    handlers = logging.getLogger("antiphon.audit").handlers
    (lines,) = [vars(handler)["lines"] for handler in handlers if "lines" in vars(handler)]
    found: list[str] = lines
    return found
