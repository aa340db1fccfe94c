"""From an address to a connection: TLS, proxies, and several addresses behind one name."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from antiphon.config import UpstreamTimeouts
from antiphon.providers.http import UpstreamClient, dialing
from antiphon.providers.http.target import Origin
from tests.providers.fake_server import SOON, refusing_address
from tests.providers.http.certificates import Certificate, make
from tests.providers.http.raw import (
    NEVER,
    OK,
    Reader,
    Server,
    Writer,
    answering,
    body,
    failure,
    get,
    request,
    serving,
)

HOST = "up.example"


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return make(tmp_path, "127.0.0.1", HOST)


@asynccontextmanager
async def trusting(certificate: Certificate) -> AsyncIterator[UpstreamClient]:
    client = UpstreamClient(certificate.client)
    yield client
    await client.close()


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Every name leads to these addresses; the list that is returned grows with each question."""
    asked: list[str] = []

    def look_up(host: str, port: int, **options: object) -> list[object]:
        asked.append(host)
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    async def answer(host: str, port: int, **options: object) -> list[object]:
        return look_up(host, port)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answer)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


# --- TLS --------------------------------------------------------------------------------------------------


async def test_tls(http: UpstreamClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    context = certificate.server
    names: list[str | None] = []
    context.sni_callback = lambda connection, name, _: names.append(name)
    resolve(monkeypatch, "127.0.0.1")
    async with serving(answering(OK), tls=context) as server, trusting(certificate) as client:
        url = f"https://{HOST}:{server.port}/"
        assert [await body(get(client, url)) for _ in range(2)] == [b"ok", b"ok"]
        assert (server.connections, names) == (1, [HOST])


async def test_large_bodies_over_tls(http: UpstreamClient, certificate: Certificate) -> None:
    async def echo(reader: Reader, writer: Writer) -> None:
        _, sent = await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(sent))
        writer.write(sent)
        await writer.drain()
        await reader.read()

    large = bytes(range(256)) * 10_000
    async with serving(echo, tls=certificate.server) as server, trusting(certificate) as client:
        assert await body(client.post(server.url, large, {}, NEVER, provider="up")) == large


