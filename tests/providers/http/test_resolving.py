"""Which addresses are public, and that with `public_only` no other is ever connected to."""

import asyncio
import socket
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.errors import ForbiddenAddress
from antiphon.providers.http import UpstreamClient, resolving
from antiphon.providers.http.resolving import ResolvedAddress, Resolver, is_public
from antiphon.wires.slots import work_for
from tests.providers.http.raw import OK, answering, body, failure, get, serving
from tests.providers.http.test_dialing import HOST, resolve
from tests.server.servers import DEADLINE

PUBLIC = [
    "1.1.1.1",
    "2a00:1450:4001:81b::200e",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "64:ff9b::101:101",
    "::ffff:1.1.1.1",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.1.2.3",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001:db8::1",
    "2001:0:53aa:64c:0:0:0:1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
    "192.0.0.8",
    "192.88.99.1",
    "2001:20::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "no address",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_other_addresses(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_as_itself(address: object) -> None:
    packed = int(address)  # type: ignore[call-overload]
    alone = is_public(str(address))
    assert is_public(f"::ffff:{address}") is alone
    assert is_public(f"64:ff9b::{packed >> 16:x}:{packed & 0xFFFF:x}") is alone
    assert is_public(f"2002:{packed >> 16:x}:{packed & 0xFFFF:x}::1") is alone


@pytest.mark.parametrize(
    "place",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0",
        "169.254.169.254",
    ],
)
async def test_no_connection_to_any_other(http: UpstreamClient, place: str) -> None:
    async with serving(answering(OK)) as server:
        error = await failure(get(http, f"http://{place}:{server.port}/", public_only=True))
        assert isinstance(error, ForbiddenAddress)
        assert (error.status, error.payload.code) == (400, "forbidden_address")
        assert "public address" in error.payload.message
        assert server.connections == 0


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["fd00::1"]])
async def test_a_name_that_leads_there(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    resolve(monkeypatch, *addresses)
    error = await failure(get(http, f"http://{HOST}/", public_only=True))
    assert isinstance(error, ForbiddenAddress)
    assert HOST in error.payload.message


async def test_a_kept_connection_is_no_way_around(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(answering(OK)) as server:
        assert await body(get(http, server.url)) == b"ok"
        assert isinstance(await failure(get(http, server.url, public_only=True)), ForbiddenAddress)
        assert await body(get(http, server.url)) == b"ok"
        assert server.connections == 1


async def test_a_name_that_changes_its_mind(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is connected to is what was checked."""
    asked = resolve(monkeypatch, "127.0.0.1")
    checked: list[str] = []

    def check(address: str) -> bool:
        checked.append(address)
        resolve(monkeypatch, "127.0.0.2")
        return True

    monkeypatch.setattr(resolving, "is_public", check)
    async with serving(answering(OK)) as server:
        assert await body(get(http, f"http://{HOST}:{server.port}/", public_only=True)) == b"ok"
        assert (asked, checked, server.connections) == ([HOST], ["127.0.0.1"], 1)


async def test_a_proxy_is_no_way_around(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering(OK)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        resolve(monkeypatch, "10.0.0.1")
        error = await failure(get(http, f"http://{HOST}/", public_only=True))
        assert isinstance(error, ForbiddenAddress)
        assert proxy.connections == 0


async def test_a_redirect_is_handed_to_the_caller(
    http: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "is_public", lambda address: True)
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"
    async with serving(answering(answer)) as server:
        async with get(http, server.url, public_only=True) as response:
            assert (response.status, response.headers["location"]) == (302, "http://127.0.0.1/")
        assert server.connections == 1


# --- names ------------------------------------------------------------------------------------------------


def test_the_families_take_turns() -> None:
    def address(text: str) -> ResolvedAddress:
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        return ResolvedAddress(family, (text, 1))

    given_ = [address(text) for text in ("a::", "b::", "c::", "1.1.1.1", "2.2.2.2")]
    found = [one.place[0] for one in resolving._alternating(given_)]
    assert found == ["a::", "1.1.1.1", "b::", "2.2.2.2", "c::"]


async def test_old_names_are_forgotten(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "_MANY", 3)
    monkeypatch.setattr(resolving, "FRESH", 0.0)
    resolve(monkeypatch, "127.0.0.1")
    resolver = resolving.Resolver()
    for n in range(10):
        await resolver.resolve(f"h{n}.example", 80)
    assert len(resolver._entries) <= 5


async def test_an_unusable_name(http: UpstreamClient) -> None:
    error = await failure(get(http, f"http://{'a' * 64}.example/"))
    assert "could not be resolved" in error.payload.message


async def test_addresses_are_not_asked_for(http: UpstreamClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolve(monkeypatch, "127.0.0.2")
    resolver = resolving.Resolver()
    assert await resolver.resolve("127.0.0.1", 80) == (ResolvedAddress(socket.AF_INET, ("127.0.0.1", 80)),)
    assert await resolver.resolve("::1", 80) == (ResolvedAddress(socket.AF_INET6, ("::1", 80, 0, 0)),)
    assert asked == []


async def test_names_that_nobody_answers_for_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes half a minute, and the event loop has a few threads for names."""
    ask, gate = socket.getaddrinfo, Event()

    def getaddrinfo(host: str, *given: object, **named: object) -> object:
        if host.startswith("slow"):
            gate.wait(DEADLINE)
        return ask("127.0.0.1" if host.startswith("slow") else host, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = Resolver()

    async def given_by(tenant: str, host: str) -> object:
        work_for(tenant)
        return await resolver.resolve(host, 80, is_foreign=True)

    slow = [asyncio.create_task(given_by("alice", f"slow{n}.test")) for n in range(40)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(DEADLINE / 2):
            assert await resolver.resolve("localhost", 80)
            assert await asyncio.create_task(given_by("bob", "localhost"))
        # Who gives up makes no room: the thread still waits.
        for task in slow:
            task.cancel()
        late = asyncio.create_task(given_by("alice", "slow.test"))
        await asyncio.wait(slow)
        assert not late.done()
    finally:
        gate.set()
    assert await late
