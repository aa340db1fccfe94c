"""What counts as an answer, where it ends, and what a connection does with anything else."""

import asyncio
import socket
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.http.connection import HEAD_LIMIT, UpstreamConnection
from antiphon.providers.http.deadlines import DeadlineTimer
from antiphon.providers.http.headers import HEADERS_LIMIT
from antiphon.providers.http.pool import Pool
from antiphon.providers.http.target import Origin
from tests.providers.fake_server import SOON
from tests.providers.http.raw import (
    NEVER,
    OK,
    Reader,
    Writer,
    answering,
    body,
    failure,
    get,
    request,
    serving,
    until,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
KEPT, NOT_KEPT = True, False
ANSWERS = {
    "content-length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", KEPT),
    "no body": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", KEPT),
    "chunked": (CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", b"hello", KEPT),
    "an extension": (CHUNKED + b"5;a=b\r\nhello\r\n0\r\n\r\n", b"hello", KEPT),
    "trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nDigest: x\r\nMore: y\r\n\r\n", b"hello", KEPT),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", KEPT),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b"", KEPT),
    "100 before it": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok", KEPT),
    "103 before it": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, b"ok", KEPT),
    "HTTP/1.0 that keeps": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
        KEPT,
    ),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", NOT_KEPT),
    "connection: close": (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
        NOT_KEPT,
    ),
    "chunked, then closed": (
        CHUNKED[:-2] + b"connection: TE\r\nconnection: Close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"ok",
        NOT_KEPT,
    ),
    "chunked HTTP/1.0": (b"HTTP/1.0" + CHUNKED[8:] + b"2\r\nok\r\n0\r\n\r\n", b"ok", NOT_KEPT),
    "chunked twice": (CHUNKED[:-2] + CHUNKED[17:] + b"2\r\nok\r\n0\r\n\r\n", b"ok", KEPT),
    "a second answer": (OK + b"HTTP/1.1 200", b"ok", NOT_KEPT),
    "rubbish after it": (OK + b"rubbish", b"ok", NOT_KEPT),
}
MANY = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(HEADERS_LIMIT + 2))
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\nhello"


@pytest.mark.parametrize("name", ANSWERS)
async def test_where_an_answer_ends(http: UpstreamClient, name: str) -> None:
    answer, expected, kept = ANSWERS[name]
    async with serving(answering(answer)) as server:
        assert [await body(get(http, server.url)) for _ in range(2)] == [expected, expected]
        assert server.connections == (1 if kept else 2)


async def test_an_answer_that_ends_with_the_connection(http: UpstreamClient) -> None:
    async with serving(answering(UNTIL_CLOSED, then="close")) as server:
        assert [await body(get(http, server.url)) for _ in range(2)] == [b"hello", b"hello"]
        assert server.connections == 2


async def test_what_is_said_before_the_answer_is_not_the_answer(http: UpstreamClient) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nX-A: hint\r\n\r\n"
    async with serving(answering(hints + OK)) as server, get(http, server.url) as response:
        assert (response.status, dict(response.headers)) == (200, {"content-length": "2"})


async def test_headers(http: UpstreamClient) -> None:
    answer = b"HTTP/1.1 200 OK\r\nX-One: 1\r\nx-two: a\r\nX-TWO: b\r\nx-two: c\r\n"
    handler = answering(answer + b"Content-Type: Text/Plain; x=y\r\nContent-Length: 0\r\n\r\n")
    async with serving(handler) as server, get(http, server.url) as response:
        assert (response.headers["x-one"], response.headers["X-ONE"]) == ("1", "1")
        assert (response.headers["X-Two"], response.headers.get("x-three")) == ("a", None)
        assert (len(response.headers), response.content_type) == (4, "text/plain")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "status 101"),
        (b"HTTP/1.1 099 Odd\r\n\r\n", "status 99"),
        (b"HTTP/1.1 999 Odd\r\n\r\n", "status 999"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "transfer-encoding"),
        (CHUNKED[:-2] + b"transfer-encoding: gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n", "transfer-encoding"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "not valid HTTP"),
        (MANY, "256 headers"),
        (MANY + b"\r\n", "256 headers"),
        (b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * (HEAD_LIMIT + 1) + b"\r\n\r\n", "64 kB of headers"),
        (b"HTTP/1.1 200 OK\r\nX-Endless: " + b"x" * (1024 * 1024), "64 kB of headers"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20_000, "64 kB of headers"),
        (CHUNKED + b"0\r\nX-Endless: " + b"x" * (1024 * 1024), "64 kB of headers"),
        (CHUNKED + b"1\r\na\r\n1;" + b"x" * (1024 * 1024), "64 kB of headers"),
    ],
)
async def test_no_answer(http: UpstreamClient, answer: bytes, says: str) -> None:
    async with serving(answering(answer, then="wait")) as server:
        error = await failure(get(http, server.url))
        assert (error.status, error.payload.code) == (502, "upstream_invalid")
        assert says in error.payload.message
        await asyncio.wait_for(server.gone.wait(), SOON)


