"""What is sent as the head of a request, and what is refused."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.http import UpstreamClient
from antiphon.providers.http.failures import Unreachable
from antiphon.providers.http.target import PIECE, Origin, Proxy, UpstreamUrl, parse
from tests.providers.http.raw import NEVER, OK, answering, body, failure, serving

TARGET = UpstreamUrl("http://h:81/p?q=1", Origin("http", "h", 81, None, False), None)


class Sent:
    """A head as a server reads it."""

    def __init__(self, head: bytes) -> None:
        self.headers: list[tuple[str, str]] = []
        self.path = ""
        self.complete = False
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(head)
        self.method = parser.get_method().decode()

    def on_url(self, url: bytes) -> None:
        self.path = url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode().lower(), value.decode()))

    def on_message_complete(self) -> None:
        self.complete = True


def head(target: UpstreamUrl, headers: dict[str, str], body: bytes | None, reuse: bool) -> bytes:
    message, rest = target.request(headers, body, reuse)
    assert rest is None
    assert message.endswith(b"\r\n\r\n" + (body or b""))
    return message.removesuffix(body or b"")


def test_a_head() -> None:
    sent = Sent(head(TARGET, {"Accept": "text/plain"}, b"", True))
    assert (sent.method, sent.path, sent.complete) == ("POST", "/p?q=1", True)
    assert [name for name, _ in sent.headers] == [
        "host",
        "user-agent",
        "accept-encoding",
        "accept",
        "content-length",
    ]
    assert dict(sent.headers)["host"] == "h:81"


def test_a_head_follows_what_is_asked() -> None:
    """What was rendered for one request must not be sent with another."""
    heads = [
        head(TARGET, {"A": "1"}, None, True),
        head(TARGET, {"A": "1"}, b"xyz", True),
        head(TARGET, {"A": "1"}, b"wxyz", True),
        head(TARGET, {"A": "2"}, b"xyz", True),
        head(TARGET, {"A": "1"}, b"xyz", False),
    ]
    assert len(set(heads)) == len(heads)
    assert heads[1] == head(TARGET, {"A": "1"}, b"abc", True)
    assert ("connection", "close") in Sent(heads[-1].replace(b"3\r\n\r\n", b"0\r\n\r\n")).headers


def test_a_long_body_is_not_copied() -> None:
    body = b"x" * (PIECE + 1)
    message, rest = TARGET.request({}, body, True)
    assert Sent(message + body).complete
    assert rest is not None
    assert rest.obj is body


def test_headers_that_change_in_place_are_sent_as_they_are() -> None:
    headers = {"A": "1"}
    first = head(TARGET, headers, b"", True)
    headers["A"] = "2"
    assert head(TARGET, headers, b"", True) == first.replace(b"A: 1", b"A: 2")


def test_our_own_headers_give_way() -> None:
    own = {"HOST": "other", "User-Agent": "me", "Accept-Encoding": "gzip"}
    sent = Sent(head(TARGET, own, None, True))
    assert sorted(sent.headers) == [("accept-encoding", "gzip"), ("host", "other"), ("user-agent", "me")]


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("http://a.example", "a.example", "/"),
        ("http://a.example:80/x", "a.example", "/x"),
        ("https://a.example:443/x", "a.example", "/x"),
        ("https://a.example:8443/x#part", "a.example:8443", "/x"),
        ("http://[::1]:8080/x", "[::1]:8080", "/x"),
        ("http://bücher.example/ü?ö=1 2", "xn--bcher-kva.example", "/%C3%BC?%C3%B6=1%202"),
        ("http://a.example/%20a?b=%20", "a.example", "/%20a?b=%20"),
        ("http://a.example/x\r\nHost: evil", "a.example", "/xHost:%20evil"),
    ],
)
def test_addresses(url: str, host: str, path: str) -> None:
    scheme, name, port, authorization = parse(url)
    origin = Origin(scheme, name, port, None, False)
    sent = Sent(head(UpstreamUrl(url, origin, authorization), {}, None, True))
    assert (dict(sent.headers)["host"], sent.path) == (host, path)


def test_credentials_in_an_address() -> None:
    scheme, name, port, authorization = parse("http://me:p%40ss@h/")
    target = UpstreamUrl("http://me:p%40ss@h/", Origin(scheme, name, port, None, False), authorization)
    sent = Sent(head(target, {}, None, True))
    assert dict(sent.headers)["authorization"] == "Basic bWU6cEBzcw=="
    assert (dict(sent.headers)["host"], sent.path) == ("h", "/")


def test_a_request_to_a_proxy_names_the_whole_address() -> None:
    origin = Origin("http", "h", 80, Proxy.parse("http://u:p@proxy:3128"), False)
    sent = Sent(head(UpstreamUrl("http://h/x", origin, None), {}, None, True))
    assert (sent.path, dict(sent.headers)["host"]) == ("http://h/x", "h")
    assert dict(sent.headers)["proxy-authorization"] == "Basic dTpw"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h/x",
        "ftp://h/",
        "http://",
        "http:///x",
        "http://h:port/",
        "http://a b/",
        "http://[::1/",
        "http://h/\ud800",
    ],
)
async def test_no_address(http: UpstreamClient, url: str) -> None:
    error = await failure(http.get(url, {}, NEVER, provider="up"))
    assert (error.status, error.payload.code) == (502, "upstream_unreachable")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Key", "secret\r\nX-Evil: 1"),
        ("X-Key", "secret\n"),
        ("X-Key", "secret\x00"),
        ("X-Key", "secret\ud800"),
        ("X-Key\r\nX-Evil", "secret"),
        ("X Key", "secret"),
        ("", "secret"),
        ("Content-Length", "secret"),
        ("transfer-encoding", "secret"),
        ("Connection", "secret"),
    ],
)
async def test_headers_that_would_change_the_request(http: UpstreamClient, name: str, value: str) -> None:
    async with serving(answering(OK)) as server:
        error = await failure(http.post(server.url, b"x", {name: value}, NEVER, provider="up"))
        assert (error.status, error.payload.code) == (502, "upstream_unreachable")
        assert "header" in error.payload.message
        assert "secret" not in error.payload.message
        assert server.connections == 0


async def test_words_of_any_language_in_a_header(http: UpstreamClient) -> None:
    async with serving(answering(OK)) as server:
        await body(http.post(server.url, b"x", {"X-Name": "Ærø 日"}, NEVER, provider="up"))
        assert "X-Name: Ærø 日" in server.heads[0].encode("latin-1").decode()


@given(st.text(max_size=20), st.text(max_size=40))
def test_a_header_arrives_as_it_is_or_not_at_all(name: str, value: str) -> None:
    target = UpstreamUrl("http://h/", Origin("http", "h", 80, None, False), None)
    try:
        sent = Sent(head(target, {name: value}, None, True))
    except Unreachable:
        return
    assert sent.complete
    given_ = (name.lower(), value.strip(" \t"))
    assert given_ in sent.headers
    own = {"host", "user-agent", "accept-encoding"} - {name.lower()}
    assert len(sent.headers) == 1 + len(own)
