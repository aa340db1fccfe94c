"""What clients send is held within limits, whoever they are, and let go of however it ends."""

import asyncio
import gzip
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from antiphon.server.app import App
from antiphon.server.gateway import Gateway
from antiphon.server.http1.websockets import WebSocketConnection
from antiphon.server.memory import BodyMemory, Held
from antiphon.spec.errors import SpecError
from antiphon.wires.asgi import Message
from antiphon.wires.responses_socket import WAITING_BYTES
from tests.producer.serving import serving
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http1.test_websockets import HANDSHAKE, hear
from tests.server.http_calls import dial, turn
from tests.server.raw_connection import CLOSE, Line, answers, line, post
from tests.server.servers import Serving, configure, until
from tests.server.upstream import Upstream

KB = 1000
LIMITS = {"SERVER__BODY_LIMIT": "600000", "SERVER__MEMORY_LIMIT": "1000000"}


@dataclass
class Running:
    """A server of either kind, with its gateway at hand."""

    app: App
    url: str

    @property
    def gateway(self) -> Gateway:
        assert self.app.gateway is not None
        return self.app.gateway

    def held(self) -> int:
        return self.gateway.memory.held


@pytest.fixture(scope="module", params=["direct", "asgi"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, talking: Voice
) -> Iterator[Running]:
    config = configure(tmp_path_factory.mktemp("server"), talking.toml, **LIMITS)
    with ExitStack() as running:
        if request.param == "direct":
            direct = running.enter_context(Serving(config))
            yield Running(direct.app, direct.url)
        else:
            app = App(config)
            yield Running(app, running.enter_context(serving(app)))


def padded(size: int, text: str = "hello") -> bytes:
    """A request that is as long as that."""
    body = json.dumps({"model": "scripted", "input": text}).encode()
    return body + b" " * (size - len(body))


def half(connection: Line, server: Running, *, chunked: bool) -> bytes:
    """Sends 500 kB of a body; returns the rest of it."""
    before = server.held()
    body = padded(590 * KB)
    if chunked:
        connection.send(post(b"Transfer-Encoding: chunked", CLOSE, body=b""), b"7a120\r\n", body[:500_000])
        rest = b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (90_000, body[500_000:])
    else:
        request = post(CLOSE, body=body)
        connection.send(request[:-90_000])
        rest = request[-90_000:]
    until(lambda: server.held() > before + 400 * KB)
    return rest


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_bodies_of_all_clients_together_are_bounded(server: Running, chunked: bool) -> None:
    with line(server) as first, line(server) as second, line(server) as small:
        rest = half(first, server, chunked=chunked)
        second.send(post(body=padded(590 * KB))[:1000])
        [refused] = answers(second.until(b"}"), "POST")
        small.send(post(CLOSE))
        [answered] = answers(small.rest(), "POST")
        first.send(rest)
        [finished] = answers(first.rest(), "POST")
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert json.loads(refused.body)["error"]["code"] == "memory_limit"
    assert (answered.status, finished.status) == (200, 200)
    until(lambda: server.held() == 0)


def test_two_bodies_that_grow_together_do_not_pass_the_limit(server: Running) -> None:
    with line(server) as first, line(server) as second:
        half(first, server, chunked=True)
        second.send(post(b"Transfer-Encoding: chunked", CLOSE, body=b""), b"927c0\r\n", b" " * 600_000)
        [refused] = answers(second.rest(), "POST")
        assert refused.status == 503
        assert server.held() <= server.gateway.memory.limit
    until(lambda: server.held() == 0)


def test_a_body_is_held_until_it_is_answered(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml, **LIMITS)
    with line(server) as connection:
        connection.send(post(CLOSE, body=padded(590 * KB).replace(b"scripted", b"model")))
        call = upstream.next()
        assert server.gateway.memory.held > 400 * KB
        call.finish("Hello.")
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200
    until(lambda: server.gateway.memory.held == 0)


# --- packed bodies ----------------------------------------------------------------------------------------

PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}


def packed(name: str, body: bytes) -> bytes:
    return post(b"Content-Encoding: " + name.encode(), CLOSE, body=body)


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("size", [60, 500 * KB])
def test_a_packed_body_is_read(server: Running, name: str, size: int) -> None:
    with line(server) as connection:
        connection.send(packed(name, PACKERS[name](padded(size))))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200, answer.body


def test_a_body_that_is_said_not_to_be_packed_is_read(server: Running) -> None:
    with line(server) as connection:
        connection.send(packed("identity", padded(60)))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200


