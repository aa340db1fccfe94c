"""The load generator: kept connections that send one request after the other, on uvloop and httptools."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import httptools
import uvloop

from bench.outcome import FIRST_WORD, Outcome, Request
from bench.sockets import Socket

__all__ = ["Outcome", "Request", "connect", "hold", "run", "send"]

T = TypeVar("T")


class Connection(asyncio.Protocol):
    """Sends a request as often as `more` says, and reads the answers."""

    def __init__(self, request: Request, more: Callable[[], bool], outcome: Outcome, number: int) -> None:
        self._request = request
        self._requests = request.on_connection(number)
        self._more = more
        self._outcome = outcome
        self._pieces: list[bytes] = []
        self._sent = 0.0
        self._waits = False
        self._parser = httptools.HttpResponseParser(self)
        loop = asyncio.get_running_loop()
        self.began: asyncio.Future[None] = loop.create_future()  # the first piece of the first body is here
        self.ended: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        if self._more():
            self._waits = True
            self._sent = time.perf_counter()
            self._transport.write(next(self._requests))
        elif not self._request.keeps:
            self.close()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._outcome.events += data.count(b"\n\n")
        if self._waits and FIRST_WORD in data:
            self._waits = False
            self._outcome.firsts.append(time.perf_counter() - self._sent)
        if not self.began.done():
            self.began.set_result(None)

    def on_message_complete(self) -> None:
        outcome = self._outcome
        outcome.times.append(time.perf_counter() - self._sent)
        outcome.body = b"".join(self._pieces)
        self._pieces.clear()
        outcome.answers += 1
        outcome.failed += self._parser.get_status_code() != 200
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


async def connect(
    request: Request, more: Callable[[], bool], outcome: Outcome, number: int = 0
) -> Connection | Socket:
    """The connection of this number: which client writes on it depends on that."""

    def made() -> Connection | Socket:
        return (
            Socket(request, more, outcome) if request.socket else Connection(request, more, outcome, number)
        )

    loop = asyncio.get_running_loop()
    return (await loop.create_connection(made, "127.0.0.1", request.port))[1]


async def send(
    request: Request, *, count: int, connections: int, limit: float, spread: float = 0.0
) -> Outcome:
    """`count` requests over so many connections; no new one is sent after `limit` seconds.

    The connections are opened over `spread` seconds, so that paced streams do not all beat at once.
    """
    outcome = Outcome()
    left = count
    deadline = time.perf_counter() + limit

    def more() -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and time.perf_counter() < deadline

    started = time.perf_counter()
    opened: list[Connection | Socket] = []
    try:
        for number in range(min(connections, count)):
            opened.append(await connect(request, more, outcome, number))
            if spread:
                await asyncio.sleep(spread / connections)
        async with asyncio.timeout(limit + 30):
            await asyncio.gather(*(connection.ended for connection in opened))
    except TimeoutError:
        raise SystemExit(f"bench: port {request.port} stopped answering after {outcome.answers}") from None
    finally:
        for connection in opened:
            connection.close()
    outcome.seconds = time.perf_counter() - started
    return outcome


async def hold(
    request: Request, *, streams: int, outcome: Outcome, requests: int = 1, patience: float = 60.0
) -> list[Connection | Socket]:
    """So many streams, opened and left open: each has had its first bytes."""
    opened: list[Connection | Socket] = []
    for number in range(streams):
        more = iter([True] * requests + [False]).__next__
        opened.append(await connect(request, more, outcome, number))
    async with asyncio.timeout(patience):
        await asyncio.gather(*(connection.began for connection in opened))
    return opened


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
