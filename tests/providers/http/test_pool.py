"""Which connections are kept, which of them is taken, and what happens when one is dead."""

import asyncio
import os
from math import inf

import pytest

from antiphon.config import UpstreamTimeouts
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient, pool
from tests.providers.fake_server import SOON
from tests.providers.http.raw import (
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


async def list_pages(reader: Reader, writer: Writer) -> None:
    """Every answer is the port that the connection came from."""
    while True:
        await request(reader)
        port = str(writer.get_extra_info("peername")[1]).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(port), port))


async def test_the_latest_is_taken_first(http: UpstreamClient) -> None:
    async with serving(list_pages) as server:
        async with get(http, server.url) as first, get(http, server.url) as second:
            early, late = await first.read(), await second.read()
        # `second` was left first, so `first` is the latest.
        assert [await body(get(http, server.url)) for _ in range(2)] == [early, early]
        async with get(http, server.url) as one, get(http, server.url) as other:
            assert (await one.read(), await other.read()) == (early, late)
        assert server.connections == 2


async def test_other_servers_have_other_connections(http: UpstreamClient) -> None:
    async with serving(list_pages) as one, serving(answering(OK)) as other:
        await body(get(http, one.url))
        assert await body(get(http, other.url)) == b"ok"
        assert (one.connections, other.connections) == (1, 1)


async def test_an_unasked_answer_closes_its_connection_before_the_next_request(http: UpstreamClient) -> None:
    """It lies in the socket's buffer, and the event loop has not seen it."""
    writers: list[Writer] = []

    async def handler(reader: Reader, writer: Writer) -> None:
        writers.append(writer)
        while True:
            await request(reader)
            writer.write(OK)

    async with serving(handler) as server:
        assert await body(get(http, server.url)) == b"ok"
        unasked = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged"
        assert os.write(writers[0].get_extra_info("socket").fileno(), unasked) == len(unasked)
        assert await body(get(http, server.url)) == b"ok"
        assert server.connections == 2


class Straying:
    """Sends an answer that no request asked for: behind its first answer, or a little later."""

    def __init__(self, *, at_once: bool) -> None:
        self.may_stray = asyncio.Event()
        self.at_once = at_once
        self.answers = 0

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        while True:
            await request(reader)
            self.answers += 1
            writer.write(OK)
            if self.answers == 1:
                if not self.at_once:
                    await self.may_stray.wait()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged")


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_upstream_that_sent_what_no_request_asked_for_gets_no_kept_connections(
    http: UpstreamClient, at_once: bool
) -> None:
    handler = Straying(at_once=at_once)
    async with serving(handler) as server, serving(answering(OK)) as other:
        async with get(http, server.url) as first:
            await body(get(http, server.url))  # on a second connection, which waits for work now
            assert await first.read() == b"ok"
        handler.may_stray.set()
        await until(lambda: bool(http.pool.distrusted))
        for _ in range(3):
            assert await body(get(http, server.url)) == b"ok"
            assert await body(get(http, other.url)) == b"ok"
        assert (server.connections, other.connections) == (5, 1)
        [until_when] = http.pool.distrusted.values()
        left = until_when - asyncio.get_running_loop().time()
        assert 0 < left <= pool.DISTRUST
        await until(lambda: len(http.pool.connections) == 1)


async def test_a_distrusted_upstream_is_trusted_again_in_time(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "DISTRUST", 0.0)
    handler = Straying(at_once=True)
    async with serving(handler) as server:
        assert await body(get(http, server.url)) == b"ok"
        await until(lambda: bool(http.pool.distrusted))
        for _ in range(3):
            assert await body(get(http, server.url)) == b"ok"
        assert server.connections == 2
        assert not http.pool.distrusted


async def test_few_upstreams_are_distrusted_at_a_time(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MOST_DISTRUSTED", 2)
    origins = [http.find(f"http://{name}.example/", False).origin for name in "abac"]
    for now, origin in enumerate(origins):
        http.pool.distrust(origin, float(now))
    assert [host for _, host, _ in http.pool.distrusted] == ["a.example", "c.example"]


async def test_an_upstream_that_hangs_up_on_a_kept_connection_is_trusted(http: UpstreamClient) -> None:
    async with serving(answering(OK, then="close")) as server:
        for _ in range(3):
            assert await body(get(http, server.url)) == b"ok"
        await until(lambda: not http.pool.connections)
        assert not http.pool.distrusted


async def test_one_that_waits_too_long_is_closed(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "KEEP_ALIVE", 0.02)
    async with serving(list_pages) as server:
        for _ in range(2):
            await body(get(http, server.url))
            await asyncio.wait_for(server.gone.wait(), SOON)
            server.gone.clear()
        assert server.connections == 2
        await until(lambda: http.deadlines.next == inf)


async def test_one_that_has_waited_too_long_is_not_taken(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(list_pages) as server:
        await body(get(http, server.url))
        [connection] = http.pool.connections
        connection.expires = asyncio.get_running_loop().time()
        await body(get(http, server.url))
        assert server.connections == 2


async def test_one_that_may_wait_on_is_not_closed(http: UpstreamClient) -> None:
    async with serving(list_pages) as server:
        port = await body(get(http, server.url))
        [connection] = http.pool.connections
        assert connection.check(connection.expires - 10) == connection.expires
        assert connection.check(connection.expires - 0.1) > connection.expires
        assert await body(get(http, server.url)) == port
        connection.check(connection.expires)
        await asyncio.wait_for(server.gone.wait(), SOON)


async def test_one_that_works_is_closed_when_its_work_takes_too_long(http: UpstreamClient) -> None:
    limits = UpstreamTimeouts(connect=0, first_byte=0, idle=0, total=1000)
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\nhalf", then="wait")) as server:
        async with get(http, server.url, timeouts=limits) as response:
            [connection] = http.pool.connections
            assert connection.check(response.started + 999) == response.started + 1000
            connection.check(response.started + 1000)
            with pytest.raises(UpstreamError, match="did not end within 1000"):
                await response.read()
        assert connection.check(response.started + 2000) == inf


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (b"timeout=5", 4),
        (b"timeout=1, max=100", 0.5),
        (b"max=100, Timeout = 20", 19),
        (b"timeout=900", 30),
        (b"timeout=0", 0),
        (b"max=100", 30),
    ],
)
def test_how_long_one_is_kept(told: bytes, seconds: float) -> None:
    assert pool._keep_alive_seconds(told) == seconds


