"""Whatever else came on its connection, a request is answered as its own head says."""

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.server.http1.parsed_head import LOWERED
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.raw_connection import BODY, CLOSE, answers, get, line, post
from tests.server.servers import Serving

ORIGIN = b"https://app.example.com"
ALICE, BOB = b"Authorization: Bearer sk-alice", b"Authorization: Bearer sk-bob"
KEPT = b"Connection: keep-alive"
H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")
LAST = get(b"/healthz", CLOSE)

Alone = Callable[[bytes], tuple[object, ...]]


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    keys = key_table("alice") + key_table("bob") + key_table("laptop", tenant="alice")
    return serve_all(talking.toml + keys, SERVER__ORIGINS=ORIGIN.decode())


@pytest.fixture(scope="module")
def mine(server: Serving) -> bytes:
    """The path of a response of Alice's."""
    with server.client("sk-alice") as client:
        return f"/v1/responses/{client.create(input='hello')['id']}".encode()


def requests(mine: bytes) -> list[bytes]:
    """Each differs a little from another, and should be answered otherwise."""
    return [
        get(mine, ALICE),
        get(mine, BOB),
        get(mine, b"Authorization: Bearer sk-laptop"),
        get(mine, b"Authorization: Bearer sk-alicf"),
        get(mine, b"Authorization: Bearer sk-alice "),
        get(mine, b"Authorization:"),
        get(mine),
        get(mine, ALICE.lower()),
        get(mine, b"AUTHORIZATION: Bearer sk-bob"),
        get(mine, ALICE, BOB.replace(b"Auth", b"auth")),
        get(mine, BOB, ALICE.replace(b"Auth", b"auth")),
        get(mine, ALICE, method=b"HEAD"),
        get(mine, ALICE, method=b"PUT"),
        get(mine, ALICE, KEPT),
        get(mine, BOB, KEPT),
        get(mine, BOB, b"X-Antiphon-Dialect: openai"),
        get(mine, BOB, b"X-Antiphon-Dialect: nonsense"),
        get(mine, BOB, b"X-Request-Id: one"),
        get(mine, BOB, b"X-Request-Id: two"),
        get(mine, ALICE, b"Origin: " + ORIGIN),
        get(mine, BOB, b"Origin: " + ORIGIN),
        get(mine, ALICE, b"Origin: https://elsewhere.example.com"),
        get(mine, ALICE, b"Origin: " + ORIGIN, method=b"PUT"),
        get(mine, ALICE).replace(b"Host: localhost", b"Host: elsewhere.example.com"),
        get(mine + b"/input_items?limit=1", ALICE),
        get(mine + b"/input_items?limit=x", ALICE),
        get(mine + b"0", ALICE),
        get(b"/healthz", ALICE),
        get(b"/v1/nowhere", ALICE),
        get(mine, ALICE, b"Content-Length: 5") + b"hello",
        post(ALICE, body=b"{"),
        post(ALICE, body=b"[1, 2]"),
        post(ALICE, body=b""),
        post(ALICE, b"Transfer-Encoding: chunked", body=b"1\r\n{\r\n0\r\nOrigin: https://elsewhere\r\n\r\n"),
        post(ALICE, body=b"{").replace(b"application/json", b"text/plain"),
        post(BOB, body=b"{").replace(b"Content-Length", b"content-LENGTH"),
        post(BOB.lower(), body=b"{").replace(b"Content-Length", b"content-length"),
        post(BOB, *H2C, body=b"{"),
        post(BOB, *H2C, body=b"{").replace(b"Content-Length", b"CONTENT-LENGTH"),
    ]


def ends(mine: bytes) -> list[bytes]:
    """After which there is no other."""
    return [
        LAST,
        get(mine, ALICE, CLOSE),
        get(mine, ALICE).replace(b"HTTP/1.1", b"HTTP/1.0"),
        get(mine, ALICE, KEPT).replace(b"HTTP/1.1", b"HTTP/1.0"),
    ]


def method(request: bytes) -> str:
    return request.partition(b" ")[0].decode()


