"""A fake OpenAI-compatible server on a real socket, with programmable answers and faults.

It refuses a body that does not fit the official SDK's own request types, and remembers every request.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Any

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from tests.providers.chat_wire import MODEL, Answer, error
from tests.providers.typed_dicts import mistakes


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


Reply = Answer | Wire


class FakeChat:
    """`async with FakeChat() as upstream`; queue replies with `says`, else it echoes the last message."""

    def __init__(self, *, strict: bool = True, api_key: str | None = None) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        """A client went away before its answer had ended."""
        self._strict = strict
        self._api_key = api_key
        self._replies: deque[Reply] = deque()
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    def says(self, *replies: Reply) -> "FakeChat":
        self._replies.extend(replies)
        return self

    @property
    def body(self) -> dict[str, Any]:
        """The body of the last request."""
        return self.requests[-1].body

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> "FakeChat":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=64 * 1024 * 1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
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
        reply = self._choose(received)
        if isinstance(reply, Answer):
            reply = self._told(reply, received.body)
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
                    writer.write(
                        b"%x\r\n%b\r\n" % (len(piece), piece) if reply.framing == "chunked" else piece
                    )
                    await writer.drain()
                    await asyncio.sleep(0)
        if reply.framing == "chunked":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return reply.framing == "chunked"

    def _choose(self, received: Received) -> Reply:
        if self._api_key is not None and received.headers.get("authorization") != f"Bearer {self._api_key}":
            told = received.headers.get("authorization", "")[7:]
            body = error(f"Incorrect API key provided: {told}.", "invalid_request_error", "invalid_api_key")
            return refusal(401, body)
        if received.method == "GET" and received.path == "/v1/models":
            listed = [{"id": MODEL, "object": "model", "created": 1, "owned_by": "us"}]
            return refusal(200, json.dumps({"object": "list", "data": listed}).encode())
        if received.path == "/v1/chat/completions/input_tokens":
            return refusal(200, json.dumps({"input_tokens": len(json.dumps(received.body))}).encode())
        if received.path != "/v1/chat/completions":
            return refusal(404, b'{"detail":"Not Found"}')
        streamed = received.body.get("stream")
        shape = CompletionCreateParamsStreaming if streamed else CompletionCreateParamsNonStreaming
        if self._strict and (wrong := mistakes(received.body, shape)):
            return refusal(400, error("; ".join(wrong), "invalid_request_error", "unknown_parameter"))
        return self._replies.popleft() if self._replies else Answer(_last_words(received.body))

    def _told(self, answer: Answer, request: dict[str, Any]) -> Wire:
        if request.get("stream"):
            return Wire(list(answer.stream(request)))
        return Wire([json.dumps(answer.whole()).encode()], headers={"content-type": "application/json"})


async def _receive(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, path, headers, json.loads(raw) if raw else {})


def _head(reply: Wire) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Fake", *(f"{name}: {value}" for name, value in reply.headers.items())]
    lines.append("transfer-encoding: chunked" if reply.framing == "chunked" else "connection: close")
    return "\r\n".join([*lines, "", ""]).encode()


def _last_words(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)


@contextlib.contextmanager
def refusing_address() -> Iterator[str]:
    """A base URL where nobody listens, and nobody else can begin to."""
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"