async def test_the_upstream_says_how_long_it_keeps_one(http: UpstreamClient) -> None:
    answer = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=%d\r\nContent-Length: 0\r\n\r\n"
    async with serving(answering(answer % 5, answer % 0)) as server:
        await body(get(http, server.url))
        [connection] = http.pool.connections
        left = connection.expires - asyncio.get_running_loop().time()
        assert 3 < left <= 4
        await body(get(http, server.url))
        assert server.connections == 1
        await until(lambda: not http.pool.connections)


async def test_what_the_upstream_has_said_holds(http: UpstreamClient) -> None:
    said = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n"
    async with serving(answering(said, OK)) as server:
        for _ in range(2):
            await body(get(http, server.url))
        [connection] = http.pool.connections
        assert connection.expires - asyncio.get_running_loop().time() <= 4


@pytest.mark.parametrize("sends", [b"", b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"])
async def test_one_that_speaks_or_ends_unasked_is_dropped(http: UpstreamClient, sends: bytes) -> None:
    hang_up = asyncio.Event()

    async def once(reader: Reader, writer: Writer) -> None:
        await request(reader)
        writer.write(OK)
        await hang_up.wait()
        writer.write(sends)

    async with serving(once) as server:
        assert await body(get(http, server.url)) == b"ok"
        assert len(http.pool.connections) == 1
        hang_up.set()
        await until(lambda: not http.pool.connections)
        assert http.find(server.url, False).origin.idle == []
        assert await body(get(http, server.url)) == b"ok"
        assert server.connections == 2


# --- dead connections -------------------------------------------------------------------------------------


class Dying:
    """Answers the first request; what it does with each later one is its last words, and it hangs up."""

    def __init__(self, *last_words: bytes) -> None:
        self.left = list(last_words)
        self.requests = 0

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        while True:
            await request(reader)
            self.requests += 1
            if self.requests == 1 or not self.left:
                writer.write(OK)
            else:
                writer.write(self.left.pop(0))
                return


async def test_a_request_that_nobody_heard_is_sent_again(http: UpstreamClient) -> None:
    handler = Dying(b"")
    async with serving(handler) as server:
        assert [await body(get(http, server.url)) for _ in range(2)] == [b"ok", b"ok"]
        assert (handler.requests, server.connections) == (3, 2)


async def test_it_is_sent_again_only_once(http: UpstreamClient) -> None:
    handler = Dying(b"", b"", b"")
    async with serving(handler) as server:
        await body(get(http, server.url))
        error = await failure(get(http, server.url))
        assert error.payload.code == "upstream_closed"
        assert (handler.requests, server.connections) == (3, 2)


@pytest.mark.parametrize("last_words", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_request_that_was_answered_is_not_sent_again(http: UpstreamClient, last_words: bytes) -> None:
    handler = Dying(last_words)
    async with serving(handler) as server:
        await body(get(http, server.url))
        error = await failure(get(http, server.url))
        assert error.payload.code == "upstream_closed"
        assert handler.requests == 2


async def test_a_request_that_took_too_long_is_not_sent_again(http: UpstreamClient) -> None:
    limits = UpstreamTimeouts(connect=0, first_byte=SOON, idle=0, total=0)
    requests = 0

    async def handler(reader: Reader, writer: Writer) -> None:
        nonlocal requests
        while True:
            await request(reader)
            requests += 1
            if requests == 1:
                writer.write(OK)

    async with serving(handler) as server:
        await body(get(http, server.url))
        exchange = get(http, server.url, timeouts=limits)
        asking = asyncio.create_task(failure(exchange))
        await until(lambda: requests == 2)
        exchange.check(exchange.started + SOON)
        assert (await asking).payload.code == "timeout"
        await asyncio.wait_for(server.gone.wait(), SOON)
        assert requests == 2


async def test_closing_ends_what_is_still_open(http: UpstreamClient) -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\nhalf", then="wait")) as server:
        async with get(http, server.url) as response:
            assert await anext(response) == b"half"
            await http.close()
            await asyncio.wait_for(server.gone.wait(), SOON)
        assert http.pool.connections == set()
