"""The WebSocket side of the load generator: just enough of the protocol to ask and to count."""

import asyncio
import struct
from collections.abc import Callable
from time import perf_counter
from typing import cast

from bench.outcome import FIRST_WORD, Outcome, Request

_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_TERMINAL = (
    b'{"type":"response.completed"',
    b'{"type":"response.failed"',
    b'{"type":"response.incomplete"',
    b'{"type":"error"',
)


class Socket(asyncio.Protocol):
    """Asks for a turn as often as `more` says, on one WebSocket, and reads every message."""

    def __init__(self, request: Request, more: Callable[[], bool], outcome: Outcome) -> None:
        self._turn = frame(_TEXT, request.message)
        self._request = request
        self._more = more
        self._outcome = outcome
        self._received = bytearray()
        self._is_open = False
        self._sent = 0.0
        self._waits = False
        self._messages: list[bytes] = []
        loop = asyncio.get_running_loop()
        self.began: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request.upgrade)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.began, self.ended):
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._is_open:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self._received.startswith(b"HTTP/1.1 101 "):
                self._outcome.failed += 1
                self._outcome.body = bytes(self._received)
                self.close()
                return
            del self._received[: end + 4]
            self._is_open = True
            self._next()
        self._read()

    def _next(self) -> None:
        if self._more():
            self._waits = True
            self._messages.clear()
            self._sent = perf_counter()
            self._transport.write(self._turn)
        elif self._request.keeps:
            self._begin()
        else:
            self.close()

    def _begin(self) -> None:
        if not self.began.done():
            self.began.set_result(None)

    def _read(self) -> None:
        """Takes every whole frame; servers mask nothing and here split nothing."""
        data = self._received
        at = 0
        while len(data) >= at + 2:
            size, start = data[at + 1], at + 2
            if size >= 126:
                length = 2 if size == 126 else 8
                if len(data) < start + length:
                    break
                size = int.from_bytes(data[start : start + length], "big")
                start += length
            if len(data) < start + size:
                break
            self._take(data[at] & 0x0F, bytes(data[start : start + size]))
            at = start + size
        del data[:at]

    def _take(self, kind: int, message: bytes) -> None:
        if kind == _PING:
            self._transport.write(frame(_PONG, message))
        elif kind == _CLOSE:
            self.close()
        elif kind == _TEXT:
            self._begin()
            outcome = self._outcome
            outcome.events += 1
            self._messages.append(message)
            if self._waits and FIRST_WORD in message:
                self._waits = False
                outcome.firsts.append(perf_counter() - self._sent)
            if message.startswith(_TERMINAL):
                outcome.answers += 1
                outcome.failed += not message.startswith(_TERMINAL[0])
                outcome.times.append(perf_counter() - self._sent)
                outcome.body = b"\n".join(self._messages)
                self._next()


def frame(kind: int, message: bytes) -> bytes:
    """One message of a client, with a mask of zeros, which changes nothing."""
    size = len(message)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, size)
    return head + b"\0\0\0\0" + message
