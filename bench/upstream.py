"""An upstream that costs next to nothing: answers are rendered once, and a model's name is its script.

`each-400` streams 400 tokens with one write a token, `burst-400` as many tokens as fit in one write of
16 kB, `paced-400-20` one every 20 ms. Without being asked to stream, the same text comes as one JSON body.
The first part of an address names the wire, as in `/gemini/models/each-400:generateContent`; without such a
name it is that of `chat`.
"""

import asyncio
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from bench.answers import CHAT, WIRES, dumped, words_of

BURST_BYTES = 16 * 1024

_NAME = rb"([a-z]+)-(\d+)(?:-(\d+))?"
_MODEL = re.compile(rb'"model"\s*:\s*"(?:[^"/]*/)?' + _NAME + rb'"')
_PLACE = re.compile(rb"/models?/" + _NAME + rb"[:/]")
_WIRE = re.compile(b"POST /(%b)/" % "|".join(WIRES).encode())
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Script:
    """What one model says: the writes of its stream, seconds between them, and its plain answer."""

    writes: tuple[bytes, ...]
    pause: float
    plain: bytes


@lru_cache(maxsize=64)
def script(kind: str, tokens: int, milliseconds: int, name: str = CHAT) -> Script:
    words = words_of(tokens)
    wire = WIRES[name]
    first = _STREAM_HEAD % wire.content_type + b"".join(map(_framed, wire.start()))
    last = b"".join(map(_framed, wire.end(words))) + b"0\r\n\r\n"
    said = [_framed(wire.delta(word, n)) for n, word in enumerate(words)]
    if kind == "burst":
        each = max(1, BURST_BYTES // len(said[0]))
        said = [b"".join(said[n : n + each]) for n in range(0, len(said), each)]
    return Script((first, *said, last), milliseconds / 1000, _response(dumped(wire.whole(words))))


def _framed(data: bytes) -> bytes:
    """One HTTP chunk for each event, as real servers send them."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _response(body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


_MODELS = _response(dumped({"object": "list", "data": [{"id": "each-400", "object": "model"}]}))
_UNKNOWN = _response(dumped({"error": {"message": "the model is no script", "type": "x"}}), b"404 Not Found")


class Connection(asyncio.Protocol):
    """One connection. The standard event loop sends each write at once, so that a write is a packet."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._size = 0  # of the request that is coming in, once its head is here
        self._script: Script | None = None
        self._next = 0
        self._timer: asyncio.Handle | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._size:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._received, 0, end)
            self._size = end + 4 + (int(length[1]) if length else 0)
        if len(self._received) >= self._size:
            request = bytes(self._received[: self._size])
            del self._received[: self._size]
            self._size = 0
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        if request.startswith(b"GET "):
            self._transport.write(_MODELS)
            return
        line = request[: request.index(b"\r\n")]
        model = _PLACE.search(line) or _MODEL.search(request)
        if model is None:
            self._transport.write(_UNKNOWN)
            return
        wire = _WIRE.match(line)
        name = wire[1].decode() if wire else CHAT
        found = script(model[1].decode(), int(model[2]), int(model[3] or 0), name)
        if b"stream" in line or _STREAM.search(request):
            self._script, self._next = found, 0
            self._say()
        else:
            self._transport.write(found.plain)

    def _say(self) -> None:
        said = self._script
        if said is None or self._transport.is_closing():
            return
        self._transport.write(said.writes[self._next])
        self._next += 1
        if self._next == len(said.writes):
            self._script = self._timer = None
        elif said.pause:
            self._timer = self._loop.call_later(said.pause, self._say)
        elif not self._paused:
            self._timer = self._loop.call_soon(self._say)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._script is not None and not self._script.pause:
            self._say()


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