async def test_the_environments_certificates_are_trusted(
    http: UpstreamClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    async with serving(answering(OK), tls=certificate.server) as server:
        assert await body(get(http, server.url)) == b"ok"


async def test_warming_reads_them_beforehand(
    http: UpstreamClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    await http.warm()
    monkeypatch.delenv("SSL_CERT_FILE")
    async with serving(answering(OK), tls=certificate.server) as server:
        assert await body(get(http, server.url)) == b"ok"


async def test_a_certificate_that_nobody_vouches_for(http: UpstreamClient, certificate: Certificate) -> None:
    async with serving(answering(OK), tls=certificate.server) as server:
        error = await failure(get(http, server.url))
        assert (error.status, error.payload.code) == (502, "upstream_unreachable")
        assert error.payload.message == "up: its TLS certificate was not accepted"


async def test_a_certificate_of_somebody_else(tmp_path: Path, http: UpstreamClient) -> None:
    certificate = make(tmp_path, "other.example")
    async with serving(answering(OK), tls=certificate.server) as server, trusting(certificate) as client:
        error = await failure(get(client, server.url))
        assert error.payload.message == "up: its TLS certificate was not accepted"


async def test_a_handshake_that_does_not_end(http: UpstreamClient) -> None:
    async def hang(reader: Reader, writer: Writer) -> None:
        await reader.read()

    async with serving(hang) as server:
        await http.warm()
        limits = UpstreamTimeouts(connect=0.05, first_byte=0, idle=0, total=0)
        error = await failure(get(http, server.url.replace("http:", "https:"), timeouts=limits))
        assert (error.payload.code, error.payload.message) == ("timeout", "up: no connection within 0.05 s")
        await asyncio.wait_for(server.gone.wait(), SOON)


# --- proxies ----------------------------------------------------------------------------------------------


class TunnelProxy:
    """Makes tunnels to one port, whatever name is asked for; with `refusal` it makes none."""

    def __init__(self, port: int = 0, refusal: bytes = b"") -> None:
        self.port = port
        self.refusal = refusal
        self.heads: list[str] = []

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        head, _ = await request(reader)
        self.heads.append(head)
        if self.refusal:
            writer.write(self.refusal)
            return
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
        await asyncio.gather(self._copy(reader, their_writer), self._copy(their_reader, writer))

    async def _copy(self, reader: Reader, writer: Writer) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


def use_proxy(monkeypatch: pytest.MonkeyPatch, server: Server, credentials: str = "") -> None:
    url = server.url.replace("://", f"://{credentials}")
    monkeypatch.setenv("https_proxy", url)
    monkeypatch.setenv("http_proxy", url)


async def test_a_tunnel(
    http: UpstreamClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(answering(OK), tls=certificate.server) as server, trusting(certificate) as client:
        through = TunnelProxy(server.port)
        async with serving(through) as proxy:
            use_proxy(monkeypatch, proxy, "me:p%40ss@")
            url = f"https://{HOST}:8443/x"
            assert [await body(get(client, url)) for _ in range(2)] == [b"ok", b"ok"]
            [head] = through.heads
            assert head.startswith(f"CONNECT {HOST}:8443 HTTP/1.1\r\nHost: {HOST}:8443\r\n")
            assert "Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in head
        assert [head.split("\r\n")[0] for head in server.heads] == ["GET /x HTTP/1.1"] * 2
        assert "roxy" not in "".join(server.heads)


async def test_a_tunnel_through_tls(
    http: UpstreamClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serving(answering(OK), tls=certificate.server) as server,
        serving(TunnelProxy(server.port), tls=certificate.server) as proxy,
        trusting(certificate) as client,
    ):
        use_proxy(monkeypatch, proxy)
        assert await body(get(client, f"https://{HOST}/x")) == b"ok"


async def test_a_certificate_behind_a_tunnel(
    http: UpstreamClient, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serving(answering(OK), tls=certificate.server) as server,
        serving(TunnelProxy(server.port)) as proxy,
    ):
        use_proxy(monkeypatch, proxy)
        error = await failure(get(http, f"https://{HOST}/x"))
        assert error.payload.message == "up: its TLS certificate was not accepted"


@pytest.mark.parametrize("proxy_tls", [False, True], ids=["plain proxy", "TLS to the proxy"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_gets_the_address_that_was_looked_at(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch, scheme: str, proxy_tls: bool
) -> None:
    """A name could lead the proxy elsewhere; the server still hears its name."""
    tls = certificate.server if scheme == "https" else None
    async with serving(answering(OK), tls=tls) as server, trusting(certificate) as client:
        through = TunnelProxy(server.port)
        async with serving(through, tls=certificate.server if proxy_tls else None) as proxy:
            use_proxy(monkeypatch, proxy, "me:secret@")
            resolve(monkeypatch, "93.184.216.34")
            assert await body(get(client, f"{scheme}://{HOST}:8000/x", public_only=True)) == b"ok"
        [asked] = through.heads
        assert asked.startswith("CONNECT 93.184.216.34:8000 HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic" in asked
        assert HOST not in asked
        [head] = server.heads
        assert head.startswith(f"GET /x HTTP/1.1\r\nhost: {HOST}:8000\r\n")
        assert "secret" not in head


async def test_a_proxy_that_does_not_reach_one_address_gets_the_next(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = TunnelProxy(refusal=b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
    async with serving(through) as proxy:
        use_proxy(monkeypatch, proxy)
        resolve(monkeypatch, "2a00:1450:4001:81b::200e", "93.184.216.34")
        error = await failure(get(http, f"http://{HOST}/", public_only=True))
    assert "proxy could not be used" in error.payload.message
    assert [head.split(" HTTP")[0] for head in through.heads] == [
        "CONNECT [2a00:1450:4001:81b::200e]:80",
        "CONNECT 93.184.216.34:80",
    ]


async def test_a_proxy_for_plain_requests(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering(OK)) as proxy:
        use_proxy(monkeypatch, proxy, "me:secret@")
        assert [await body(get(http, f"http://{HOST}/x?y=z")) for _ in range(2)] == [b"ok", b"ok"]
        assert proxy.connections == 1
        assert proxy.heads[0].startswith(f"GET http://{HOST}/x?y=z HTTP/1.1\r\nhost: {HOST}\r\n")
        assert "proxy-authorization: Basic bWU6c2VjcmV0" in proxy.heads[0]


@pytest.mark.parametrize("exempt", [HOST, ".example", "*", f"other,{HOST}"])
async def test_no_proxy(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch, exempt: str) -> None:
    resolve(monkeypatch, "127.0.0.1")
    async with serving(answering(OK)) as proxy, serving(answering(OK)) as server:
        use_proxy(monkeypatch, proxy)
        monkeypatch.setenv("no_proxy", exempt)
        assert await body(get(http, f"http://{HOST}:{server.port}/x")) == b"ok"
        assert (proxy.connections, server.connections) == (0, 1)


@pytest.mark.parametrize(
    "refusal",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
        b"this is no proxy\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        b"HTTP/1.1 2",
    ],
)
async def test_a_proxy_that_makes_no_tunnel(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch, refusal: bytes
) -> None:
    async with serving(TunnelProxy(refusal=refusal)) as proxy:
        use_proxy(monkeypatch, proxy)
        error = await failure(get(http, f"https://{HOST}/x"))
        assert (error.status, error.payload.code) == (502, "upstream_unreachable")
        assert "proxy could not be used; check HTTP_PROXY" in error.payload.message


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_not_there(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    with refusing_address() as address:
        monkeypatch.setenv(f"{scheme}_proxy", address)
        error = await failure(get(http, f"{scheme}://{HOST}/x"))
        assert "proxy could not be used" in error.payload.message


async def test_a_proxy_that_is_no_address(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:port")
    error = await failure(get(http, f"http://{HOST}/x"))
    assert "proxy could not be used" in error.payload.message


# --- names ------------------------------------------------------------------------------------------------


async def test_a_name_is_asked_for_once(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolve(monkeypatch, "127.0.0.1")
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with serving(answering(closing, then="close")) as server:
        url = f"http://{HOST}:{server.port}/"
        await asyncio.gather(*(body(get(http, url)) for _ in range(5)))
        await body(get(http, url))
        assert (server.connections, asked) == (6, [HOST])


async def test_a_name_is_asked_for_again_when_its_address_is_dead(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = resolve(monkeypatch, "127.0.0.1")
    with refusing_address() as address:
        url = address.replace("127.0.0.1", HOST)
        for _ in range(2):
            assert "refused" in (await failure(get(http, url))).payload.message
    assert asked == [HOST, HOST]


async def test_the_next_address_is_tried(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, "127.0.0.2", "127.0.0.3", "127.0.0.1")
    async with serving(answering(OK)) as server:
        assert await body(get(http, f"http://{HOST}:{server.port}/")) == b"ok"
        assert server.connections == 1


async def test_an_address_that_is_slow_has_company(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "STAGGER", 0.02)
    resolve(monkeypatch, "127.0.0.2", "127.0.0.1")
    async with serving(answering(OK)) as server, full(server.port):
        assert await body(get(http, f"http://{HOST}:{server.port}/")) == b"ok"


@asynccontextmanager
async def full(port: int) -> AsyncIterator[None]:
    """127.0.0.2 listens at this port and accepts nobody; its queue is full, so that later ones wait."""
    with socket.socket() as crowded, socket.socket() as first, socket.socket() as second:
        crowded.bind(("127.0.0.2", port))
        crowded.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.2", port))
        yield


async def test_no_address_answers(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, "127.0.0.1", "127.0.0.2")
    with refusing_address() as address:
        error = await failure(get(http, address.replace("127.0.0.1", HOST)))
        assert "the connection was refused; is it running" in error.payload.message


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return True
    except OSError:
        return False


def families() -> Iterable[str]:
    return ["127.0.0.1", "::1"] if has_ipv6() else ["127.0.0.1"]


@pytest.mark.parametrize("host", families())
async def test_both_families(http: UpstreamClient, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering(OK), host=host) as server:
        assert await body(get(http, server.url)) == b"ok"
        resolve(monkeypatch, host)
        assert await body(get(http, f"http://{HOST}:{server.port}/")) == b"ok"
        assert server.connections == 2


async def test_the_default_context_is_a_careful_one(http: UpstreamClient) -> None:
    context = await http._dialer.tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert await http._dialer.tls() is context


def test_a_connection_that_is_given_up_while_it_is_made_closes_its_descriptor_once() -> None:
    """Until uvloop 0.23 the socket closed the number again, which could be another connection's by then."""

    async def give_up(address: tuple[str, int]) -> int:
        sock = socket.create_connection(address)
        origin = Origin("http", *address, None, False)
        attaching = asyncio.create_task(dialing.Dialer()._attach(sock, origin, asyncio.Protocol()))
        await asyncio.sleep(0)
        attaching.cancel()
        await asyncio.wait([attaching])
        assert attaching.cancelled()
        return sock.fileno()

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert uvloop.run(give_up(server.getsockname())) == -1
