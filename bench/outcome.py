"""A request, and what came back."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from bench.clients import CLIENTS, requests

FIRST_WORD = b'" the"'
"""The first token of every scripted answer, as it stands in any wire's JSON."""


@dataclass(slots=True)
class Outcome:
    """What came back: how many answers and events, how long each took, and the last body of all."""

    answers: int = 0
    events: int = 0
    failed: int = 0
    seconds: float = 0.0
    body: bytes = b""
    times: list[float] = field(default_factory=list)
    """Seconds from sending a request to the end of its answer."""
    firsts: list[float] = field(default_factory=list)
    """Seconds from sending a request to the first token of its answer."""


@dataclass(slots=True)
class Request:
    """`key` is sent as a bearer token. With `socket` it is a turn on a WebSocket; `keeps` leaves it open.

    With `varies` it is asked as real clients ask it; otherwise it is the same each time.
    """

    port: int
    path: str
    body: dict[str, Any]
    key: str
    socket: bool = False
    keeps: bool = False
    varies: bool = False

    def on_connection(self, number: int) -> Iterator[bytes]:
        """What is sent on the connection of this number, one request after the other."""
        if self.varies:
            client = CLIENTS[number % len(CLIENTS)]
            return requests(client, self.path, self.port, self.key, self.body)
        body = json.dumps(self.body).encode()
        more = f"content-type: application/json\r\naccept: */*\r\ncontent-length: {len(body)}"
        return repeat(self._head("POST", more) + body)

    @property
    def upgrade(self) -> bytes:
        """The beginning of a WebSocket; its nonce proves nothing on loopback."""
        nonce = "c2luZyBpbiByZXNwb25zZQ=="
        more = (
            "upgrade: websocket\r\nconnection: upgrade\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: {nonce}"
        )
        return self._head("GET", more)

    @property
    def message(self) -> bytes:
        return json.dumps({"type": "response.create", **self.body}).encode()

    def _head(self, method: str, more: str) -> bytes:
        head = (
            f"{method} {self.path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
            f"authorization: Bearer {self.key}\r\n{more}\r\n\r\n"
        )
        return head.encode()
