"""A server on a real socket that does with a connection exactly what a test says, and ways to ask it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from antiphon.config import UpstreamTimeouts
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient, UpstreamExchange
from tests.providers.fake_server import SOON, until_accepted

NEVER = UpstreamTimeouts(connect=0, first_byte=0, idle=0, total=0)

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Handler = Callable[[Reader, Writer], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Server:
    url: str
    port: int
    connections: int = 0
    heads: list[str] = field(default_factory=list)
    """The heads of the requests that `answering` has read."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """A client has hung up."""


@asynccontextmanager
async def serving(
    handler: Handler, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    tasks: set[asyncio.Task[None]] = set()
    writers: list[Writer] = []

    async def guarded(reader: Reader, writer: Writer) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            server.gone.set()

    def accept(reader: Reader, writer: Writer) -> None:
        server.connections += 1
        writers.append(writer)
        task = asyncio.create_task(guarded(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(accept, host, 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    server = Server(f"{'https' if tls else 'http'}://{shown}:{port}/", port)
    _servers[handler] = server
    try:
        yield server
    finally:
        del _servers[handler]
        await until_accepted()
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


_servers: dict[Handler, Server] = {}


async def request(reader: Reader) -> tuple[str, bytes]:
    """The head and the body of the next request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lengths = [line[15:] for line in head.lower().split("\r\n") if line.startswith("content-length:")]
    return head, await reader.readexactly(int(lengths[0]) if lengths else 0)


def answering(*answers: bytes, then: str = "serve") -> Handler:
    """Each request is answered with the next of these bytes, the last one again and again.

    `then` is what happens after an answer: `serve` the next request, `close`, or `wait` for the client to go.
    """
    left = list(answers)

    async def handler(reader: Reader, writer: Writer) -> None:
        while True:
            head, _ = await request(reader)
            _servers[handler].heads.append(head)
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()
            if then == "close":
                return
            if then == "wait":
                await reader.read()
                return

    return handler


def get(
    http: UpstreamClient, url: str, *, timeouts: UpstreamTimeouts = NEVER, public_only: bool = False
) -> UpstreamExchange:
    return http.get(url, {}, timeouts, provider="up", public_only=public_only)


async def body(exchange: UpstreamExchange) -> bytes:
    async with asyncio.timeout(SOON), exchange as response:
        return await response.read()


async def failure(exchange: UpstreamExchange) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await body(exchange)
    return caught.value


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