@pytest.mark.parametrize("name", PACKERS)
def test_unpacking_stops_at_the_limit_of_a_body(
    server: Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    hold = Held.hold

    def note(self: Held, size: int, expected: int = 0) -> None:
        sizes.append(size)
        hold(self, size, expected)

    monkeypatch.setattr(Held, "hold", note)
    with line(server) as connection:
        connection.send(packed(name, PACKERS[name](b" " * 50_000_000)))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (413, "body_too_large")
    assert max(sizes) < 1000 * KB


def test_what_is_unpacked_counts_with_the_bodies_of_others(server: Running) -> None:
    with line(server) as first, line(server) as second:
        half(first, server, chunked=False)
        second.send(packed("gzip", gzip.compress(padded(590 * KB))))
        [refused] = answers(second.rest(), "POST")
    assert refused.status == 503
    until(lambda: server.held() == 0)


@pytest.mark.parametrize("name", ["br", "deflate", "gzip, zstd", "gzip, gzip"])
def test_a_body_that_is_packed_in_another_way_is_refused(server: Running, name: str) -> None:
    with line(server) as connection:
        connection.send(packed(name, b"x"))
        [answer] = answers(connection.rest(), "POST")
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (415, "unsupported_encoding")
    assert "gzip or zstd" in error["message"]


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body[:-1],
        lambda body: body + b"x",
        lambda body: b"x" + body,
        lambda body: body * 2 + body[:-1],
        lambda body: body * 5000,
    ],
    ids=["cut off", "more", "broken", "cut off in the third part", "too many parts"],
)
def test_a_packed_body_that_is_broken_is_told_so(
    server: Running, name: str, spoil: Callable[[bytes], bytes]
) -> None:
    with line(server) as connection:
        connection.send(packed(name, spoil(PACKERS[name](padded(60)))))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "invalid_encoding")


@pytest.mark.parametrize("name", PACKERS)
def test_a_packed_body_may_have_several_parts(server: Running, name: str) -> None:
    """As `cat one.gz other.gz` makes it, and programs that pack with several threads."""
    body, pack = padded(200_000), PACKERS[name]
    parts = [pack(body[at : at + 30_000]) for at in range(0, len(body), 30_000)]
    with line(server) as connection:
        connection.send(packed(name, b"".join([*parts[:3], pack(b""), *parts[3:]])))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200


@pytest.mark.parametrize("name", PACKERS)
def test_all_parts_of_a_packed_body_count_for_the_limit(server: Running, name: str) -> None:
    with line(server) as connection:
        connection.send(packed(name, PACKERS[name](b" " * 1_000_000) * 100))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (413, "body_too_large")


def test_a_zstd_frame_may_not_ask_for_a_large_window(server: Running) -> None:
    """The head of a frame with a window of a gigabyte, and a block of one byte."""
    frame = b"\x28\xb5\x2f\xfd\x00\xa0" + b"\x09\x00\x00x"
    with line(server) as connection:
        connection.send(packed("zstd", frame))
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "invalid_encoding")


# --- WebSockets -------------------------------------------------------------------------------------------


