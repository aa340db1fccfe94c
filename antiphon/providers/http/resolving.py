"""From a name to addresses, kept for a minute; and which addresses belong to the public internet."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import chain, zip_longest
from threading import Thread
from typing import Any

from antiphon.providers.http.failures import Forbidden, Unreachable
from antiphon.wires.slots import FairSlots, tenant_at_work

FRESH = 60.0
_MANY = 512
_FOREIGN_AT_ONCE = 16
"""How many names that callers gave are looked up at once, half of them for one tenant."""

_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
_SPECIAL = tuple(
    # Assignments that not every version of Python knows: protocols, relays, documentation.
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20"))
)


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    family: int
    place: tuple[Any, ...]
    """As the socket module wants it: IP address, port and, for IPv6, two more."""


@dataclass(slots=True)
class _Entry:
    addresses: Sequence[ResolvedAddress] = ()
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Resolver:
    """Asks the system, beside the event loop, and at most once a minute for each name.

    A name server that does not answer takes half a minute, and the event loop has few threads for names. So
    names that a caller gave have threads of their own, which the tenants take in turns.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int, str | None], _Entry] = {}
        self._slots = FairSlots(_FOREIGN_AT_ONCE)

    async def resolve(self, host: str, port: int, *, is_foreign: bool = False) -> Sequence[ResolvedAddress]:
        """The addresses of a name; `is_foreign` if it is not from the configuration."""
        if (literal := _literal(host, port)) is not None:
            return (literal,)
        loop = asyncio.get_running_loop()
        if len(self._entries) > _MANY:
            self._entries = {key: one for key, one in self._entries.items() if one.until > loop.time()}
        tenant = tenant_at_work() if is_foreign else None
        entry = self._entries.setdefault((host, port, tenant), _Entry())
        async with entry.lock:
            if loop.time() >= entry.until:
                entry.addresses = await self._ask(host, port, tenant)
                entry.until = loop.time() + FRESH
        return entry.addresses

    async def _ask(self, host: str, port: int, tenant: str | None) -> list[ResolvedAddress]:
        try:
            if tenant is None:
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            else:
                found = await self._ask_apart(host, port, tenant)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise Unreachable("its host name could not be resolved; check its base_url, and the network")
        addresses = dict.fromkeys(ResolvedAddress(family, tuple(place)) for family, _, _, _, place in found)
        return _alternating(list(addresses))

    async def _ask_apart(self, host: str, port: int, tenant: str) -> list[Any]:
        """Ask in a thread for this name alone; it keeps its slot until it ends, even if no task waits."""
        await self._slots.take(tenant)
        loop = asyncio.get_running_loop()
        asking: asyncio.Future[list[Any]] = loop.create_future()
        asking.add_done_callback(lambda _: self._slots.give_back(tenant))

        def ask() -> None:
            try:
                found: list[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                found = []
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(asking.set_result, found)

        # A process that ends does not wait for it.
        Thread(target=ask, name="antiphon-names", daemon=True).start()
        return await asyncio.shield(asking)

    def forget(self, host: str, port: int) -> None:
        """None of its addresses took a connection: ask again the next time."""
        for key in [key for key in self._entries if key[:2] == (host, port)]:
            del self._entries[key]


def _alternating(addresses: list[ResolvedAddress]) -> list[ResolvedAddress]:
    """The families by turns, beginning with the one that the system prefers."""
    first = [one for one in addresses if one.family == addresses[0].family]
    others = [one for one in addresses if one.family != addresses[0].family]
    return [one for one in chain.from_iterable(zip_longest(first, others)) if one is not None]


def _literal(host: str, port: int) -> ResolvedAddress | None:
    try:
        version = ip_address(host).version
    except ValueError:
        return None
    # A scope such as fe80::1%eth0 has a number that only the system knows.
    if "%" in host:
        return None
    if version == 4:
        return ResolvedAddress(socket.AF_INET, (host, port))
    return ResolvedAddress(socket.AF_INET6, (host, port, 0, 0))


def demand_public(host: str, addresses: Sequence[ResolvedAddress]) -> None:
    """Refuse a name as soon as one of its addresses is not a public one."""
    if not all(is_public(one.place[0]) for one in addresses):
        raise Forbidden(host)


def is_public(text: str) -> bool:
    """Is it globally routable, and so is the address that it may carry inside?"""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        if (inner := _inner(address)) is not None:
            return is_public(str(inner))
        if address not in _UNICAST:
            return False
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _inner(address: IPv6Address) -> IPv4Address | None:
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
