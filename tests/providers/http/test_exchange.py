"""Following an answer: bytes go straight from the socket to the follower, and each of them once."""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle, pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import UpstreamTimeouts
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient, UpstreamExchange
from antiphon.providers.http.connection import HIGH_WATER, UpstreamConnection
from antiphon.providers.http.headers import HEADERS_LIMIT
from tests.providers.chat.fake import FakeChat, Step, Wire
from tests.providers.fake_server import SOON
from tests.providers.http.raw import NEVER, OK, answering, get, serving, until
from tests.providers.http.test_client import post


async def test_nobody_wakes_up_for_bytes_that_are_taken(http: UpstreamClient) -> None:
    *gates, end = [asyncio.Event() for _ in range(4)]
    heard: list[tuple[bytes, bool]] = []

    def follower(data: bytes) -> bool:
        heard.append((data, asyncio.current_task() is None))
        [*gates, end][len(heard)].set()
        return True

    pieces = [piece for n, gate in enumerate(gates) for piece in (gate, b"%d" % n)]
    async with FakeChat().says(Wire([*pieces, end])) as upstream, post(http, upstream) as response:
        asyncio.get_running_loop().call_soon(gates[0].set)
        async with asyncio.timeout(SOON):
            assert not await response.follow(follower)
    assert heard == [(b"0", True), (b"1", True), (b"2", True)]


async def test_one_who_has_enough_gets_the_rest_later(http: UpstreamClient) -> None:
    gate = asyncio.Event()
    heard: list[bytes] = []
    async with FakeChat().says(Wire([b"a", gate, b"b"])) as upstream, post(http, upstream) as response:
        async with asyncio.timeout(SOON):
            assert await response.follow(heard.append)
            assert heard == [b"a"]
            gate.set()
            assert await response.follow(heard.append)
            assert heard == [b"a", b"b"]
            assert not await response.follow(heard.append)


async def test_what_a_follower_raises_is_raised_to_who_waits(http: UpstreamClient) -> None:
    gate = asyncio.Event()

    def follower(data: bytes) -> bool:
        raise ArithmeticError(data)

    async with FakeChat().says(Wire([gate, b"a", Step.HANG])) as upstream, post(http, upstream) as response:
        asyncio.get_running_loop().call_soon(gate.set)
        with pytest.raises(ArithmeticError):
            async with asyncio.timeout(SOON):
                await response.follow(follower)


async def test_a_follower_may_take_more_at_once_than_would_be_kept_for_it(http: UpstreamClient) -> None:
    size = 32 * HIGH_WATER
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    heard = 0

    def follower(data: bytes) -> bool:
        nonlocal heard
        heard += len(data)
        return True

    async with serving(answering(head + b"x" * size)) as server, get(http, server.url) as response:
        async with asyncio.timeout(SOON):
            assert not await response.follow(follower)
    assert heard == size