def told(server: Serving, *requests: bytes) -> list[tuple[object, ...]]:
    """What is said to each on one connection, but for what is never the same."""
    with line(server) as connection:
        connection.send(b"".join(requests))
        found = answers(connection.rest(), *map(method, requests))
    assert len(found) == len(requests)
    named = [
        {
            name: value
            for name, value in answer.headers.items()
            if name != "date" and not value.startswith("req_")
        }
        for answer in found
    ]
    return [(answer.status, headers, answer.body) for answer, headers in zip(found, named, strict=True)]


@pytest.fixture(scope="module")
def alone(server: Serving, mine: bytes) -> Alone:
    """What is said to a request on a connection of its own."""
    lasts = ends(mine)
    return cache(lambda request: told(server, *([request] if request in lasts else [request, LAST]))[0])


@given(data=st.data())
def test_every_request_is_answered_as_if_it_came_alone(
    server: Serving, mine: bytes, alone: Alone, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(requests(mine)), st.integers(1, 2)), max_size=6))
    end = data.draw(st.sampled_from(ends(mine)))
    said = [request for request, times in drawn for _ in range(times)] + [end]
    assert told(server, *said) == [alone(request) for request in said]


def test_the_requests_above_do_tell_keys_apart(mine: bytes, alone: Alone) -> None:
    keys = (ALICE, BOB, b"Authorization: Bearer sk-laptop", b"Authorization: Bearer sk-alicf")
    assert [alone(get(mine, key))[0] for key in keys] == [200, 404, 200, 401]


@pytest.mark.parametrize("name", [b"Connection", b"Proxy-Connection"])
def test_an_old_client_behind_a_proxy_is_told_as_one_however_it_wishes_to_be_kept(
    server: Serving, mine: bytes, alone: Alone, name: bytes
) -> None:
    new = get(mine, ALICE, name + b": keep-alive")
    old = new.replace(b"HTTP/1.1", b"HTTP/1.0")
    [told_alone] = told(server, old)
    assert told(server, new, old) == [alone(new), told_alone]


@pytest.mark.parametrize(
    ("headers", "trailer", "status"),
    [((ALICE,), b"Content-Type: text/plain", 200), ((), ALICE, 401), ((BOB,), b"Host: elsewhere", 200)],
    ids=["type", "key", "host"],
)
def test_what_comes_behind_a_body_is_no_header(
    server: Serving, headers: tuple[bytes, ...], trailer: bytes, status: int
) -> None:
    body = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(BODY), BODY, trailer)
    with line(server) as connection:
        connection.send(post(*headers, b"Transfer-Encoding: chunked", CLOSE, body=body))
        [answer] = answers(connection.rest(), "POST")
    assert answer.status == status


@given(st.lists(st.binary(max_size=80), max_size=40))
def test_names_of_headers_are_remembered_in_lower_case_up_to_a_limit(names: list[bytes]) -> None:
    assert [LOWERED[name] for name in names] == [name.lower() for name in names]
    assert all(LOWERED[name] == name.lower() for name in LOWERED)
    assert len(LOWERED) <= 1000
    assert max(map(len, LOWERED)) <= 64


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://evil.example/healthz", b"Host: localhost", 400),
        (b"http://evil.example/healthz", b"Host: evil.example", 403),
        (b"http://evil.example:80/v1/models", b"Host: evil.example:80", 403),
        (b"http://localhost/healthz", b"Host: evil.example", 400),
        (b"http://localhost/healthz", b"Host: localhost:8080", 200),
        (b"http://[::1]:8080/healthz", b"Host: [::1]:8080", 200),
    ],
)
def test_a_host_in_the_request_line_is_checked_as_the_header_is(
    server: Serving, target: bytes, host: bytes, status: int
) -> None:
    with line(server) as connection:
        connection.send(b"GET %b HTTP/1.1\r\n%b\r\nConnection: close\r\n\r\n" % (target, host))
        [answer] = answers(connection.rest(), "GET")
    assert answer.status == status


def test_a_websocket_whose_request_line_names_a_foreign_host_is_refused(server: Serving) -> None:
    shake = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13")
    key = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    with line(server) as connection:
        connection.send(get(b"http://evil.example/v1/responses", *shake, key))
        assert connection.rest().startswith(b"HTTP/1.1 403")
