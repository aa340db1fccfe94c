"""The client and its exchanges: a connection from the pool or a new one, one write, one wait."""

import asyncio
import ssl
from collections.abc import Mapping
from math import inf
from types import TracebackType

from antiphon.config import Timeouts
from antiphon.providers import errors
from antiphon.providers.http.connection import Connection
from antiphon.providers.http.dialing import Dialer
from antiphon.providers.http.failures import Closed, Failure, Unreachable
from antiphon.providers.http.pool import Pool
from antiphon.providers.http.proxies import proxy_for
from antiphon.providers.http.response import Response
from antiphon.providers.http.target import Origin, Target, parse
from antiphon.providers.http.watch import Watch

_MANY = 1000


class UpstreamClient:
    """Made anywhere, bound to the event loop by its first request, closed with `close`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.pool = Pool()
        self.watch = Watch()
        self._dialer = Dialer(tls)
        self._targets: dict[tuple[str, bool], Target] = {}
        self._origins: dict[tuple[str, str, int, bool], Origin] = {}

    def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: Timeouts,
        *,
        provider: str,
        reuse: bool = True,
    ) -> "Exchange":
        """`async with http.post(…) as response`; `provider` is the name that errors are told under."""
        return Exchange(self, "POST", url, body, headers, timeouts, provider, reuse)

    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        timeouts: Timeouts,
        *,
        provider: str,
        reuse: bool = True,
        public_only: bool = False,
    ) -> "Exchange":
        """With `public_only` a name that leads to any but public addresses raises `ForbiddenAddress`."""
        return Exchange(self, "GET", url, None, headers, timeouts, provider, reuse, public_only)

    async def warm(self) -> None:
        """Read the system's certificates, beside the event loop."""
        await self._dialer.tls()

    async def close(self) -> None:
        self.watch.close()
        await self.pool.close()

    def target(self, url: str, *, public_only: bool) -> Target:
        """Where an address leads, worked out once."""
        found = self._targets.get((url, public_only))
        if found is None:
            if len(self._targets) >= _MANY:
                self._targets.clear()
                self._origins = {key: one for key, one in self._origins.items() if one.idle}
            found = self._targets[url, public_only] = self._find(url, public_only)
        return found

    def _find(self, url: str, public_only: bool) -> Target:
        try:
            scheme, host, port, authorization = parse(url)
            key = scheme, host, port, public_only
            if (origin := self._origins.get(key)) is None:
                origin = self._origins[key] = Origin(scheme, host, port, proxy_for(url), public_only)
            return Target(url, origin, authorization)
        except ValueError:
            raise Unreachable("its address is not a valid http or https URL; check its base_url") from None

    async def connect(self, origin: Origin, *, single: bool) -> Connection:
        connection = Connection(self.pool, origin, asyncio.get_running_loop(), single=single)
        await self._dialer.open(origin, connection)
        self.pool.add(connection)
        return connection


class Exchange:
    """One request, and its answer while the context is open."""

    __slots__ = (
        "_body",
        "_headers",
        "_http",
        "_method",
        "_provider",
        "_public_only",
        "_response",
        "_reuse",
        "_timeouts",
        "_url",
    )

    def __init__(
        self,
        http: UpstreamClient,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeouts: Timeouts,
        provider: str,
        reuse: bool,
        public_only: bool = False,
    ) -> None:
        self._http = http
        self._method = method
        self._url = url
        self._body = body
        self._headers = headers
        self._timeouts = timeouts
        self._provider = provider
        self._reuse = reuse
        self._public_only = public_only
        self._response: Response | None = None

    async def __aenter__(self) -> Response:
        http = self._http
        response = Response(self._provider, self._timeouts, http.watch, asyncio.get_running_loop())
        try:
            target = http.target(self._url, public_only=self._public_only)
            head = target.head(self._method, self._headers, self._body, reuse=self._reuse)
            body = self._body or b""
            kept = http.pool.take(target.origin, response.started) if self._reuse else None
            connection = kept or await self._connect(target.origin, response.started)
            response.begin(connection)
            await connection.ask(head, body)
            if kept is not None and not kept.heard and isinstance(kept.error, Closed):
                # The upstream had hung up on a kept connection; it has not seen this request.
                connection = await self._connect(target.origin, response.started)
                response.begin(connection)
                await connection.ask(head, body)
            if not connection.status:
                raise connection.error or Closed()
            response.open(connection)
        except BaseException as error:
            if (left := response.leave()) is not None:
                left.abort()
            if isinstance(error, Failure):
                raise error.before_answer(self._provider) from error
            raise
        self._response = response
        self._body = None
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Nobody reads on."""
        if (response := self._response) is not None and (connection := response.leave()) is not None:
            loop = asyncio.get_running_loop()
            self._http.pool.leave(connection, loop, finished=response.is_finished)

    async def _connect(self, origin: Origin, started: float) -> Connection:
        limits = self._timeouts
        due, what, seconds = min(
            (asyncio.get_running_loop().time() + (limits.connect or inf), "no connection", limits.connect),
            (started + (limits.first_byte or inf), "no answer", limits.first_byte),
            (started + (limits.total or inf), "no answer", limits.total),
        )
        try:
            async with asyncio.timeout_at(due if due < inf else None):
                return await self._http.connect(origin, single=not self._reuse)
        except TimeoutError:
            raise errors.timed_out(self._provider, what, seconds) from None
