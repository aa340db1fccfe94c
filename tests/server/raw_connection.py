"""A connection to a server whose bytes the test writes itself, and a look at the other end of it."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, cast

import httpx

from antiphon.server.http1.connection import ClientConnection
from antiphon.server.process import GatewayServer
from tests.server.endings import Server as Addressed
from tests.server.servers import DEADLINE, Serving

BODY = json.dumps({"model": "scripted", "input": "hello"}).encode()


class Received(BytesIO):
    """What came over a connection, as the standard library reads answers from it one by one."""

    def makefile(self, mode: str) -> BytesIO:
        return self

    def close(self) -> None:
        """An answer closes its file, and another may follow."""


class Answer(http.client.HTTPResponse):
    def __init__(self, data: Received, method: str) -> None:
        super().__init__(cast(socket.socket, data), method=method)
        self.begin()
        self.body = self.read()


class Line:
    """A connection whose bytes the test writes itself."""

    def __init__(self, server: Addressed) -> None:
        address = httpx.URL(server.url)
        self.socket = socket.create_connection((address.host, address.port or 0), DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def rest(self) -> bytes:
        """Everything until the server closes."""
        pieces = []
        while piece := self.socket.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)

    def until(self, end: bytes) -> bytes:
        data = b""
        while not data.endswith(end):
            piece = self.socket.recv(65536)
            assert piece, f"closed after {data!r}"
            data += piece
        return data


@contextmanager
def line(server: Addressed) -> Iterator[Line]:
    connection = Line(server)
    with connection.socket:
        yield connection


def post(*headers: bytes, body: bytes = BODY, version: bytes = b"1.1") -> bytes:
    length = (
        [b"Content-Length: %d" % len(body)] if not any(b"chunked" in header for header in headers) else []
    )
    fields = [b"Host: localhost", b"Content-Type: application/json", *length, *headers]
    return b"\r\n".join([b"POST /v1/responses HTTP/" + version, *fields, b"", body])


def get(path: bytes = b"/healthz", *headers: bytes, method: bytes = b"GET") -> bytes:
    return b"\r\n".join([method + b" " + path + b" HTTP/1.1", b"Host: localhost", *headers, b"", b""])


def answers(data: bytes, *methods: str) -> list[Answer]:
    stream = Received(data)
    found = [Answer(stream, method) for method in methods]
    assert stream.read() == b""
    return found


CLOSE = b"Connection: close"


def connections(server: Serving) -> list[ClientConnection]:
    running: GatewayServer = server._server
    every: list[Any] = list(running.server_state.connections)
    return [connection for connection in every if isinstance(connection, ClientConnection)]


def behind(server: Serving, line: Line) -> ClientConnection | None:
    """The server's end of a line, once it has one; those of earlier tests may still be there."""
    here = line.socket.getsockname()
    for one in connections(server):
        if one.transport is not None and one.transport.get_extra_info("peername") == here:
            return one
    return None


def sweep(server: Serving, seconds: float) -> None:
    """A look at the connections so many seconds from now."""

    async def look() -> None:
        for connection in connections(server):
            connection.close_if_silent(connection._loop.time() + seconds)

    server.call(look())
