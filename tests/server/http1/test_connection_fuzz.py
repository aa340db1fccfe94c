"""Whatever a client sends, in whatever pieces: it is answered in order, and nothing is left behind."""

import json
import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.endings import Inside
from tests.server.raw_connection import CLOSE, Line, answers, get, line, post
from tests.server.servers import Serving

LIMIT = 100_000
ABORT = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Asked:
    data: bytes
    status: int
    method: str = "POST"


def chunked(body: bytes, size: int, *trailers: bytes) -> bytes:
    pieces = [body[n : n + size] for n in range(0, len(body), size)]
    framed = [b"%x;n=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return b"".join([*framed, b"0\r\n", *trailers, b"\r\n"])


def created(**request: object) -> bytes:
    return json.dumps({"model": "scripted", "input": "hello", "store": False, **request}).encode()


H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")
CHUNKED = b"Transfer-Encoding: chunked"
PLAIN, STREAM, LARGE = created(), created(stream=True), b"x" * (LIMIT * 3)

WHOLE = [
    Asked(get(), 200, "GET"),
    Asked(get(method=b"HEAD"), 200, "HEAD"),
    Asked(get(b"/healthz", *H2C), 200, "GET"),
    Asked(get(b"/healthz", b"Content-Length: 5") + b"hello", 200, "GET"),
    Asked(get(b"/openapi.json"), 200, "GET"),
    Asked(get(b"http://localhost/%00%ff?a=%00"), 404, "GET"),
    Asked(get(b"/" + b"long" * 5000), 404, "GET"),
    Asked(get(b"/healthz", *[b"X-%d:" % n for n in range(100)]), 200, "GET"),
    Asked(get(b"*", method=b"OPTIONS"), 404, "OPTIONS"),
    Asked(get(b"/healthz", method=b"PUT"), 405, "PUT"),
    Asked(post(body=PLAIN), 200),
    Asked(post(*H2C, body=PLAIN), 200),
    Asked(post(CHUNKED, body=chunked(PLAIN, 3, b"Host: elsewhere\r\n")), 200),
    Asked(post(body=STREAM), 200),
    Asked(post(CHUNKED, body=chunked(STREAM, 50)), 200),
    Asked(post(body=LARGE), 413),
    Asked(post(CHUNKED, body=chunked(LARGE, 9999)), 413),
    Asked(post(body=LARGE).replace(b"application/json", b"text/plain"), 415),
    Asked(post(body=b"{"), 400),
    Asked(post(body=b""), 400),
]
BROKEN = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\nHost: localhost\n\n",
    b"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    post(b"Content-Length: 7"),
    post(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"),
    post(CHUNKED, body=b"5\r\nhello, you\r\n"),
    post(b"Transfer-Encoding: chunked, gzip", body=b""),
]
REQUESTS = st.lists(st.sampled_from(WHOLE), max_size=6)
CUTS = st.lists(st.integers(1, 1000) | st.integers(1, 400_000), max_size=8)


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml, SERVER__BODY_LIMIT=str(LIMIT))


@pytest.fixture(autouse=True)
def nothing_alarming(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record for record in caplog.get_records("call") if record.levelno >= logging.WARNING] == []


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(at for at in set(cuts) if at < len(data)), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def exchanged(connection: Line, pieces: list[bytes]) -> bytes:
    with suppress(ConnectionError):  # the server need not take all of what is broken
        connection.send(*pieces)
    return connection.rest()


@given(requests=REQUESTS, cuts=CUTS)
def test_all_that_is_asked_is_answered_in_order(
    server: Serving, requests: list[Asked], cuts: list[int]
) -> None:
    last = Asked(get(b"/healthz", CLOSE), 200, "GET")
    asked = [*requests, last]
    with line(server) as connection:
        data = exchanged(connection, cut(b"".join(one.data for one in asked), cuts))
    found = answers(data, *(one.method for one in asked))
    assert [answer.status for answer in found] == [one.status for one in asked]


@given(requests=REQUESTS, broken=st.sampled_from(BROKEN), cuts=CUTS)
def test_what_is_broken_is_refused_after_all_that_was_whole(
    server: Serving, requests: list[Asked], broken: bytes, cuts: list[int]
) -> None:
    whole = b"".join(one.data for one in requests)
    with line(server) as connection:
        data = exchanged(connection, cut(whole + broken, cuts))
    found = answers(data, *(one.method for one in requests), "GET")
    assert [answer.status for answer in found] == [*(one.status for one in requests), 400]


@given(
    requests=REQUESTS,
    end=st.sampled_from(BROKEN),
    at=st.floats(0, 1),
    cuts=CUTS,
    leaves=st.sampled_from(["closes", "aborts", "says no more"]),
)
def test_a_client_may_leave_at_any_moment(
    server: Serving, requests: list[Asked], end: bytes, at: float, cuts: list[int], leaves: str
) -> None:
    inside = Inside(server)
    data = b"".join(one.data for one in requests) + end
    with line(server) as connection, suppress(ConnectionError):
        connection.send(*cut(data[: round(len(data) * at)], cuts))
        if leaves == "says no more":
            connection.socket.shutdown(socket.SHUT_WR)
            connection.rest()
        elif leaves == "aborts":
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    inside.until_nothing_is_left()
