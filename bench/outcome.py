"""A request, rendered once, and what came back."""

import json
from dataclasses import dataclass, field
from typing import Any

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
    """`key` is sent as a bearer token. With `socket` it is a turn on a WebSocket; `keeps` leaves it open."""

    port: int
    path: str
    body: dict[str, Any]
    key: str
    socket: bool = False
    keeps: bool = False
    data: bytes = field(init=False)

    def __post_init__(self) -> None:
        body = json.dumps(self.body).encode()
        more = f"content-type: application/json\r\naccept: */*\r\ncontent-length: {len(body)}"
        self.data = self._head("POST", more) + body

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
