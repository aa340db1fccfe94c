"""When connections end: some wait in vain, clients take nothing or have left, the server stops."""

import asyncio
import json
import socket

import pytest

from antiphon.server import process
from antiphon.server.app import App
from antiphon.server.exchange import Exchange
from antiphon.server.http1.connection import IDLE, READ_TIMEOUT, STUCK, ClientConnection
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.raw_connection import (
    CLOSE,
    Line,
    answers,
    connections,
    get,
    line,
    post,
    sweep,
)
from tests.server.servers import Serving, until
from tests.server.upstream import Upstream

pytestmark = pytest.mark.usefixtures("nothing_alarming")


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


def test_connections_that_wait_in_vain_are_closed(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    with line(server) as idle, line(server) as slow, line(server) as stuck, line(server) as busy:
        idle.send(get())
        idle.until(b"}")
        slow.send(b"GET /healthz HTTP/1.1\r\nHost: loc")
        stuck.send(post()[:-5])
        busy.send(post(body=b'{"model": "model", "input": "hello"}'))
        call = upstream.next()
        until(lambda: len(connections(server)) == 4)
        sweep(server, READ_TIMEOUT - 5)
        assert len(connections(server)) == 4
        sweep(server, READ_TIMEOUT + 5)
        assert slow.rest() == stuck.rest() == b""
        until(lambda: len(connections(server)) == 2)
        sweep(server, IDLE + 5)
        assert idle.rest() == b""
        call.finish("Hello.")
        assert b"Hello." in busy.until(b"}")
        assert len(connections(server)) == 1


def test_a_request_that_comes_early_does_not_end_the_one_before(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    with line(server) as connection:
        connection.send(post(body=b'{"model": "model", "input": "hello"}'), b"GET /hea")
        call = upstream.next()
        until(lambda: connections(server)[0]._is_in_the_middle)
        sweep(server, READ_TIMEOUT + 5)
        call.finish("Hello.")
        connection.send(b"lthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        found = answers(connection.rest(), "POST", "GET")
    assert [answer.status for answer in found] == [200, 200]


def not_reading(server: Serving) -> Line:
    """A client that asks for much and takes nothing."""
    client = Line(server)
    client.send(get(b"/openapi.json") * 500)
    until(lambda: any(one.write_blocked for one in connections(server)))
    return client


def test_a_client_that_takes_nothing_is_let_go(serve: Serve) -> None:
    server = serve()
    with not_reading(server).socket:
        sweep(server, STUCK - 10)
        assert connections(server)
        sweep(server, STUCK + STUCK)
        until(lambda: not connections(server))


def test_a_client_that_has_said_all_still_gets_what_is_short(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    said_all = asyncio.Event()
    hear, answer_it = ClientConnection.eof_received, App.answer

    def heard(self: ClientConnection) -> bool:
        said_all.set()
        return hear(self)

    async def late(self: App, exchange: Exchange) -> None:
        await said_all.wait()
        await answer_it(self, exchange)

    monkeypatch.setattr(ClientConnection, "eof_received", heard)
    monkeypatch.setattr(App, "answer", late)
    with line(server) as connection:
        connection.send(get())
        connection.socket.shutdown(socket.SHUT_WR)
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == 200


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
def test_a_client_that_has_said_all_gets_the_answer_of_a_model(
    serve: Serve, upstream: Upstream, stream: bool
) -> None:
    server = serve(upstream.toml)
    body = json.dumps({"model": "model", "input": "hello", "stream": stream}).encode()
    with line(server) as connection:
        connection.send(post(body=body))
        call = upstream.next()
        connection.socket.shutdown(socket.SHUT_WR)
        connection.until(b"100 Continue\r\n\r\n")
        call.finish("Late, but", " here.")
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200
    assert b"Late, but here." in answer.body
    until(lambda: not server._server.server_state.tasks)


def test_all_requests_of_a_client_that_has_said_all_are_answered(server: Serving) -> None:
    with line(server) as connection:
        connection.send(get() + get(b"/openapi.json") + get())
        connection.socket.shutdown(socket.SHUT_WR)
        assert [one.status for one in answers(connection.rest(), "GET", "GET", "GET")] == [200] * 3


def test_one_that_may_be_gone_and_understands_no_probe_is_taken_to_have_left(
    serve: Serve, upstream: Upstream
) -> None:
    server = serve(upstream.toml)
    with line(server) as connection:
        connection.send(post(body=b'{"model": "model", "input": "hello"}', version=b"1.0"))
        call = upstream.next()
        connection.socket.shutdown(socket.SHUT_WR)
        assert call.was_closed()
        assert connection.rest() == b""


def test_a_large_body_waits_until_somebody_takes_it(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    pause = ClientConnection.pause_reading

    def note(self: ClientConnection) -> None:
        held.append(1)
        pause(self)

    monkeypatch.setattr(ClientConnection, "pause_reading", note)
    server = serve('[providers.demo]\ntype = "script"\n')
    text = "x" * 3_000_000
    with line(server) as connection:
        connection.send(
            post(CLOSE, body=json.dumps({"model": "demo/any", "input": "hi", "instructions": text}).encode())
        )
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200, answer.body
    assert held


def test_the_server_stops_with_connections_open(serve: Serve) -> None:
    server = serve()
    with line(server) as idle, line(server) as half:
        idle.send(get())
        idle.until(b"}")
        half.send(b"GET /hea")
        until(lambda: len(connections(server)) == 2)
        server.stop()
        assert idle.rest() == half.rest() == b""


def test_what_is_pipelined_is_answered_before_the_server_stops(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml, SERVER__DRAIN="10")
    with line(server) as connection:
        connection.send(post(body=b'{"model": "model", "input": "hello"}'))
        call = upstream.next()
        stopping = server.client()
        server._server.should_exit = True
        until(lambda: server.gateway.stopping)
        call.finish("Bye.")
        [answer] = answers(connection.rest(), "POST")
        stopping.close()
    assert answer.headers["connection"] == "close"
    assert json.loads(answer.body)["output"][0]["content"][0]["text"] == "Bye."


def test_the_server_stops_with_clients_that_hold_it_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """One does not read, one does not send the rest; both are told nothing, and the log has no error."""
    monkeypatch.setattr(process, "_GRACE", 0.2)
    server = serve()
    with not_reading(server).socket, line(server) as sending:
        sending.send(post()[:-5])
        until(lambda: any(one._current and not one._current.is_complete for one in connections(server)))
        server.stop()
