"""The head of an answer leaves together with what follows it, and alone when nothing does."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from antiphon.server.protocol import Patient

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Line:
    """A patient transport over a real socket, and what comes out at the other end."""

    def __init__(self, transport: Patient, other: socket.socket) -> None:
        self.transport = transport
        self._other = other

    async def read(self) -> bytes:
        async with asyncio.timeout(5):
            return await asyncio.get_running_loop().sock_recv(self._other, 65536)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    loop = asyncio.get_running_loop()
    ours, other = socket.socketpair()
    other.setblocking(False)
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    yield Line(Patient(transport, loop), other)
    transport.abort()
    other.close()


async def test_head_and_body_leave_together(line: Line) -> None:
    line.transport.write(HEAD)
    line.transport.write(b"hi")
    assert await line.read() == HEAD + b"hi"
    line.transport.write(b"more")
    assert await line.read() == b"more"


async def test_a_head_does_not_wait_for_a_body_that_takes_its_time(line: Line) -> None:
    line.transport.write(HEAD)
    assert await line.read() == HEAD
    line.transport.write(b"hi")
    assert await line.read() == b"hi"


async def test_a_head_is_not_lost_when_the_connection_closes(line: Line) -> None:
    line.transport.write(HEAD)
    line.transport.close()
    assert await line.read() == HEAD
    assert await line.read() == b""
    assert line.transport.is_closing()
