"""HTTP/1.1 on a real socket, byte by byte: what clients and proxies may send, and what they must not."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.server.exchange import LINGER_TIMEOUT
from antiphon.server.http1 import direct_exchange
from antiphon.server.http1.connection import HEAD_LIMIT, ClientConnection
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.raw_connection import (
    BODY,
    CLOSE,
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

pytestmark = pytest.mark.usefixtures("nothing_alarming")

CHUNKED = b"Transfer-Encoding: chunked"
H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")


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
        sweep(server, LINGER_TIMEOUT - 1)
        assert connections(server)
        sweep(server, LINGER_TIMEOUT + 1)
        until(lambda: not any(one._ended for one in connections(server)))
