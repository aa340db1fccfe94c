"""The way from HTTP to a WebSocket, byte by byte, and what uvicorn leaves open there."""

import gc
import json
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest
from uvicorn.protocols.utils import ClientDisconnected
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader
from websockets.sync.client import connect

from antiphon.server.http1.connection import ClientConnection
from antiphon.server.http1.direct_exchange import DirectExchange
from antiphon.server.http1.websockets import WebSocketConnection, _frame_text
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.flood import Flood, SlowSocket
from tests.server.http_calls import dial, turn
from tests.server.raw_connection import Line, answers, connections, get, line, post
from tests.server.servers import DEADLINE, Serving, until
from tests.server.upstream import Upstream

UPGRADE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
HANDSHAKE = get(b"/v1/responses", *UPGRADE)
CLOSING = b"\x88\x80\0\0\0\0"


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture(autouse=True)
def nothing_alarming(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that a client does is an error of the server."""
    yield
    assert [record for record in caplog.get_records("call") if record.levelno >= logging.WARNING] == []


ASKED = json.dumps({"type": "response.create", "model": "scripted", "input": "hello"}).encode()


def frame(text: bytes, opcode: int = 0x81) -> bytes:
    assert len(text) < 126
    return bytes([opcode, 0x80 | len(text)]) + b"\0\0\0\0" + text


def hear(connection: Line, *words: bytes) -> bytes:
    """Read on until one of these words has come."""
    received = b""
    while not any(word in received for word in words):
        piece = connection.socket.recv(65536)
        assert piece, f"closed after {received!r}"
        received += piece
    return received


def test_a_socket_may_speak_right_behind_its_handshake(server: Serving) -> None:
    with line(server) as connection:
        connection.send(HANDSHAKE + frame(ASKED))
        assert hear(connection, b"response.completed").startswith(b"HTTP/1.1 101 ")


def test_a_message_may_come_in_several_frames(server: Serving) -> None:
    with line(server) as connection:
        connection.send(HANDSHAKE + frame(ASKED[:9], 0x01) + frame(b"", 0x89) + frame(ASKED[9:], 0x80))
        assert hear(connection, b"response.completed")


def test_a_turn_on_a_socket_that_has_just_broken(serve: Serve, upstream: Upstream) -> None:
    """The connection knows before the application does, which is told when it speaks."""
    server = serve(upstream.toml)

    async def speak() -> None:
        (connection,) = server._server.server_state.connections
        assert isinstance(connection, WebSocketConnection)
        connection.data_received(b"\xff" * 100)
        with pytest.raises(ClientDisconnected):
            await connection.send({"type": "websocket.send", "text": "{}"})

    with line(server) as connection:
        connection.send(HANDSHAKE)
        hear(connection, b"\r\n\r\n")
        server.call(speak())
        assert b"invalid opcode" in connection.rest()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1_000_000])
def test_what_is_sent_at_once_is_one_frame_of_text(size: int) -> None:
    reader = StreamReader()
    reader.feed_data(_frame_text(b"x" * size))
    with pytest.raises(StopIteration) as read:
        next(Frame.parse(reader.read_exact, mask=False))
    assert read.value.value == Frame(Opcode.TEXT, b"x" * size)
    assert not reader.buffer


def test_nothing_is_sent_at_once_on_a_socket_that_is_closing(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)

    async def put_twice() -> list[bool]:
        (connection,) = server._server.server_state.connections
        assert isinstance(connection, WebSocketConnection)
        before = connection.put([b"{}", b"[]"])
        await connection.send({"type": "websocket.close", "code": 1000})
        return [before, connection.put([b"{}"])]

    with line(server) as connection:
        connection.send(HANDSHAKE)
        hear(connection, b"\r\n\r\n")
        assert server.call(put_twice()) == [True, False]
        connection.send(CLOSING)
        assert connection.rest() == b"\x81\x02{}\x81\x02[]\x88\x02\x03\xe8"


def test_no_connection_is_left_to_the_garbage_collector(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "a few words"
    server = serve(upstream.toml)
    kinds = (WebSocketConnection, ClientConnection, DirectExchange)

    def known() -> list[object]:
        return [one for one in gc.get_objects() if type(one) in kinds]

    gc.collect()
    before = len(known())
    gc.disable()
    try:
        with dial(server) as connection:
            assert turn(connection, input="hello")["type"] == "response.completed"
            assert len(known()) > before
        with line(server) as plain:
            plain.send(post(b"Connection: close", body=b'{"input": "hello", "stream": true}'))
            assert b"response.completed" in plain.rest()
        until(lambda: len(known()) == before)
    finally:
        gc.enable()


def test_text_that_is_none_is_told_so(server: Serving) -> None:
    with line(server) as connection:
        connection.send(HANDSHAKE + frame(b'{"type": "\xff"}'))
        assert hear(connection, b"invalid_utf8")


@pytest.mark.parametrize("behind", [CLOSING, b"\xff" * 100], ids=["goodbye", "nonsense"])
def test_a_socket_may_end_right_behind_its_handshake(server: Serving, behind: bytes) -> None:
    with line(server) as connection:
        connection.send(HANDSHAKE + behind)
        received = connection.rest()
    assert received.startswith(b"HTTP/1.1 101 ")
    assert received.partition(b"\r\n\r\n")[2].startswith(b"\x88")


def test_a_socket_waits_for_the_answers_before_it(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    with line(server) as connection:
        connection.send(post(body=b'{"model": "model", "input": "hello"}') + get() + HANDSHAKE + CLOSING[:2])
        call = upstream.next()
        until(lambda: connections(server)[0]._handshake)
        connection.send(CLOSING[2:])
        call.finish("Hello.")
        plain, _, opened = connection.rest().partition(b"HTTP/1.1 101 ")
    assert [answer.status for answer in answers(plain, "POST", "GET")] == [200, 200]
    assert opened.endswith(b"\r\n\r\n\x88\x00")


def test_a_socket_after_a_plain_request_on_the_same_connection(server: Serving) -> None:
    address = httpx.URL(server.url)
    with socket.create_connection((address.host, address.port or 0), DEADLINE) as connection:
        connection.sendall(get())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        url = server.url.replace("http", "ws", 1) + "/v1/responses"
        with connect(url, sock=connection, proxy=None, open_timeout=DEADLINE) as opened:
            assert turn(opened, model="scripted", input="hello")["type"] == "response.completed"


@pytest.mark.parametrize(
    "request_",
    [
        post(*UPGRADE),
        get(b"/v1/responses", *UPGRADE, b"Content-Length: 5") + b"hello",
        get(b"/v1/responses", *UPGRADE, b"X-Long: " + b"x" * 10_000),
        get(b"/v1/responses", *UPGRADE, *[b"X-%d: x" % n for n in range(200)]),
    ],
    ids=["post", "body", "long", "many"],
)
def test_a_handshake_that_is_none_is_told_so(server: Serving, request_: bytes) -> None:
    with line(server) as connection:
        connection.send(request_)
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["code"] == "invalid_handshake"


def test_a_handshake_without_a_key_is_refused(server: Serving) -> None:
    with line(server) as connection:
        connection.send(get(b"/v1/responses", *UPGRADE[:3]))
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == 400


def test_an_old_client_gets_no_socket(server: Serving) -> None:
    with line(server) as connection:
        connection.send(HANDSHAKE.replace(b"HTTP/1.1", b"HTTP/1.0"))
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == 405


def test_a_refused_socket_is_no_error(server: Serving) -> None:
    with line(server) as connection:
        connection.send(get(b"/v1/nowhere", *UPGRADE))
        [answer] = answers(connection.rest(), "GET")
    assert (answer.status, answer.headers["connection"]) == (404, "close")


def test_a_socket_that_neither_reads_nor_answers_is_let_go(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    state = server._server.server_state
    client = SlowSocket(server)
    call = upstream.next()
    Flood(call).until_stuck()

    async def no_pong() -> None:
        for connection in state.connections:
            if isinstance(connection, WebSocketConnection):
                connection.keepalive_timeout()

    server.call(no_pong())
    assert call.was_closed()
    until(lambda: not state.connections and not state.tasks)
    client.close()