async def test_a_compressed_answer_is_followed_too(http: UpstreamClient) -> None:
    packed = gzip.compress(b"x" * 300_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    heard: list[bytes] = []
    async with serving(answering(head + packed)) as server, get(http, server.url) as response:
        async with asyncio.timeout(SOON):
            assert await response.follow(heard.append)
            while await response.follow(heard.append):
                pass
    assert len(heard) > 1
    assert b"".join(heard) == b"x" * 300_000


@asynccontextmanager
async def _opened(
    head: bytes,
) -> AsyncIterator[tuple[UpstreamConnection, UpstreamExchange, asyncio.Transport]]:
    """An answer on a connection whose reads the test makes itself."""
    loop = asyncio.get_running_loop()
    http, url = UpstreamClient(), "http://h/"
    origin = http.find(url, False).origin
    near, far = socket.socketpair()
    connection = UpstreamConnection(http.pool, origin, loop, single=False)
    transport, _ = await loop.create_connection(lambda: connection, sock=near)
    connection.keeps, connection.expires = True, inf
    origin.idle.append(connection)
    with far:
        entering = asyncio.create_task(get(http, url).__aenter__())
        await asyncio.sleep(0)
        connection.data_received(head)
        try:
            yield connection, await entering, transport
        finally:
            transport.abort()
            await asyncio.sleep(0)


async def test_what_is_around_the_chunks_of_a_long_answer_does_not_stop_it() -> None:
    """Many servers write the size of a chunk, the chunk and its end one by one."""
    heard: list[bytes] = []

    def follower(data: bytes) -> bool:
        heard.append(data)
        return True

    async with _opened(CHUNKED) as (connection, response, transport):
        following = asyncio.create_task(response.follow(follower))
        await asyncio.sleep(0)
        chunks = HIGH_WATER // len(b"3\r\n\r\n") + 2
        for _ in range(chunks):
            for piece in (b"3\r\n", b"abc", b"\r\n"):
                connection.data_received(piece)
        assert transport.is_reading()
        connection.data_received(b"0\r\n\r\n")
        assert not await asyncio.wait_for(following, SOON)
    assert len(heard) == chunks


async def test_a_packed_answer_is_not_read_faster_than_it_is_unpacked() -> None:
    packed = gzip.compress(b"x" * 64 * HIGH_WATER)
    noise = gzip.compress(bytes(range(256)) * 16, 0)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000000000\r\n\r\n"
    async with _opened(head) as (connection, response, transport):
        connection.data_received(packed)
        assert await response.follow(lambda data: False)
        while transport.is_reading():
            connection.data_received(noise)
        for _ in range(8):
            assert await response.follow(lambda data: False)
            assert not transport.is_reading()


async def test_patience_begins_anew_with_what_a_follower_takes(http: UpstreamClient) -> None:
    times, idle = await followed(http, 0.3), 0.3
    while len(times) < 4 and idle < 10:  # a machine that is busy was later than that
        idle *= 4
        times = await followed(http, idle)
    assert len(times) == 4
    assert asyncio.get_running_loop().time() - times[-1] >= idle * 0.97


async def followed(http: UpstreamClient, idle: float) -> list[float]:
    """When each of four pieces came, half of the patience apart, until patience was at an end."""
    limits = UpstreamTimeouts(connect=0, first_byte=0, idle=idle, total=0)
    loop = asyncio.get_running_loop()
    gates = [asyncio.Event() for _ in range(4)]
    times: list[float] = []

    def follower(data: bytes) -> bool:
        times.append(loop.time())
        if len(times) < len(gates):
            loop.call_later(idle / 2, gates[len(times)].set)
        return True

    gates[0].set()
    pieces = [piece for gate in gates for piece in (gate, b"x")]
    says = FakeChat().says(Wire([*pieces, Step.HANG]))
    async with says as upstream, post(http, upstream, timeouts=limits) as response:
        with pytest.raises(UpstreamError, match="stopped arriving"):
            async with asyncio.timeout(SOON + 4 * idle):
                await response.follow(follower)
    return times


async def test_a_follower_who_leaves_is_not_called_again(http: UpstreamClient) -> None:
    gate = asyncio.Event()
    heard: list[bytes] = []
    async with FakeChat().says(Wire([gate, b"a", Step.HANG])) as upstream, post(http, upstream) as response:
        following = asyncio.create_task(response.follow(heard.append))
        await asyncio.sleep(0)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        gate.set()
        assert await asyncio.wait_for(anext(response), SOON) == b"a"
    assert heard == []
    await until(lambda: not http.pool.connections)


async def test_a_short_answer_is_there_with_its_head(http: UpstreamClient) -> None:
    async with serving(answering(OK)) as server, get(http, server.url) as response:
        assert response.whole() == b"ok"
        assert response.whole() == b""


async def test_an_answer_that_has_not_ended_is_not_whole(http: UpstreamClient) -> None:
    gate = asyncio.Event()
    async with FakeChat().says(Wire([b"a", gate, b"b"])) as upstream, post(http, upstream) as response:
        assert response.whole() == b""
        gate.set()
        assert await response.read() == b"ab"


async def test_a_packed_answer_is_not_whole(http: UpstreamClient) -> None:
    packed = gzip.compress(b"hello")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with serving(answering(head + packed)) as server, get(http, server.url) as response:
        assert response.whole() == b""
        assert await response.read() == b"hello"


async def test_headers_last_longer_than_the_connection_is_ours(http: UpstreamClient) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Request-Id: %d\r\n\r\n"
    async with serving(answering(answer % 1, answer % 2)) as server:
        async with get(http, server.url) as first:
            pass
        async with get(http, server.url) as second:
            assert server.connections == 1
        assert [one.headers["x-request-id"] for one in (first, second)] == ["1", "2"]


async def test_a_trailer_is_no_header(http: UpstreamClient) -> None:
    answer = CHUNKED + b"0\r\nContent-Type: x/y\r\nX-Late: y\r\n\r\n"
    async with serving(answering(answer, OK)) as server:
        for expected in ({"transfer-encoding": "chunked"}, {"content-length": "2"}):
            async with get(http, server.url) as response:
                await response.read()
            assert dict(response.headers) == expected
        assert server.connections == 1


async def test_there_may_be_many_trailers(http: UpstreamClient) -> None:
    trailers = b"".join(b"X-%d: y\r\n" % n for n in range(HEADERS_LIMIT + 2))
    async with serving(answering(CHUNKED + b"2\r\nok\r\n")) as server, get(http, server.url) as response:
        assert await anext(response) == b"ok"
        [connection] = http.pool.connections
        for data in (b"0\r\n" + trailers, b"\r\n"):  # two reads
            connection.data_received(data)
            await asyncio.sleep(0)
        assert [piece async for piece in response] == []


def test_nothing_is_shown_of_a_request(http: UpstreamClient) -> None:
    exchange = http.post("http://h/", b"prompt", {"Authorization": "key"}, NEVER, "up")
    assert "key" not in repr(exchange)
    assert "prompt" not in repr(exchange)


# --- a law ------------------------------------------------------------------------------------------------

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWER = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (n, b"abcdefghi"[:n]) for n in range(1, 10)) + b"0\r\n\r\n"
TEXT = b"".join(b"abcdefghi"[:n] for n in range(1, 10))


async def _followed(edges: list[int], pauses: Iterator[bool], takes: Iterator[bool]) -> bytes:
    heard: list[bytes] = []

    def follower(data: bytes) -> bool:
        heard.append(data)
        return next(takes)

    async def follow(response: UpstreamExchange) -> None:
        while await response.follow(follower):
            pass

    async with _opened(CHUNKED) as (connection, response, _):
        following = asyncio.create_task(follow(response))
        for start, end in pairwise(edges):
            if next(pauses):
                await asyncio.sleep(0)
            if start < end:
                connection.data_received(ANSWER[start:end])
        await asyncio.wait_for(following, SOON)
    return b"".join(heard)


some = st.lists(st.booleans(), min_size=1, max_size=8)


@given(st.lists(st.integers(len(CHUNKED), len(ANSWER)), max_size=12), some, some)
def test_no_byte_is_lost_or_told_twice(cuts: list[int], pauses: list[bool], takes: list[bool]) -> None:
    edges = [len(CHUNKED), *sorted(cuts), len(ANSWER)]
    assert asyncio.run(_followed(edges, cycle(pauses), cycle(takes))) == TEXT
