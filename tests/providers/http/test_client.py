"""The upstream client over real sockets: limits, back-pressure, pooling, and what it leaves behind."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pytest

from antiphon.config import UpstreamTimeouts
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient, UpstreamExchange
from tests.providers.chat.fake import FakeChat, Step, Wire, refusal, refusing_address
from tests.providers.chat.wire import DONE, text
from tests.providers.fake_server import SOON
from tests.providers.http.raw import until

NEVER = UpstreamTimeouts(connect=0, first_byte=0, idle=0, total=0)
HEADERS = {"Content-Type": "application/json"}
BODY = b'{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}'
HANGS = Wire([text("a"), Step.HANG])


def post(
    http: UpstreamClient,
    upstream: FakeChat | str,
    *,
    timeouts: UpstreamTimeouts = NEVER,
    body: bytes = BODY,
    reuse: bool = True,
) -> UpstreamExchange:
    base = upstream if isinstance(upstream, str) else upstream.base_url
    url = f"{base}/chat/completions"
    return http.post(url, body, HEADERS, timeouts, provider="up", reuse=reuse)


async def read(exchange: UpstreamExchange) -> bytes:
    async with exchange as response:
        return await response.read()


async def error(exchange: UpstreamExchange) -> tuple[int, str | None, str]:
    with pytest.raises(UpstreamError) as caught:
        await read(exchange)
    return caught.value.status, caught.value.payload.code, caught.value.payload.message


async def test_an_answer(http: UpstreamClient) -> None:
    async with FakeChat().says(refusal(418, b"teapot", x_request_id="r")) as upstream:
        async with post(http, upstream) as response:
            assert response.status == 418
            assert response.headers["X-Request-Id"] == "r"
            assert response.content_type == "application/json"
            assert [data async for data in response] == [b"teapot"]
        [received] = upstream.requests
        assert received.headers["user-agent"].startswith("antiphon/")
        assert received.headers["accept-encoding"] == "identity"
        assert "cookie" not in received.headers


async def test_bytes_come_as_they_are_sent(http: UpstreamClient) -> None:
    gates = [asyncio.Event() for _ in range(3)]
    pieces = [piece for n, gate in enumerate(gates) for piece in (gate, b"%d" % n)]
    async with FakeChat().says(Wire(pieces)) as upstream, post(http, upstream) as response:
        for n, gate in enumerate(gates):
            gate.set()
            assert await anext(response) == b"%d" % n


async def test_reading_makes_no_task_and_no_timer(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = [asyncio.Event() for _ in range(20)]
    pieces = [piece for gate in gates for piece in (gate, b"x")]
    limits = UpstreamTimeouts(connect=60, first_byte=60, idle=60, total=600)
    loop = asyncio.get_running_loop()
    timers: list[object] = []

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            timers.append(args)
            return original(*args, **kwargs)

        return count

    says = FakeChat().says(Wire([*pieces, Step.HANG]))
    async with says as upstream, post(http, upstream, timeouts=limits) as response:
        tasks = asyncio.all_tasks()
        monkeypatch.setattr(loop, "call_later", counted(loop.call_later))
        monkeypatch.setattr(loop, "call_at", counted(loop.call_at))
        for gate in gates:
            gate.set()
            assert await anext(response) == b"x"
        assert timers == []
        assert asyncio.all_tasks() <= tasks


# --- limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["first_byte", "total"])
async def test_no_answer(http: UpstreamClient, name: str) -> None:
    limits = UpstreamTimeouts(**{"connect": 0, "first_byte": 0, "idle": 0, "total": 0, name: 0.05})
    async with FakeChat().says(Wire([b"a"]), Wire([Step.HANG], framing="raw")) as upstream:
        await read(post(http, upstream))  # so that there is a connection, however long it took to make one
        status, code, message = await error(post(http, upstream, timeouts=limits))
        assert (status, code) == (504, "timeout")
        assert message == "up: no answer within 0.05 s"
        await asyncio.wait_for(upstream.gone.wait(), SOON)


async def test_an_answer_that_does_not_go_on(http: UpstreamClient) -> None:
    limits = UpstreamTimeouts(connect=0, first_byte=0, idle=0.05, total=0)
    async with FakeChat().says(HANGS) as upstream:
        assert await error(post(http, upstream, timeouts=limits)) == (
            504,
            "timeout",
            "up: the answer stopped arriving within 0.05 s",
        )
        await asyncio.wait_for(upstream.gone.wait(), SOON)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_an_answer_that_does_not_end(http: UpstreamClient, is_streamed: bool) -> None:
    seconds = [0.1, 1.0, SOON]
    async with FakeChat().says(*(Wire(repeat(b" ")) for _ in seconds)) as upstream:
        for limit in seconds:
            limits = UpstreamTimeouts(connect=0, first_byte=0, idle=10, total=limit)
            if not is_streamed:
                limits = UpstreamTimeouts(connect=0, whole=limit, idle=10, total=0).for_answer(stream=False)
            found = await error(post(http, upstream, timeouts=limits))
            if "no answer" not in found[2]:  # a busy machine may need longer to begin one
                break
        assert found == (504, "timeout", f"up: the answer did not end within {limit:g} s")


async def test_a_slow_reader_is_no_silent_upstream(http: UpstreamClient) -> None:
    limits = UpstreamTimeouts(connect=0, first_byte=0, idle=SOON, total=0)
    gate = asyncio.Event()
    says = FakeChat().says(Wire([b"a", gate, b"b"]))
    async with says as upstream, post(http, upstream, timeouts=limits) as response:
        assert await anext(response) == b"a"
        now = asyncio.get_running_loop().time()
        response.check(now + 10 * SOON)  # nobody waits for the upstream
        assert response._connection is not None
        response._connection.heard -= 10 * SOON
        reading = asyncio.ensure_future(anext(response))
        await asyncio.sleep(0)
        response.check(now)  # somebody does, but not for long
        gate.set()
        assert await reading == b"b"


async def test_no_connection(http: UpstreamClient) -> None:
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        # The queue of a listener that accepts nobody is full after these, and later ones wait.
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        limits = UpstreamTimeouts(connect=0.1, first_byte=0, idle=0, total=0)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        assert await error(post(http, address, timeouts=limits)) == (
            504,
            "timeout",
            "up: no connection within 0.1 s",
        )


async def test_a_body_above_the_limit(http: UpstreamClient) -> None:
    async with FakeChat().says(Wire([b"x" * 100])) as upstream, post(http, upstream) as response:
        with pytest.raises(UpstreamError, match="longer than 99 bytes"):
            await response.read(99)


async def test_an_error_is_read_only_so_far(http: UpstreamClient) -> None:
    says = FakeChat().says(Wire([b"x" * 100, Step.HANG], 500))
    async with says as upstream, post(http, upstream) as response:
        assert await response.read_error(60) == b"x" * 60


async def test_an_error_that_does_not_end(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.providers.http.exchange.ERROR_BODY_TIMEOUT", 0.05)
    says = FakeChat().says(Wire([b"half", Step.HANG], 500))
    async with says as upstream, post(http, upstream) as response:
        assert await response.read_error() == b"half"


# --- failures ---------------------------------------------------------------------------------------------


async def test_refused(http: UpstreamClient) -> None:
    with refusing_address() as address:
        status, code, message = await error(post(http, address))
    assert (status, code) == (502, "upstream_unreachable")
    assert "refused" in message


async def test_a_name_that_does_not_resolve(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    status, code, message = await error(post(http, "http://nowhere.invalid/v1"))
    assert (status, code) == (502, "upstream_unreachable")
    assert "resolved" in message


async def test_tls_to_a_plain_server(http: UpstreamClient) -> None:
    def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 this is not TLS")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        status, code, _ = await error(post(http, address))
    assert (status, code) == (502, "upstream_unreachable")


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([b"this is no HTTP\r\n\r\n", Step.CLOSE], "upstream_invalid"),
        ([Step.CLOSE], "upstream_closed"),
        ([Step.RESET], "upstream_closed"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", Step.CLOSE], "upstream_closed"),
        (
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", Step.RESET],
            "upstream_closed",
        ),
        (
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n", Step.CLOSE],
            "upstream_invalid",
        ),
    ],
)
async def test_broken_answers(http: UpstreamClient, pieces: list[bytes | Step], code: str) -> None:
    async with FakeChat().says(Wire(pieces, framing="raw")) as upstream:
        assert (await error(post(http, upstream)))[:2] == (502, code)
        assert len(upstream.requests) == 1


async def test_hanging_up_at_once(http: UpstreamClient) -> None:
    def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        for _ in range(20):
            status, code, _ = await error(post(http, address))
            assert (status, code) == (502, "upstream_closed")
        await until(lambda: not http.pool.connections)


async def test_redirects_are_not_followed(http: UpstreamClient) -> None:
    async with FakeChat() as other, FakeChat() as upstream:
        upstream.says(Wire([], 307, {"location": f"{other.base_url}/chat/completions"}))
        async with post(http, upstream) as response:
            assert response.status == 307
        assert other.requests == []


# --- connections ------------------------------------------------------------------------------------------


async def test_connections_are_kept(http: UpstreamClient) -> None:
    async with FakeChat() as upstream:
        for _ in range(3):
            await read(post(http, upstream))
        assert (len(upstream.requests), upstream.connections) == (3, 1)


async def test_connections_are_not_kept_where_they_must_not_be(http: UpstreamClient) -> None:
    async with FakeChat() as upstream:
        for _ in range(3):
            await read(post(http, upstream, reuse=False))
        assert upstream.connections == 3


async def test_a_finished_answer_may_end_later(http: UpstreamClient) -> None:
    gate = asyncio.Event()
    async with FakeChat().says(Wire([DONE, gate])) as upstream:
        async with post(http, upstream) as response:
            assert await anext(response) == DONE
            response.mark_finished()
        gate.set()
        async with asyncio.timeout(SOON):
            while http.pool.lingering:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await read(post(http, upstream))
        assert upstream.connections == 1


async def test_a_finished_answer_that_does_not_end_is_closed(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.providers.http.pool.LINGER", 0.05)
    async with FakeChat().says(Wire([DONE, Step.HANG])) as upstream:
        async with post(http, upstream) as response:
            await anext(response)
            response.mark_finished()
        await asyncio.wait_for(upstream.gone.wait(), SOON)
        assert not http.pool.lingering


async def test_closing_leaves_nothing_behind() -> None:
    http = UpstreamClient()
    async with FakeChat().says(Wire([DONE, Step.HANG])) as upstream:
        async with post(http, upstream) as response:
            await anext(response)
            response.mark_finished()
        await http.close()
        await asyncio.wait_for(upstream.gone.wait(), SOON)


def test_a_closed_client_may_go_on_in_another_loop() -> None:
    http = UpstreamClient()

    async def ask() -> bytes:
        async with FakeChat() as upstream:
            answer = await read(post(http, upstream))
            await http.close()
            return answer

    assert b"[DONE]" in asyncio.run(ask())
    assert b"[DONE]" in asyncio.run(ask())


async def test_leaving_closes_the_connection_at_once(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.providers.http.pool.LINGER", 1000)
    async with FakeChat().says(HANGS) as upstream:
        async with post(http, upstream) as response:
            await anext(response)
        await asyncio.wait_for(upstream.gone.wait(), SOON)


async def test_a_dead_connection_from_the_pool_is_replaced(http: UpstreamClient) -> None:
    async with FakeChat() as upstream:
        await read(post(http, upstream))
        upstream.says(Wire([Step.CLOSE], framing="raw"))
        assert b"[DONE]" in await read(post(http, upstream))
        assert (len(upstream.requests), upstream.connections) == (3, 2)


async def test_a_large_body(http: UpstreamClient) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"x" * 3_000_000)
    async with FakeChat() as upstream:
        assert len(await read(post(http, upstream, body=body))) > 3_000_000


async def test_a_slow_reader_stops_the_upstream(http: UpstreamClient) -> None:
    size, count = 64 * 1024, 1024
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(count):
            sent += 1
            yield b"x" * size

    async with FakeChat().says(Wire(pieces())) as upstream, post(http, upstream) as response:
        held = await anext(response)
        before = -1
        while sent != before:  # until the upstream has filled every buffer on the way
            before = sent
            await asyncio.sleep(0.05)
        assert sent < count // 2
        total = len(held) + sum([len(data) async for data in response])
    assert total == size * count


# --- proxies ----------------------------------------------------------------------------------------------


async def test_the_environments_proxy_is_used(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeChat() as proxy, FakeChat() as direct:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        await read(post(http, "http://upstream.invalid/v1"))
        await read(post(http, direct))
        assert [one.path for one in proxy.requests] == ["http://upstream.invalid/v1/chat/completions"]
        assert len(direct.requests) == 1


async def test_warming_needs_no_request(http: UpstreamClient) -> None:
    await http.warm()
