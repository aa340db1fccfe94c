"""What clients send is held within limits, whoever they are, and let go of however it ends."""

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from antiphon.server.app import App
from antiphon.server.body_memory import STALLED, BodyMemory, MemoryShare
from antiphon.server.http1.websockets import WebSocketConnection
from antiphon.spec.errors import SpecError
from antiphon.wires.asgi import AsgiMessage
from antiphon.wires.responses_socket import WAITING_BYTES
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http1.test_websockets import HANDSHAKE, hear
from tests.server.http_calls import dial, key_table, turn
from tests.server.limited import KB, LIMITS, Running, half, limited, padded
from tests.server.raw_connection import CLOSE, Line, answers, line, post
from tests.server.servers import Serving, configure, until
from tests.server.upstream import Upstream


@pytest.fixture(scope="module", params=["direct", "asgi"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, talking: Voice
) -> Iterator[Running]:
    with limited(request.param, tmp_path_factory.mktemp("server"), talking.toml) as running:
        yield running


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


def test_bodies_that_stall_make_room_for_another_tenant(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were held for as long as they dripped, and every large request of the others was a 503."""
    server = serve(upstream.toml + "".join(map(key_table, ("alice", "bob", "carol"))), **LIMITS)
    upstream.answer = "Hello."
    alice, bob, carol = (b"Authorization: Bearer sk-" + name for name in (b"alice", b"bob", b"carol"))

    def asked(key: bytes, size: int) -> int:
        with line(server) as connection:
            connection.send(post(CLOSE, key, body=padded(size).replace(b"scripted", b"model")))
            [answer] = answers(connection.rest(), "POST")
            return answer.status

    with line(server) as first, line(server) as second:
        first.send(post(alice, body=padded(500 * KB))[: 450 * KB])
        until(lambda: server.gateway.memory.held >= 400 * KB)
        assert asked(alice, 300 * KB) == 503
        second.send(post(carol, body=padded(500 * KB))[: 450 * KB])
        until(lambda: server.gateway.memory.held >= 800 * KB)
        assert asked(bob, 110 * KB) == 503  # it takes five times as much
        monkeypatch.setattr(server.gateway.memory, "clock", lambda: time.monotonic() + 2 * STALLED)
        assert asked(bob, 110 * KB) == 200
        [ended] = answers(first.until(b"}"), "POST")
        assert (ended.status, json.loads(ended.body)["error"]["code"]) == (408, "body_stalled")
        until(lambda: 0 < server.gateway.memory.held <= 500 * KB)  # there was no need to end the other
    until(lambda: server.gateway.memory.held == 0)


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
    others = MemoryShare(app.gateway.memory)
    others.hold(900 * KB)
    told: asyncio.Queue[AsgiMessage] = asyncio.Queue()
    waiting: asyncio.Queue[AsgiMessage] = asyncio.Queue()
    scope = {"type": "websocket", "path": "/v1/responses", "headers": [(b"host", b"localhost")]}
    talk = asyncio.ensure_future(app(scope, waiting.get, told.put))

    async def answered(message: AsgiMessage) -> Any:
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


def test_a_message_that_stalls_makes_room(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(upstream.toml, **LIMITS)
    upstream.answer = "Hello."
    sent = bytes([0x81, 0xFF]) + (590 * KB).to_bytes(8) + b"\0\0\0\0" + b" " * (500 * KB)
    with line(server) as first, line(server) as second:
        first.send(HANDSHAKE)
        hear(first, b"\r\n\r\n")
        first.send(sent)
        until(lambda: server.gateway.memory.held >= 500 * KB)
        monkeypatch.setattr(server.gateway.memory, "clock", lambda: time.monotonic() + 2 * STALLED)
        second.send(post(CLOSE, body=padded(590 * KB).replace(b"scripted", b"model")))
        [answer] = answers(second.rest(), "POST")
        closed = first.rest()
    assert answer.status == 200
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


def test_a_tenant_has_no_more_than_its_part_and_does_not_move_itself_aside() -> None:
    now = [0.0]
    memory = BodyMemory(1000 * KB, 600 * KB, lambda: now[0])
    ended: list[str] = []

    def share(tenant: str, size: int) -> MemoryShare:
        made = MemoryShare(memory, tenant)
        made.coming(lambda: ended.append(tenant))
        made.hold(size * KB)
        return made

    share("alice", 300)
    moves = share("alice", 200)
    with pytest.raises(SpecError):
        share("alice", 200)
    now[0] += STALLED
    moves.hold(220 * KB)
    with pytest.raises(SpecError):
        share("bob", 900)  # what stalls is not enough
    assert ended == []
    share("alice", 300)
    assert (ended, memory.of_tenant) == (["alice"], {"alice": 520 * KB})
    share("bob", 400)
    assert ended == ["alice"]


# --- whatever happens -------------------------------------------------------------------------------------


@given(sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 900), st.integers(0, 900)), max_size=20))
def test_no_more_than_the_limit_is_ever_held(sizes: list[tuple[int, int, int]]) -> None:
    memory = BodyMemory(1000 * KB)
    parts = [MemoryShare(memory) for _ in range(3)]
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
    hear(connection, b"response.completed", b"memory_limit")


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
