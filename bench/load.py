"""The load generator: kept connections that send one request after the other, on uvloop and httptools."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import httptools
import uvloop

T = TypeVar("T")


@dataclass(slots=True)
class Outcome:
    """What came back: how many answers, events and bytes, how long it took, and the last body of all."""

    answers: int = 0
    events: int = 0
    failed: int = 0
    seconds: float = 0.0
    body: bytes = b""


@dataclass(slots=True)
class Request:
    """One request, rendered once; `key` is sent as a bearer token."""

    port: int
    path: str
    body: dict[str, Any]
    key: str = "bench"
    data: bytes = field(init=False)

    def __post_init__(self) -> None:
        body = json.dumps(self.body).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
            f"authorization: Bearer {self.key}\r\ncontent-type: application/json\r\naccept: */*\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self.data = head.encode() + body


class Connection(asyncio.Protocol):
    """Sends the request again as often as `more` says, and reads the answers."""

    def __init__(self, request: Request, more: Callable[[], bool], outcome: Outcome) -> None:
        self._request = request
        self._more = more
        self._outcome = outcome
        self._pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        loop = asyncio.get_running_loop()
        self.began: asyncio.Future[None] = loop.create_future()  # the first piece of the first body is here
        self.ended: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        if self._more():
            self._transport.write(self._request.data)
        else:
            self.close()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        if not self.began.done():
            self.began.set_result(None)

    def on_message_complete(self) -> None:
        body = b"".join(self._pieces)
        self._pieces.clear()
        outcome = self._outcome
        outcome.answers += 1
        outcome.events += body.count(b"\n\n")
        outcome.failed += self._parser.get_status_code() != 200
        outcome.body = body
        keeps = self._parser.should_keep_alive()
        self._parser = httptools.HttpResponseParser(self)
        if keeps:
            self._send()
        else:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.began, self.ended):
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        self._transport.close()


async def connect(request: Request, more: Callable[[], bool], outcome: Outcome) -> Connection:
    loop = asyncio.get_running_loop()
    made = await loop.create_connection(lambda: Connection(request, more, outcome), "127.0.0.1", request.port)
    return made[1]


async def send(request: Request, *, count: int, connections: int, limit: float) -> Outcome:
    """`count` requests over so many connections; no new one is sent after `limit` seconds."""
    outcome = Outcome()
    left = count
    deadline = time.perf_counter() + limit

    def more() -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and time.perf_counter() < deadline

    started = time.perf_counter()
    opened = [await connect(request, more, outcome) for _ in range(min(connections, count))]
    try:
        async with asyncio.timeout(limit + 30):
            await asyncio.gather(*(connection.ended for connection in opened))
    except TimeoutError:
        raise SystemExit(f"bench: port {request.port} stopped answering after {outcome.answers}") from None
    finally:
        for connection in opened:
            connection.close()
    outcome.seconds = time.perf_counter() - started
    return outcome


async def hold(request: Request, *, streams: int, patience: float = 60.0) -> list[Connection]:
    """So many streams, opened and left open: each has had its first bytes."""
    outcome = Outcome()
    opened: list[Connection] = []
    for _ in range(streams):
        opened.append(await connect(request, iter([True, False]).__next__, outcome))
    async with asyncio.timeout(patience):
        await asyncio.gather(*(connection.began for connection in opened))
    return opened


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