def framed(data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def create(size: int) -> bytes:
    body = json.dumps({"type": "response.create", "model": "scripted", "input": "hello"}).encode()
    return body + b" " * (size - len(body))


def websocket_behind(server: Serving) -> WebSocketConnection:
    every: list[object] = list(server._server.server_state.connections)
    (found,) = (one for one in every if isinstance(one, WebSocketConnection))
    return found


def offer(connection: Line, data: bytes) -> int:
    """Sends until nothing is taken for a second; how much was."""
    connection.socket.settimeout(1)
    sent = 0
    view = memoryview(data)
    try:
        while sent < len(data):
            sent += connection.socket.send(view[sent : sent + 65536])
    except TimeoutError:
        pass
    return sent


def test_what_waits_on_a_socket_is_bounded(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    size = 2 * WAITING_BYTES
    with line(server) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        connection.send(HANDSHAKE + framed(create(100).replace(b"scripted", b"model")))
        call = upstream.next()
        taken = offer(connection, framed(create(size)) * 16)
        assert taken < 8 * size
        assert server.gateway.memory.held < 4 * size
        assert websocket_behind(server).read_paused
    call.finish("Hello.")
    until(lambda: server.gateway.memory.held == 0)


def test_messages_that_waited_are_answered(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    upstream.answer = "Hello."
    message = create(2 * WAITING_BYTES).replace(b"scripted", b"model").decode()
    with dial(server) as connection:
        for _ in range(4):
            connection.send(message)
        ends = 0
        while ends < 4:
            ends += json.loads(connection.recv())["type"] == "response.completed"
    until(lambda: server.gateway.memory.held == 0)


def test_a_client_whose_messages_wait_is_not_taken_for_dead(serve: Serve, upstream: Upstream) -> None:
    """Its pongs lie behind what is not read."""
    server = serve(upstream.toml)

    async def no_pong() -> bool:
        there = websocket_behind(server)
        there.keepalive_timeout()
        return there.close_sent

    with line(server) as connection:
        connection.send(HANDSHAKE + framed(create(100).replace(b"scripted", b"model")))
        upstream.next()
        offer(connection, framed(create(2 * WAITING_BYTES)) * 3)
        until(lambda: websocket_behind(server).read_paused)
        assert not server.call(no_pong())


def test_a_message_that_finds_no_room_closes_its_socket(serve: Serve, talking: Voice) -> None:
    server = serve(talking.toml, **LIMITS)
    running = Running(server.app, server.url)
    with line(server) as first, dial(server) as connection:
        half(first, running, chunked=True)
        with pytest.raises(ConnectionClosed) as closed:
            turn(connection, model="scripted", input="hello", user="z" * 550_000)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    until(lambda: running.held() == 0)


async def test_another_server_hands_a_message_over_and_it_is_told_why_not(
    tmp_path: Path, upstream: Upstream
) -> None:
    upstream.answer = "Hello."
    app = App(configure(tmp_path, upstream.toml, **LIMITS))
    assert await app.open()
    assert app.gateway is not None
    others = Held(app.gateway.memory)
    others.hold(900 * KB)
    told: asyncio.Queue[Message] = asyncio.Queue()
    waiting: asyncio.Queue[Message] = asyncio.Queue()
    scope = {"type": "websocket", "path": "/v1/responses", "headers": [(b"host", b"localhost")]}
    talk = asyncio.ensure_future(app(scope, waiting.get, told.put))

    async def answered(message: Message) -> Any:
        waiting.put_nowait(message)
        while True:
            text = (await told.get()).get("text")
            event = json.loads(text) if text else {"type": ""}
            if event["type"] in ("error", "response.completed"):
                return event

    waiting.put_nowait({"type": "websocket.connect"})
    message = {"type": "websocket.receive", "text": create(500 * KB).decode().replace("scripted", "model")}
    refused = await answered(message)
    assert (refused["status"], refused["error"]["code"]) == (503, "memory_limit")
    others.hold(0)
    assert (await answered(message))["type"] == "response.completed"
    waiting.put_nowait({"type": "websocket.disconnect"})
    await talk
    assert app.gateway.memory.held == 0
    await app.gateway.close()


@pytest.mark.parametrize("opcode", [0x81, 0x01], ids=["one frame", "several"])
def test_a_message_that_is_not_complete_counts_too(serve: Serve, upstream: Upstream, opcode: int) -> None:
    server = serve(upstream.toml, **LIMITS)
    head = bytes([opcode, 0xFF]) + (500 * KB).to_bytes(8) + b"\0\0\0\0"
    sent = head + b" " * (500 * KB if opcode == 0x01 else 499 * KB)
    with line(server) as first, line(server) as second, line(server) as third:
        for connection in (first, second, third):
            connection.send(HANDSHAKE)
            hear(connection, b"\r\n\r\n")
        first.send(sent)
        until(lambda: server.gateway.memory.held >= 499 * KB)
        second.send(sent[:400_000])
        until(lambda: server.gateway.memory.held >= 890 * KB)
        third.send(sent[:90_000])
        until(lambda: server.gateway.memory.held >= 980 * KB)
        third.send(sent[:20_000])
        closed = third.rest()
    assert closed[0] == 0x88
    assert int.from_bytes(closed[2:4]) == 1013
    until(lambda: server.gateway.memory.held == 0)


def test_frames_without_end_do_not_pile_up(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    upstream.answer = "Hello."
    message = create(103).replace(b"scripted", b"model")
    with line(server) as connection:
        connection.send(HANDSHAKE + framed(message[:1], fin=False))
        hear(connection, b"\r\n\r\n")
        connection.send(framed(b"", Opcode.CONT, fin=False) * 10_000)
        connection.send(*(framed(message[n : n + 1], Opcode.CONT, fin=False) for n in range(1, 99)))
        until(lambda: len(websocket_behind(server)._message) == 99)
        assert websocket_behind(server).frames == []
        connection.send(framed(message[99:], Opcode.CONT))
        assert hear(connection, b"response.completed")


def test_pings_whose_pongs_are_not_read_do_not_pile_up(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    handle = WebSocketConnection.handle_ping

    def note(self: WebSocketConnection) -> None:
        handle(self)
        heard.append(self.transport.get_write_buffer_size())

    monkeypatch.setattr(WebSocketConnection, "handle_ping", note)
    server = serve(upstream.toml)
    with line(server) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.send(HANDSHAKE)
        hear(connection, b"\r\n\r\n")
        there = websocket_behind(server)
        there.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection.send(framed(b"x" * 125, Opcode.PING) * 30_000 + framed(b"the last", Opcode.PING))
        until(lambda: len(heard) == 30_001)
        assert max(heard) < 600 * KB
        assert hear(connection, b"the last")


# --- whatever happens -------------------------------------------------------------------------------------


@given(sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 900), st.integers(0, 900)), max_size=20))
def test_no_more_than_the_limit_is_ever_held(sizes: list[tuple[int, int, int]]) -> None:
    memory = BodyMemory(1000 * KB)
    parts = [Held(memory) for _ in range(3)]
    for number, size, expected in sizes:
        before = parts[number].size
        try:
            parts[number].hold(size * KB, expected * KB)
        except SpecError:
            assert parts[number].size == before <= size * KB
        assert memory.held == sum(part.size for part in parts) <= memory.limit
    for part in parts:
        part.hold(0)
    assert memory.held == 0


def _leave_in_the_middle(connection: Line, server: Running) -> None:
    connection.send(post(body=padded(590 * KB))[:-90_000])


def _break_a_chunk(connection: Line, server: Running) -> None:
    connection.send(post(b"Transfer-Encoding: chunked", body=b""), b"7a120\r\n", b" " * 500_000, b"zz\r\n")
    connection.rest()


def _finish(body: bytes, *headers: bytes) -> Callable[[Line, Running], None]:
    def run(connection: Line, server: Running) -> None:
        connection.send(post(CLOSE, *headers, body=body))
        connection.rest()

    return run


def _leave_while_it_is_answered(connection: Line, server: Running) -> None:
    connection.send(post(body=padded(590 * KB)))


def _send_messages(connection: Line, server: Running) -> None:
    connection.send(HANDSHAKE + framed(create(300 * KB)))
    hear(connection, b"response.completed")


def _leave_with_messages(connection: Line, server: Running) -> None:
    connection.send(HANDSHAKE + framed(create(300 * KB)) * 2 + framed(create(300 * KB))[:-9])


def _leave_in_a_message(connection: Line, server: Running) -> None:
    connection.send(HANDSHAKE + framed(b" " * 200_000, fin=False) + framed(b" " * 200_000)[:-9])


def _send_too_long_a_message(connection: Line, server: Running) -> None:
    connection.send(HANDSHAKE + framed(b" " * 250_000, fin=False) + framed(b" " * 500_000, Opcode.CONT))
    connection.rest()


ENDS: dict[str, Callable[[Line, Running], None]] = {
    "finished": _finish(padded(590 * KB)),
    "too large": _finish(padded(700 * KB)),
    "no JSON": _finish(b"x" * 500_000),
    "unpacked": _finish(gzip.compress(padded(500 * KB)), b"Content-Encoding: gzip"),
    "unpacked too far": _finish(gzip.compress(padded(700 * KB)), b"Content-Encoding: gzip"),
    "broken pack": _finish(gzip.compress(padded(500 * KB))[:-1], b"Content-Encoding: gzip"),
    "left in the middle": _leave_in_the_middle,
    "left while it is answered": _leave_while_it_is_answered,
    "broken chunk": _break_a_chunk,
    "messages": _send_messages,
    "left with messages": _leave_with_messages,
    "left in a message": _leave_in_a_message,
    "too long a message": _send_too_long_a_message,
}


@settings(max_examples=25)
@given(ends=st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=5))
def test_nothing_is_held_however_requests_end(server: Running, ends: list[str]) -> None:
    with ExitStack() as opened:
        for end in ends:
            connection = opened.enter_context(line(server))
            try:
                ENDS[end](connection, server)
            except (ConnectionError, AssertionError):
                assert server.held() <= server.gateway.memory.limit  # it was refused: others held too much
    until(lambda: server.held() == 0)
