"""HTTP/1.1 on a real socket, byte by byte: what clients and proxies may send, and what they must not."""

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.server import process
from antiphon.server.app import App
from antiphon.server.exchange import Exchange
from antiphon.server.http1 import direct_exchange
from antiphon.server.http1.connection import HEAD_LIMIT, IDLE, LINGER, PATIENCE, STUCK, ClientConnection
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.raw_connection import (
    BODY,
    CLOSE,
    Line,
    answers,
    behind,
    connections,
    get,
    line,
    post,
    sweep,
)
from tests.server.servers import Serving, until
from tests.server.upstream import Upstream

CHUNKED = b"Transfer-Encoding: chunked"
H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")


@pytest.fixture(autouse=True)
def nothing_alarming(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that a client does is an error of the server."""
    yield
    assert [record for record in caplog.get_records("call") if record.levelno >= logging.WARNING] == []


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


def test_head_and_body_of_a_plain_answer_leave_together(server: Serving) -> None:
    with line(server) as connection:
        connection.send(post())
        whole = connection.socket.recv(65536)
    [answer] = answers(whole, "POST")
    assert answer.status == 200
    assert json.loads(answer.body)["status"] == "completed"
    assert answer.headers["date"]
    assert answer.headers["x-request-id"].startswith("req_")


@given(cuts=st.lists(st.integers(1, 400), max_size=6), chunked=st.booleans())
def test_a_request_may_come_in_any_pieces(server: Serving, cuts: list[int], chunked: bool) -> None:
    if chunked:
        framed = b"".join(
            b"%x\r\n%b\r\n" % (len(BODY[n : n + 7]), BODY[n : n + 7]) for n in range(0, len(BODY), 7)
        )
        request = post(b"Transfer-Encoding: chunked", CLOSE, body=framed + b"0\r\n\r\n")
    else:
        request = post(CLOSE)
    edges = [0, *sorted(cut for cut in set(cuts) if cut < len(request)), len(request)]
    with line(server) as connection:
        connection.send(*(request[a:b] for a, b in pairwise(edges)))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200
    assert json.loads(answer.body)["status"] == "completed"


def test_one_connection_carries_many_requests(server: Serving) -> None:
    with line(server) as connection:
        for _ in range(3):
            connection.send(get())
            [answer] = answers(connection.until(b"}"), "GET")
            assert answer.status == 200


def test_pipelined_requests_are_answered_in_order(server: Serving) -> None:
    with line(server) as connection:
        requests = [post(b"X-Request-Id: first"), get(b"/nowhere", b"X-Request-Id: second")]
        many = [get(b"/healthz", b"X-Request-Id: n%d" % n) for n in range(40)]
        connection.send(b"".join([*requests, *many, get(b"/healthz", CLOSE, b"X-Request-Id: last")]))
        found = answers(connection.rest(), "POST", *["GET"] * 42)
    names = ["first", "second", *[f"n{n}" for n in range(40)], "last"]
    assert [answer.headers["x-request-id"] for answer in found] == names
    assert [answer.status for answer in found[:3]] == [200, 404, 200]


def test_hundreds_of_requests_in_one_piece(server: Serving) -> None:
    with line(server) as connection:
        connection.send(get() * 300 + get(b"/healthz", *H2C) * 300 + get(b"/healthz", CLOSE))
        found = answers(connection.rest(), *["GET"] * 601)
    assert {answer.status for answer in found} == {200}


def test_requests_without_end_are_refused_after_a_thousand(server: Serving) -> None:
    with line(server) as connection:
        connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000)
        data = connection.rest()
    assert data.count(b"HTTP/1.1 200") <= 1001
    [answer] = answers(data[data.rindex(b"HTTP/1.1 ") :], "GET")
    assert answer.status == 429
    assert json.loads(answer.body)["error"]["code"] == "pipeline_too_long"


def test_what_comes_ahead_is_not_read_before_its_turn(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    resume = ClientConnection.resume_reading

    def note(self: ClientConnection) -> None:
        if self._is_paused:
            waiting.append(len(self._waiting))
        resume(self)

    monkeypatch.setattr(ClientConnection, "resume_reading", note)
    server = serve(upstream.toml)
    with line(server) as connection:
        connection.send(post(body=b'{"model": "model", "input": "hello"}') + get() * 40)
        call = upstream.next()
        until(lambda: connections(server)[0]._is_paused)
        connection.send(get() * 40, get(b"/healthz", CLOSE))
        call.finish("Hello.")
        answers(connection.rest(), "POST", *["GET"] * 81)
    assert max(waiting) <= 8


def test_garbage_behind_requests_does_not_spoil_their_answers(server: Serving) -> None:
    with line(server) as connection:
        connection.send(post() + get() + get(b"/nowhere") + b"\x00\x01 nonsense\r\n\r\n")
        found = answers(connection.rest(), "POST", "GET", "GET", "GET")
    assert [answer.status for answer in found] == [200, 200, 404, 400]
    assert [answer.headers["connection"] for answer in found] == [None, None, None, "close"]


def test_what_follows_the_last_request_is_ignored(server: Serving) -> None:
    with line(server) as connection:
        connection.send(post(CLOSE) + get())
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200


@pytest.mark.parametrize(
    "bad",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELLO\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : spaced\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        post(b"Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n"),
        get(b"/healthz", b"Host: localhost"),
        get(b"/healthz", b"hOST: localhost"),
    ],
    ids=[
        "tls",
        "words",
        "space",
        "nul",
        "two lengths",
        "lengths differ",
        "negative",
        "chunk",
        "two hosts",
        "two hosts in two spellings",
    ],
)
def test_what_is_not_http_is_told_so_as_json(server: Serving, bad: bytes) -> None:
    with line(server) as connection:
        connection.send(bad)
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    error = json.loads(answer.body)["error"]
    assert (error["type"], error["code"]) == ("invalid_request", "invalid_http")


def test_a_chunk_that_breaks_later_is_told_too(server: Serving) -> None:
    with line(server) as connection:
        connection.send(post(b"Transfer-Encoding: chunked", b"Expect: 100-continue", body=b""))
        assert connection.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(b"zz\r\n")
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 400


def test_a_request_that_breaks_after_its_answer_gets_no_other(server: Serving) -> None:
    with line(server) as connection:
        connection.send(post(CHUNKED, body=b"").replace(b"application/json", b"text/plain"))
        first = connection.until(b"}")
        connection.send(b"zz\r\n")
        [answer] = answers(first + connection.rest(), "POST")
    assert answer.status == 415


def test_a_request_that_breaks_before_anybody_looks_at_it_gets_one_answer(server: Serving) -> None:
    request = post(CHUNKED, body=b"").replace(b"/v1/responses", b"/nowhere")
    with line(server) as connection:
        there = until(lambda: behind(server, connection))
        assert there is not None

        async def both() -> None:
            for piece in (request, b"zz\r\n"):
                there.data_received(piece)

        server.call(both())
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 400


@pytest.mark.parametrize("begun", [b"0\r\nX-Long: ", b"1;long="], ids=["trailer", "extension"])
def test_what_is_around_a_body_has_a_limit_too(server: Serving, begun: bytes) -> None:
    with line(server) as connection:
        connection.send(post(CHUNKED, body=begun + b"x" * 1_000_000))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 431


def test_the_end_of_a_long_body_does_not_count_as_headers(server: Serving) -> None:
    request = post(body=b"x" * 200_000).replace(b"/v1/responses", b"/nowhere") + get(b"/healthz", CLOSE)
    with line(server) as connection:
        connection.send(request[:100], request[100:-20])
        first = connection.until(b"}")
        connection.send(request[-20:])
        found = answers(first + connection.rest(), "POST", "GET")
    assert [answer.status for answer in found] == [404, 200]


def test_spaces_behind_a_value_are_no_part_of_it(server: Serving) -> None:
    with line(server) as connection:
        connection.send(
            get(b"/healthz", CLOSE, b"X-Request-Id:  mine \t ").replace(b"localhost", b"localhost ")
        )
        [answer] = answers(connection.rest(), "GET")
    assert (answer.status, answer.headers["x-request-id"]) == (200, "mine")


@pytest.mark.parametrize("host", [b"localhost", b"elsewhere"])
def test_a_second_host_is_refused_also_behind_a_head_that_is_known(server: Serving, host: bytes) -> None:
    with line(server) as connection:
        connection.send(get())
        assert b" 200 " in connection.until(b"}")
        connection.send(get().replace(b"Host:", b"Host: %b\r\nHost:" % host))
        [answer] = answers(connection.rest(), "GET")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "invalid_http")


@pytest.mark.parametrize(
    "fields",
    [b"X-Long: " + b"x" * HEAD_LIMIT, *(b"\r\n".join([b"%b: y" % name] * 15_000) for name in (b"X", b"XY"))],
    ids=["one", "many", "many more"],
)
def test_headers_that_come_in_one_piece_have_a_limit(server: Serving, fields: bytes) -> None:
    with line(server) as connection:
        there = until(lambda: behind(server, connection))
        assert there is not None

        async def at_once() -> None:
            there.data_received(get(b"/healthz", fields))

        server.call(at_once())
        [answer] = answers(connection.rest(), "GET")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (431, "headers_too_large")


def test_headers_have_a_limit(server: Serving) -> None:
    with line(server) as connection:
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        connection.send(b"X-Long: " + b"x" * HEAD_LIMIT)
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == 431
    assert json.loads(answer.body)["error"]["code"] == "headers_too_large"


def test_a_client_that_asks_first_is_told_to_go_on(server: Serving) -> None:
    request = post(b"Expect: 100-continue", CLOSE)
    head, body = request[: -len(BODY)], request[-len(BODY) :]
    with line(server) as connection:
        connection.send(head)
        assert connection.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(body)
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 200


def test_a_client_that_asks_first_may_be_refused_instead(server: Serving) -> None:
    with line(server) as connection:
        request = post(b"Expect: 100-continue").replace(b"application/json", b"text/plain")
        connection.send(request[: -len(BODY)])
        [answer] = answers(connection.rest(), "POST")
    assert (answer.status, answer.headers["connection"]) == (415, "close")


def test_an_old_client_is_not_told_to_go_on(server: Serving) -> None:
    request = post(b"Expect: 100-continue", version=b"1.0")
    with line(server) as connection:
        connection.send(request[:-5])
        until(lambda: any(one._current for one in connections(server)))
        connection.send(request[-5:])
        assert connection.rest().startswith(b"HTTP/1.1 200 ")


def test_an_answer_before_the_end_of_the_body_keeps_the_connection_in_order(server: Serving) -> None:
    request = post(body=b"x" * 300_000).replace(b"application/json", b"text/plain")
    with line(server) as connection:
        connection.send(request[:1000])
        first = connection.until(b"}")
        connection.send(request[1000:], get(b"/healthz", CLOSE))
        refused, healthy = answers(first + connection.rest(), "POST", "GET")
    assert (refused.status, healthy.status) == (415, 200)


@pytest.mark.parametrize("version", [b"1.0", b"2.0"])
@pytest.mark.parametrize("headers", [(), (b"Connection: keep-alive",), H2C], ids=["plain", "kept", "h2c"])
def test_an_old_client_gets_its_stream_without_chunks(
    server: Serving, version: bytes, headers: tuple[bytes, ...]
) -> None:
    body = json.dumps({"model": "scripted", "input": "hello", "stream": True}).encode()
    with line(server) as connection:
        connection.send(post(*headers, body=body, version=version))
        [answer] = answers(connection.rest(), "POST")
    assert answer.headers["transfer-encoding"] is None
    assert answer.headers["connection"] == "close"
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_head_has_the_headers_of_get_and_no_body(server: Serving) -> None:
    with line(server) as connection:
        connection.send(get(method=b"HEAD") + get(b"/healthz", CLOSE))
        head, whole = answers(connection.rest(), "HEAD", "GET")
    assert head.body == b""
    assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.body))


@pytest.mark.parametrize(
    "target", [b"http://localhost/healthz?a=b", b"/healthz?", b"/%68ealthz", b"/healthz/"]
)
def test_a_path_may_be_written_in_several_ways(server: Serving, target: bytes) -> None:
    with line(server) as connection:
        connection.send(get(target, CLOSE))
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == 200


def test_a_protocol_that_is_not_spoken_here_is_ignored(server: Serving) -> None:
    with line(server) as connection:
        last = (b"Connection: close, Upgrade", b"Upgrade: h2c")
        connection.send(get(b"/healthz", *H2C), post(*H2C), get(b"/healthz", *last))
        asked, created, last_answer = answers(connection.rest(), "GET", "POST", "GET")
    assert asked.status == last_answer.status == 200
    assert json.loads(created.body)["status"] == "completed"


def test_a_tunnel_is_refused(server: Serving) -> None:
    with line(server) as connection:
        connection.send(b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n" + get())
        [answer] = answers(connection.rest(), "GET")
    assert (answer.status, answer.headers["connection"]) == (404, "close")


def test_a_refusal_reaches_a_client_that_is_still_sending(server: Serving) -> None:
    request = post(CLOSE, body=b"x" * 20_000_000).replace(b"application/json", b"text/plain")
    with line(server) as connection:
        connection.send(request)
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == 415


def test_what_follows_an_answer_is_not_taken_for_ever(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_exchange, "SKIPPED", 1_000_000)
    with line(server) as connection:
        connection.send(post(CHUNKED, body=b"").replace(b"application/json", b"text/plain"))
        connection.until(b"}")
        with pytest.raises(ConnectionError):
            connection.send(*[b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 10_000)


def test_a_client_that_never_stops_sending_is_cut_off(server: Serving) -> None:
    with line(server) as connection:
        connection.send(b"HELLO\r\n\r\n")
        until(lambda: any(one._ended for one in connections(server)))
        sweep(server, LINGER - 1)
        assert connections(server)
        sweep(server, LINGER + 1)
        until(lambda: not any(one._ended for one in connections(server)))


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
        sweep(server, PATIENCE - 5)
        assert len(connections(server)) == 4
        sweep(server, PATIENCE + 5)
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
        sweep(server, PATIENCE + 5)
        call.finish("Hello.")
        connection.send(b"lthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        found = answers(connection.rest(), "POST", "GET")
    assert [answer.status for answer in found] == [200, 200]


def not_reading(server: Serving) -> Line:
    """A client that asks for much and takes nothing."""
    client = Line(server)
    client.send(get(b"/openapi.json") * 500)
    until(lambda: any(one.clogged for one in connections(server)))
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


def test_a_client_that_has_said_all_is_taken_to_have_left_a_model(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    with line(server) as connection:
        connection.send(post(body=b'{"model": "model", "input": "hello"}'))
        call = upstream.next()
        connection.socket.shutdown(socket.SHUT_WR)
        assert call.was_closed()
        assert connection.rest() == b""
    until(lambda: not server._server.server_state.tasks)


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