async def test_what_came_before_a_break_is_handed_over(http: UpstreamClient) -> None:
    handler = answering(CHUNKED + b"5\r\nhello\r\n", then="close")
    async with serving(handler) as server, get(http, server.url) as response:
        assert await anext(response) == b"hello"
        with pytest.raises(UpstreamError, match="in the middle of the answer"):
            await anext(response)


async def test_an_answer_is_read_only_while_its_context_is_open(http: UpstreamClient) -> None:
    async with serving(answering(OK)) as server:
        async with get(http, server.url) as response:
            pass
        with pytest.raises(RuntimeError, match="context"):
            await anext(response)


# --- what is sent -----------------------------------------------------------------------------------------

LARGE = b"x" * 8_000_000


async def test_a_large_body_waits_for_the_upstream(http: UpstreamClient) -> None:
    gate = asyncio.Event()
    received = b""

    async def slowly(reader: Reader, writer: Writer) -> None:
        nonlocal received
        await gate.wait()
        received = (await request(reader))[1]
        writer.write(OK)

    async with serving(slowly) as server:
        asking = asyncio.create_task(body(http.post(server.url, LARGE, {}, NEVER, provider="up")))
        await until(lambda: len(http.pool.connections) == 1)
        [connection] = http.pool.connections
        await until(lambda: not connection._is_writable)
        assert connection._transport is not None
        assert connection._transport.get_write_buffer_size() < 512 * 1024
        gate.set()
        assert await asking == b"ok"
        assert received == LARGE


async def test_an_answer_before_the_whole_body_was_sent(http: UpstreamClient) -> None:
    async def refuse(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large")
        await writer.drain()
        await release.wait()
        while await reader.read(65536):
            pass

    release = asyncio.Event()
    async with serving(refuse) as server:
        async with http.post(server.url, LARGE, {}, NEVER, provider="up") as response:
            assert (response.status, await response.read()) == (413, b"too large")
        # The rest of the body was never sent, so nothing else can be sent on this connection.
        release.set()
        await asyncio.wait_for(server.gone.wait(), SOON)


async def test_an_answer_that_begins_while_the_body_is_sent(http: UpstreamClient) -> None:
    async def echo(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        await writer.drain()
        assert await reader.readexactly(len(LARGE)) == LARGE
        writer.write(b"3\r\nall\r\n0\r\n\r\n")
        await reader.read()

    async with serving(echo) as server:
        assert await body(http.post(server.url, LARGE, {}, NEVER, provider="up")) == b"all"


# --- cancelling -------------------------------------------------------------------------------------------


async def hang(reader: Reader, writer: Writer) -> None:
    await reader.read()


@pytest.mark.parametrize("sends", [b"", b"HTTP/1.1 200 OK\r\n", CHUNKED, CHUNKED + b"5\r\nhe"])
async def test_cancelling_closes_the_connection(http: UpstreamClient, sends: bytes) -> None:
    async with serving(answering(sends, then="wait")) as server:
        asking = asyncio.create_task(body(get(http, server.url)))
        await until(lambda: len(server.heads) == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert asking.cancelled()
        await asyncio.wait_for(server.gone.wait(), SOON)
        await until(lambda: not http.pool.connections)


async def test_cancelling_while_connecting(http: UpstreamClient) -> None:
    async with serving(hang) as server:  # never speaks TLS
        asking = asyncio.create_task(body(get(http, server.url.replace("http:", "https:"))))
        await until(lambda: server.connections == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.wait_for(server.gone.wait(), SOON)


# --- a law ------------------------------------------------------------------------------------------------


async def _fed(answer: bytes, cuts: list[int]) -> tuple[int, bytes, bool]:
    """What a connection makes of these bytes when they come in pieces."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    connection = UpstreamConnection(
        Pool(DeadlineTimer()), Origin("http", "h", 80, None, False), loop, single=False
    )
    with far:
        transport, _ = await loop.create_connection(lambda: connection, sock=near)
        connection.ask(b"GET / HTTP/1.1\r\n\r\n", None)
        edges = [0, *sorted(cut % len(answer) for cut in cuts), len(answer)]
        for start, end in pairwise(edges):
            if start < end:
                connection.data_received(answer[start:end])
        told = connection.status, connection.take(), connection.complete
        transport.abort()
        await asyncio.sleep(0)
    return told


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(min_value=0), max_size=8))
def test_it_does_not_matter_how_an_answer_is_cut(name: str, cuts: list[int]) -> None:
    answer, expected, _ = ANSWERS[name]
    whole = asyncio.run(_fed(answer, []))
    assert whole[1:] == (expected, True)
    assert asyncio.run(_fed(answer, cuts)) == whole
