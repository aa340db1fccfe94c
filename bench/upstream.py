"""A chat upstream that costs next to nothing: answers are rendered once, and a model's name is its script.

`each-400` streams 400 tokens with one write a token, `burst-400` as many tokens as fit in one write of
16 kB, `paced-400-20` one every 20 ms. Without `"stream": true` the same text comes as one JSON body.
"""

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

BURST_BYTES = 16 * 1024
WORDS = (
    " the",
    " answer",
    " is",
    " sung",
    " in",
    " return",
    ",",
    " voice",
    " by",
    ' "voice"',
    " é",
    " until",
)

_MODEL = re.compile(rb'"model"\s*:\s*"(?:[^"/]*/)?([a-z]+)-(\d+)(?:-(\d+))?"')
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Script:
    """What one model says: the writes of its stream, seconds between them, and its plain answer."""

    writes: tuple[bytes, ...]
    pause: float
    plain: bytes


def text_of(tokens: int) -> str:
    return "".join(WORDS[n % len(WORDS)] for n in range(tokens))


@lru_cache(maxsize=64)
def script(kind: str, tokens: int, milliseconds: int) -> Script:
    words = [WORDS[n % len(WORDS)] for n in range(tokens)]
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
    first = _STREAM_HEAD + _chunk([_choice({"role": "assistant", "content": ""})])
    last = _chunk([_choice({}, "stop")]) + _chunk([], usage) + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    said = [_chunk([_choice({"content": word})]) for word in words]
    if kind == "burst":
        each = max(1, BURST_BYTES // len(said[0]))
        said = [b"".join(said[n : n + each]) for n in range(0, len(said), each)]
    message = {"role": "assistant", "content": "".join(words)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    body = _json(_completion("chat.completion", [choice], usage))
    return Script((first, *said, last), milliseconds / 1000, _response(body))


def _choice(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _completion(kind: str, choices: list[Any], usage: dict[str, int] | None = None) -> dict[str, Any]:
    made = {"id": "chatcmpl-0123456789abcdef01234567", "object": kind, "created": 1_700_000_000}
    rest = {"model": "fake-1", "system_fingerprint": "fp_0123456789", "choices": choices}
    return {**made, **rest, **({"usage": usage} if usage else {})}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _chunk(choices: list[Any], usage: dict[str, int] | None = None) -> bytes:
    return _framed(b"data: %b\n\n" % _json(_completion("chat.completion.chunk", choices, usage)))


def _framed(data: bytes) -> bytes:
    """One HTTP chunk for each event, as real servers send them."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _response(body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


_MODELS = _response(_json({"object": "list", "data": [{"id": "each-400", "object": "model"}]}))
_UNKNOWN = _response(_json({"error": {"message": "the model is no script", "type": "x"}}), b"404 Not Found")


class Chat(asyncio.Protocol):
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
        model = _MODEL.search(request)
        if model is None:
            self._transport.write(_UNKNOWN)
            return
        found = script(model[1].decode(), int(model[2]), int(model[3] or 0))
        if _STREAM.search(request):
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
    server = await asyncio.get_running_loop().create_server(Chat, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
