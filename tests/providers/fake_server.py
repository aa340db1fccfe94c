"""An HTTP server on a real socket for fake upstreams: it remembers requests, and sends bytes or does worse.

A fake of one wire is a subclass that says how to `reply` to a request.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Self
from urllib.parse import parse_qsl

from tests.providers.embedding_wires import embedded

SOON: Final = 15.0
"""Nothing here takes so long, unless it is broken."""


class Step(Enum):
    """Things that a server can do instead of sending bytes."""

    HANG = auto()
    """Send nothing more until the client goes away."""
    CLOSE = auto()
    """Close the connection in an orderly way."""
    RESET = auto()
    """Cut the connection off."""


Piece = bytes | Step | asyncio.Event
"""An event is waited for before the next piece."""


@dataclass(frozen=True)
class Wire:
    """An answer of exactly these bytes, one HTTP chunk a piece."""

    pieces: Iterable[Piece] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    framing: str = "chunked"
    """Or `close` for an answer that the end of the connection ends, or `raw` for no HTTP at all."""


def refusal(status: int, body: bytes, **headers: str) -> Wire:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Wire([body], status, {"content-type": "application/json", **named})


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    query: str = ""
    raw: bytes = b""
    """The body as it came."""


class FakeServer:
    """`async with Fake() as upstream`; `requests` holds what came in."""

    prefix = ""
    """The path at the end of `base_url`."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        """A client went away before its answer had ended."""
        self.slice = 0
        """Send every piece in slices of this many bytes, wherever that cuts it."""
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    def reply(self, received: Received) -> Wire:
        raise LookupError(received.path)

    @property
    def body(self) -> dict[str, Any]:
        """The body of the last request."""
        return self.requests[-1].body

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{self.prefix}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=64 * 1024 * 1024)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        await until_accepted()
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()  # its handler may not have begun, and a client may not have read
        await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        handler = asyncio.create_task(self._serve(reader, writer))
        self._handlers.add(handler)
        handler.add_done_callback(self._handlers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while received := await _receive(reader):
                self.requests.append(received)
                self.asked.set()
                if not await self._answer(received, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()

    async def _answer(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send the reply; true when the connection can carry another request."""
        reply = _vectors(received) or self.reply(received)
        if reply.framing != "raw":
            writer.write(_head(reply))
        for piece in reply.pieces:
            match piece:
                case Step.HANG:
                    await reader.read()
                    self.gone.set()
                    return False
                case Step.CLOSE:
                    return False
                case Step.RESET:
                    writer.transport.abort()
                    return False
                case asyncio.Event():
                    await piece.wait()
                case bytes():
                    size = self.slice or len(piece) or 1
                    for n in range(0, len(piece), size):
                        await self._send(piece[n : n + size], reply, writer)
        if reply.framing == "chunked":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return reply.framing == "chunked"

    async def _send(self, data: bytes, reply: Wire, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data) if reply.framing == "chunked" else data)
        await writer.drain()
        await asyncio.sleep(0)


def _vectors(received: Received) -> Wire | None:
    told = embedded(received.path, received.body)
    return None if told is None else refusal(told[0], json.dumps(told[1]).encode())


async def until_accepted() -> None:
    """Lets the loop take in whoever waits at the door: a server that closes meanwhile leaves them open."""
    for _ in range(5):  # the turns from the listener that is ready to the connection that is made
        await asyncio.sleep(0)


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    path, _, query = path.partition("?")
    if headers.get("content-type") == "application/x-www-form-urlencoded":
        return Received(method, path, headers, dict(parse_qsl(raw.decode())), query)
    is_json = raw and not headers.get("content-type", "").startswith("text/")
    return Received(method, path, headers, json.loads(raw) if is_json else {}, query, raw)


def _head(reply: Wire) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Fake", *(f"{name}: {value}" for name, value in reply.headers.items())]
    lines.append("transfer-encoding: chunked" if reply.framing == "chunked" else "connection: close")
    return "\r\n".join([*lines, "", ""]).encode()


@contextlib.contextmanager
def refusing_address() -> Iterator[str]:
    """A base URL where nobody listens, and nobody else can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"
