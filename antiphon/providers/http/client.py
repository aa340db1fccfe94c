"""The client: the addresses that it knows, and its connections to them."""

import asyncio
import ssl
from asyncio import AbstractEventLoop
from collections.abc import Mapping

from antiphon.config import UpstreamTimeouts
from antiphon.providers.http.connection import UpstreamConnection
from antiphon.providers.http.deadlines import DeadlineTimer
from antiphon.providers.http.dialing import Dialer
from antiphon.providers.http.exchange import UpstreamExchange
from antiphon.providers.http.failures import Unreachable
from antiphon.providers.http.pool import Pool
from antiphon.providers.http.target import Origin, UpstreamUrl, parse, proxy_for

_MANY = 1000


class UpstreamClient:
    """Made anywhere, bound to the event loop by its first request, closed with `close`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.loop: AbstractEventLoop | None = None
        self.deadlines = DeadlineTimer()
        self.pool = Pool(self.deadlines)
        self._dialer = Dialer(tls)
        self.targets: tuple[dict[str, UpstreamUrl], dict[str, UpstreamUrl]] = ({}, {})
        """Where an address leads, and where one that must be public does."""
        self._origins: dict[tuple[str, str, int, bool], Origin] = {}

    def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: UpstreamTimeouts,
        provider: str,
        reuse: bool = True,
    ) -> UpstreamExchange:
        """`async with http.post(…) as response`; `provider` is the name that errors begin with."""
        return UpstreamExchange(self, url, body, headers, timeouts, provider, reuse)

    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        timeouts: UpstreamTimeouts,
        *,
        provider: str,
        reuse: bool = True,
        public_only: bool = False,
    ) -> UpstreamExchange:
        """With `public_only` a name that leads to any but public addresses raises `ForbiddenAddress`."""
        return UpstreamExchange(self, url, None, headers, timeouts, provider, reuse, public_only)

    async def warm(self) -> None:
        """Read the system's certificates, beside the event loop."""
        await self._dialer.tls()

    async def close(self) -> None:
        self.deadlines.close()
        await self.pool.close()
        self.loop = None

    def find(self, url: str, public_only: bool) -> UpstreamUrl:
        """Work out where an address leads, and remember it."""
        targets = self.targets[public_only]
        if len(targets) >= _MANY:
            targets.clear()
            self._origins = {key: one for key, one in self._origins.items() if one.idle}
        try:
            scheme, host, port, authorization = parse(url)
            key = scheme, host, port, public_only
            if (origin := self._origins.get(key)) is None:
                origin = self._origins[key] = Origin(scheme, host, port, proxy_for(url), public_only)
            targets[url] = target = UpstreamUrl(url, origin, authorization)
        except ValueError:
            raise Unreachable("its address is not a valid http or https URL; check its base_url") from None
        return target

    async def connect(self, origin: Origin, *, single: bool) -> UpstreamConnection:
        connection = UpstreamConnection(self.pool, origin, asyncio.get_running_loop(), single=single)
        await self._dialer.open(origin, connection)
        if connection.is_usable:  # the upstream may have hung up by now
            self.pool.add(connection)
        return connection
